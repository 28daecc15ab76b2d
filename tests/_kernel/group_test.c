/* threads */
/* Group commit: for which appenders a leader waits, for how long, and when it does not wait. */
#include "scene.h"

#include "group_commit.h"

#define LONG_NS (20000 * MILLISECOND)

/* Runs a flush for `count` appenders that takes long enough for the next leader to gather, and lets
 * that leader wait for `patience_ns`. */
static void flush_served(cl_group_commit *group, uint32_t count, int64_t patience_ns) {
    for (uint32_t index = 0; index < count; index++) {
        cl_group_commit_arrive(group);
    }
    cl_group_commit_begin(group);
    cl_sleep_ns(2 * MILLISECOND);
    cl_group_commit_end(group);
    CHECK(group->until_ns > cl_clock_monotonic_ns() - PATIENCE_NS);
    group->until_ns = cl_clock_monotonic_ns() + patience_ns;
}

static int64_t gathering_time(cl_group_commit *group, int64_t deadline_ns) {
    int64_t began_ns = cl_clock_monotonic_ns();
    cl_group_commit_gather(group, deadline_ns);
    return cl_clock_monotonic_ns() - began_ns;
}

static void *arrive_again(void *argument) {
    for (int index = 0; index < 3; index++) {
        cl_sleep_ns(5 * MILLISECOND);
        cl_group_commit_arrive(argument);
    }
    return NULL;
}

static void leader_waits_until_its_group_has_arrived(void) {
    cl_group_commit group = {0};
    pthread_t others;
    flush_served(&group, 4, LONG_NS);
    cl_group_commit_arrive(&group); /* the leader itself; three are missing */
    CHECK(pthread_create(&others, NULL, arrive_again, &group) == 0);
    CHECK(gathering_time(&group, INT64_MAX) < LONG_NS / 2 && group.arrived == 8 &&
          group.rests == 0);
    pthread_join(others, NULL);
}

/* Four appenders arrive during a flush for four others: the next leader waits for all eight. */
static void arrivals_during_a_flush_join_the_group(void) {
    cl_group_commit group = {0};
    flush_served(&group, 4, 0);
    for (int index = 0; index < 4; index++) {
        cl_group_commit_arrive(&group);
    }
    cl_group_commit_begin(&group);
    for (int index = 0; index < 4; index++) {
        cl_group_commit_arrive(&group); /* appenders of the first flush */
    }
    cl_group_commit_end(&group);
    CHECK(group.complete == 4 + 4 + 4 + 4);
}

static void single_appender_does_not_gather(void) {
    cl_group_commit group = {0};
    for (int turn = 0; turn < 5; turn++) {
        flush_served(&group, 1, LONG_NS);
        cl_group_commit_arrive(&group);
        CHECK(gathering_time(&group, INT64_MAX) < LONG_NS / 2);
        cl_group_commit_begin(&group);
        cl_group_commit_end(&group);
    }
}

static void leader_after_the_window_does_not_gather(void) {
    cl_group_commit group = {0};
    flush_served(&group, 4, 0);
    cl_sleep_ns(MILLISECOND);
    cl_group_commit_arrive(&group);
    cl_group_commit_gather(&group, INT64_MAX);
    CHECK(group.awaited == 0);
}

static void short_flush_opens_no_window(void) {
    cl_group_commit group = {0};
    for (int turn = 0; turn < 100; turn++) { /* a flush that is not preempted is short */
        cl_group_commit_begin(&group);
        cl_group_commit_end(&group);
        if (group.until_ns <= cl_clock_monotonic_ns()) {
            return;
        }
    }
    CHECK(false);
}

static void served_threads_return_before_the_next_flush(void) {
    cl_group_commit group = {0};
    int64_t before_ns = cl_clock_monotonic_ns();
    group.began_ns = before_ns - 3 * MILLISECOND / 10;
    group.complete = 20;
    cl_group_commit_end(&group);
    CHECK(group.until_ns >= before_ns + 2 * MILLISECOND / 10);
    /* The wait is never longer than the flush. */
    group.began_ns = before_ns;
    group.complete = UINT32_MAX;
    cl_sleep_ns(MILLISECOND / 10);
    cl_group_commit_end(&group);
    int64_t after_ns = cl_clock_monotonic_ns();
    CHECK(group.until_ns <= after_ns + (after_ns - before_ns));
}

static void deadline_ends_gathering(void) {
    cl_group_commit group = {0};
    flush_served(&group, 4, LONG_NS);
    cl_group_commit_arrive(&group);
    CHECK(gathering_time(&group, deadline(5 * MILLISECOND)) < LONG_NS / 2);
}

/* Fruitless waits make the leader gather less and less often. */
static void fruitless_waits_make_gathering_rare(void) {
    cl_group_commit group = {0};
    uint32_t waits = 0;
    for (int turn = 0; turn < 400; turn++) {
        group.complete = group.arrived + 3;
        group.until_ns = deadline(MILLISECOND / 10);
        group.awaited = 0;
        cl_group_commit_gather(&group, INT64_MAX);
        waits += group.awaited != 0;
    }
    CHECK(waits >= 6 && waits <= 12 && group.in_vain == 63);
}

int main(void) {
    leader_waits_until_its_group_has_arrived();
    arrivals_during_a_flush_join_the_group();
    single_appender_does_not_gather();
    leader_after_the_window_does_not_gather();
    short_flush_opens_no_window();
    served_threads_return_before_the_next_flush();
    deadline_ends_gathering();
    fruitless_waits_make_gathering_rare();
    return 0;
}
