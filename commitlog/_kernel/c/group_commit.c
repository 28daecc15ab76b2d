#include "group_commit.h"

#include "atomics.h"
#include "futex.h"

/* If a leader began at once, it would serve only the threads that arrived during the flush before,
 * while the threads of that flush are still appending their next record: two groups would
 * alternate, and every flush would serve half of the threads.
 *
 * The leader therefore waits for them, within these bounds: */
#define LEAST_FLUSH_NS 50000ll /* after a shorter flush the leader does not wait */
/* Counted from the end of the last flush, and no longer than that took. The threads return one
 * after another, in 5 to 10 us each, because each needs the interpreter's lock. */
#define RETURN_NS 10000ll
#define PATIENCE_SHARE 4 /* of the last flush's time, if that is more */
#define PATIENCE_NS 1000000ll
#define RESTS_MOST 63u          /* flushes without a wait, if the awaited threads do not return */

void cl_group_commit_arrive(cl_group_commit *group) {
    uint32_t number = cl_add32(&group->arrived, 1) + 1;
    if (number == cl_load32_ordered(&group->awaited)) {
        cl_futex_wake_private(&group->arrived);
    }
}

void cl_group_commit_gather(cl_group_commit *group, int64_t deadline_ns) {
    uint32_t first = cl_load32(&group->arrived), came = first;
    int32_t missing = (int32_t)(group->complete - first);
    int64_t now_ns = cl_clock_monotonic_ns();
    int64_t until_ns = group->until_ns < deadline_ns ? group->until_ns : deadline_ns;
    if (missing <= 0 || now_ns >= until_ns) {
        return;
    }
    if (group->rests != 0) {
        group->rests--;
        return;
    }
    cl_store32(&group->awaited, group->complete);
    while ((int32_t)(group->complete - came) > 0 && now_ns < until_ns) {
        cl_futex_wait_private(&group->arrived, came, until_ns - now_ns);
        came = cl_load32(&group->arrived);
        now_ns = cl_clock_monotonic_ns();
    }
    cl_assert((int32_t)(came - first) >= 0, ==, true);
    bool in_vain = (int32_t)(came - first) < (missing + 1) / 2;
    group->in_vain = !in_vain                       ? 0
                     : group->in_vain >= RESTS_MOST ? RESTS_MOST
                                                    : 2 * group->in_vain + 1;
    group->rests = group->in_vain;
    cl_assert(group->rests, <=, RESTS_MOST);
}

void cl_group_commit_begin(cl_group_commit *group) {
    uint32_t arrived = cl_load32(&group->arrived);
    /* For now, the threads that this flush serves; `cl_group_commit_end` adds those that arrived
     * meanwhile. */
    cl_assert((int32_t)(arrived - group->begun) >= 0, ==, true);
    group->complete = arrived - group->begun;
    group->begun = arrived;
    group->began_ns = cl_clock_monotonic_ns();
}

static int64_t smaller(int64_t one, int64_t other) { return one < other ? one : other; }

static int64_t patience(int64_t took_ns, uint32_t served) {
    if (took_ns < LEAST_FLUSH_NS) {
        return 0;
    }
    int64_t share_ns = smaller(took_ns / PATIENCE_SHARE, PATIENCE_NS);
    int64_t returns_ns = smaller(served * RETURN_NS, took_ns);
    return share_ns > returns_ns ? share_ns : returns_ns;
}

void cl_group_commit_end(cl_group_commit *group) {
    int64_t now_ns = cl_clock_monotonic_ns(), took_ns = now_ns - group->began_ns;
    group->until_ns = now_ns + patience(took_ns, group->complete);
    group->complete += cl_load32(&group->arrived);
}
