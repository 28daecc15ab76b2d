#define _GNU_SOURCE
#include "flush.h"

#include <errno.h>

#include "checkpoint.h"
#include "commit.h"
#include "futex.h"
#include "resolve.h"

#define KEEP_MAPPED 64u             /* segments kept mapped for readers after they are flushed */
#define LEADER_POLL_NS 1000000ll    /* how often a follower probes whether its leader lives */
#define WAITER_POLL_NS 10000000ll   /* how often the other waiters check if they are served */
#define CLAIM_POLL_NS 50000ll       /* how often a leader polls a claim that blocks its commit */
/* After a round that commits this much, the next one follows after COMMIT_INTERVAL_NS. */
#define BUSY_BYTES (64u << 10)
#define COMMIT_INTERVAL_NS 2000000ll
/* How often a loop polls a claim that blocks it: less than CL_POLL_CREDIT_NS. */
#define BUSY_INTERVAL_NS 10000000ll

/* Takes the lead: one flush runs at a time in all processes. The handle has a flag of its own, too:
 * another process may replace this handle's leader as stuck while its flush still runs, and two
 * flushes through one mapping could share a write error, which the system reports only once. */
static bool lead_try(cl_log *log) {
    uint32_t idle = 0;
    if (!__atomic_compare_exchange_n(&log->leading, &idle, 1, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_RELAXED)) {
        return false;
    }
    uint64_t none = 0;
    cl_assert(log->owner, !=, 0);
    if (cl_swap(&log->cursors->flusher.value, &none, log->owner)) {
        return true;
    }
    cl_store32(&log->leading, 0);
    return false;
}

static void lead_end(cl_log *log) {
    int cause = errno; /* the errno that the leader reports */
    uint64_t mine = log->owner;
    cl_assert(cl_load32(&log->leading), ==, 1);
    /* Fails if another process has replaced this leader as stuck. */
    cl_swap(&log->cursors->flusher.value, &mine, 0);
    cl_store32(&log->leading, 0);
    cl_futex_raise((uint32_t *)&log->cursors->flush_signal.value);
    errno = cause;
}

/* Returns how long this handle has polled this flush of this leader; -1 at the first poll. Time in
 * which the machine was suspended counts at most CL_POLL_CREDIT_NS a poll. */
static int64_t waited_for(cl_log *log, uint64_t leader, uint32_t signal) {
    cl_lead_watch *watch = &log->lead_watch;
    uint64_t which = leader << 32 | signal;
    int64_t now_ns = cl_clock_monotonic_ns();
    int64_t passed_ns = now_ns - __atomic_exchange_n(&watch->polled_ns, now_ns, __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&watch->which, which, __ATOMIC_RELAXED) != which) {
        __atomic_store_n(&watch->awake_ns, 0, __ATOMIC_RELAXED);
        return -1;
    }
    passed_ns = passed_ns < CL_POLL_CREDIT_NS ? passed_ns : CL_POLL_CREDIT_NS;
    return __atomic_add_fetch(&watch->awake_ns, passed_ns, __ATOMIC_RELAXED);
}

/* Removes the leader if it is dead, or if it has not finished its flush within the claim timeout:
 * it is stopped, or blocked at the disk. The next waiter then leads. The old leader's flush may
 * still run; that is safe, because each leader raises the watermark only over what it has flushed
 * itself. Returns true if the leader is still at the flush that the previous call saw. */
static bool replace_stuck_leader(cl_log *log) {
    uint32_t signal = cl_load32((uint32_t *)&log->cursors->flush_signal.value);
    uint64_t leader = cl_load(&log->cursors->flusher.value);
    if (leader == 0) {
        return false;
    }
    int64_t waited_ns = waited_for(log, leader, signal);
    bool stuck =
        waited_ns >= log->claim_timeout_ns ||
        cl_owner_dead(log, cl_owner_slot((uint32_t)leader), cl_owner_generation((uint32_t)leader));
    if (stuck && cl_swap(&log->cursors->flusher.value, &leader, 0)) {
        cl_futex_raise((uint32_t *)&log->cursors->flush_signal.value);
    }
    return waited_ns >= 0;
}

/* Flushes [*reached, to), segment by segment. CL_E_TIMEOUT: the deadline passed, and the flush
 * stopped at the end of a segment, because a flush system call cannot be cancelled. */
static int flush_range(cl_log *log, uint64_t *reached, uint64_t to, int64_t deadline_ns) {
    uint64_t from = *reached;
    cl_log_assert(log);
    while (from < to) {
        if (from != *reached && cl_clock_monotonic_ns() >= deadline_ns) {
            break;
        }
        /* After a write error the system may mark the lost pages clean: a flush that succeeds
         * afterwards proves nothing. */
        if (cl_log_failed(log)) {
            return CL_E_FAILED;
        }
        cl_segment *segment;
        int code = cl_table_acquire(&log->table, from / log->segment_size, &segment);
        if (code != CL_OK) {
            return code == CL_E_SYSTEM || code == CL_E_MEMORY ? code : cl_log_fail(log, EIO);
        }
        uint64_t end = segment->base + segment->size < to ? segment->base + segment->size : to;
        cl_assert(from, >=, segment->base);
        cl_assert(from, <, end);
        code = cl_segment_flush(segment, from - segment->base, end - segment->base);
        int cause = errno;
        cl_segment_release(segment);
        if (code != CL_OK) {
            return cl_log_fail(log, cause);
        }
        cl_raise(&log->cursors->flushed.value, end);
        from = end;
    }
    *reached = from;
    cl_assert(from, <=, to);
    cl_log_assert(log);
    return from < to ? CL_E_TIMEOUT : CL_OK;
}

/* Flushes everything that was committed before the call. Only the leader calls it. */
static int flush_committed(cl_log *log, int64_t deadline_ns) {
    cl_assert(cl_load32(&log->leading), ==, 1);
    int64_t began_ns = cl_clock_monotonic_ns();
    uint64_t from = cl_load(&log->cursors->flushed.value);
    uint64_t to = cl_load(&log->cursors->committed.value);
    if (from >= to) {
        return CL_OK;
    }
    if (cl_load32(&log->announces) != 0) {
        cl_futex_raise((uint32_t *)&log->cursors->flush_signal.value);
    }
    uint64_t reached = from;
    int code = flush_range(log, &reached, to, deadline_ns);
    if (code != CL_OK && code != CL_E_TIMEOUT) {
        return code;
    }
    cl_assert(cl_load(&log->cursors->flushed.value), >=, reached);
    int64_t now_ns = cl_clock_monotonic_ns();
    cl_histogram_add(&log->latencies.flush, now_ns - began_ns);
    log->counters.flushed_bytes += reached - from;
    cl_table_trim(&log->table, reached / log->segment_size, KEEP_MAPPED);
    if (cl_checkpoint_note(log, now_ns) == CL_E_SYSTEM) {
        return cl_log_fail(log, errno);
    }
    return code;
}

static int lead_once(cl_log *log, uint64_t upto, int64_t deadline_ns) {
    int commit_code = cl_load(&log->cursors->committed.value) < upto ? cl_commit(log, upto) : CL_OK;
    if (commit_code == CL_E_FAILED) {
        return commit_code;
    }
    int code = flush_committed(log, deadline_ns);
    return code == CL_OK ? commit_code : code;
}

/* Leads a flush for all waiting threads, unless the previous leader's flush has covered `upto`. */
static int lead_group(cl_log *log, uint64_t upto, int64_t deadline_ns) {
    if (cl_load(&log->cursors->flushed.value) >= upto) {
        return CL_OK;
    }
    cl_group_commit_gather(&log->group, deadline_ns);
    cl_group_commit_begin(&log->group);
    int code = lead_once(log, upto, deadline_ns);
    cl_group_commit_end(&log->group);
    return code;
}

static int follow_once(cl_log *log, uint32_t seen, int64_t remaining_ns) {
    int code = cl_futex_wait((uint32_t *)&log->cursors->flush_signal.value, seen,
                             remaining_ns < LEADER_POLL_NS ? remaining_ns : LEADER_POLL_NS);
    if (code == CL_E_TIMEOUT) {
        replace_stuck_leader(log);
        code = CL_OK;
    }
    return code;
}

/* One round of the head of the queue: leads a flush, or follows another handle's leader. */
static int head_round(cl_log *log, uint64_t upto, int64_t deadline_ns, int64_t remaining_ns) {
    uint32_t seen = cl_load32((uint32_t *)&log->cursors->flush_signal.value);
    int code;
    if (lead_try(log)) {
        code = lead_group(log, upto, deadline_ns);
        lead_end(log);
        code = code == CL_E_TIMEOUT ? CL_OK : code; /* the caller checks the deadline */
        if (code == CL_E_BUSY || (code == CL_OK && cl_load(&log->cursors->flushed.value) < upto)) {
            cl_sleep_ns(CLAIM_POLL_NS);
            code = CL_OK;
        }
    } else {
        code = follow_once(log, seen, remaining_ns);
    }
    return code;
}

int cl_flush(cl_log *log, uint64_t upto, int64_t deadline_ns) {
    int code = CL_OK;
    if (!log->resolves) {
        return CL_E_READ_ONLY;
    }
    upto = cl_log_downward(log, upto);
    if (cl_load(&log->cursors->flushed.value) >= upto) {
        return CL_OK;
    }
    cl_flush_waiter waiter;
    cl_flush_queue_join(&log->flush_queue, &waiter, upto);
    cl_group_commit_arrive(&log->group);
    /* Each round waits for the disk, a leader or a claim; the deadline ends the loop. */
    while (code == CL_OK && cl_load(&log->cursors->flushed.value) < upto) {
        int64_t remaining_ns = deadline_ns - cl_clock_monotonic_ns();
        if (remaining_ns <= 0) {
            code = CL_E_TIMEOUT;
        } else if (cl_flush_queue_heads(&waiter)) {
            code = head_round(log, upto, deadline_ns, remaining_ns);
            uint64_t flushed = cl_load(&log->cursors->flushed.value);
            if (code == CL_OK && flushed < upto) {
                cl_flush_queue_serve(&log->flush_queue, flushed);
            }
        } else {
            code = cl_flush_queue_wait(&waiter, remaining_ns < WAITER_POLL_NS ? remaining_ns
                                                                              : WAITER_POLL_NS);
            code = code == CL_E_TIMEOUT ? CL_OK : code;
        }
    }
    int cause = errno;
    uint64_t flushed = cl_load(&log->cursors->flushed.value);
    cl_flush_queue_leave(&log->flush_queue, &waiter, flushed);
    errno = cause;
    /* A record that was flushed before the log failed stays acknowledged: no flush begins after the
     * failure. */
    return flushed >= upto ? CL_OK : code;
}

void cl_flush_pass_on(cl_log *log) { cl_flush_queue_pass_on(&log->flush_queue); }

/* Sleeps one interval, or until the signal is raised. Returns false if the loop is to end. */
static bool loop_wait(cl_log *log, const uint32_t *signal, uint32_t seen, int64_t interval_ns) {
    if (cl_load32(&log->stopping) == 0) {
        cl_futex_wait(signal, seen, interval_ns);
    }
    return cl_load32(&log->stopping) == 0;
}

static uint64_t waiting_bytes(const cl_log *log, uint64_t reached) {
    uint64_t tail = cl_log_position(log, cl_load(log->tail));
    return tail > reached ? tail - reached : 0;
}

/* If a claim blocked the last round, the loop polls it again soon, so that the claim's timeout
 * advances at about the speed of the clock. */
static int64_t loop_interval(const cl_pace *pace, int code) {
    return code == CL_E_BUSY && pace->interval_ns > BUSY_INTERVAL_NS ? BUSY_INTERVAL_NS
                                                                     : pace->interval_ns;
}

static bool loop_due(const cl_pace *pace, int code, uint64_t waiting, int64_t since_ns) {
    return waiting != 0 &&
           (code == CL_E_BUSY || waiting >= pace->least_bytes || since_ns >= pace->thorough_ns);
}

/* Whether no later round can succeed. A temporary lack of descriptors or memory does not end the
 * loop: nothing was written yet. */
static bool ends_loop(int code) {
    bool later = code == CL_E_BUSY || code == CL_E_END || code == CL_E_ABSENT ||
                 code == CL_E_SYSTEM || code == CL_E_MEMORY;
    return code != CL_OK && !later;
}

/* Wakes the allocation service after a roll: while the loop is busy, the appender does not. */
static void follow_roll(cl_log *log, uint64_t *number) {
    uint64_t now = cl_tail_number(cl_load(log->tail));
    if (now != *number) {
        *number = now;
        cl_futex_raise(&log->event);
    }
}

/* While appenders write much, the loop runs at short intervals without being woken. A wake-up each
 * time would cost the appender: the scheduler tends to run the woken thread first, on the waker's
 * processor. */
static int64_t commit_interval(cl_log *log, const cl_pace *pace, int code, uint64_t moved,
                               uint64_t *number) {
    bool busy = moved >= BUSY_BYTES;
    bool rested = cl_load32(&log->commit_rests);
    cl_store32(&log->commit_rests, !busy);
    int64_t interval_ns = loop_interval(pace, code);
    if (!busy && !rested) {
        /* An append just before this store has woken neither the loop nor the service. */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        follow_roll(log, number);
        uint64_t committed = cl_load(&log->cursors->committed.value);
        return waiting_bytes(log, committed) >= pace->least_bytes ? 0 : interval_ns;
    }
    return busy && interval_ns > COMMIT_INTERVAL_NS ? COMMIT_INTERVAL_NS : interval_ns;
}

int cl_commit_loop(cl_log *log, const cl_pace *pace) {
    int64_t last_ns = cl_clock_monotonic_ns();
    uint32_t seen = cl_load32(&log->commit_signal);
    uint64_t moved = 0, number = cl_tail_number(cl_load(log->tail));
    int code = CL_OK;
    while (loop_wait(log, &log->commit_signal, seen,
                     commit_interval(log, pace, code, moved, &number))) {
        seen = cl_load32(&log->commit_signal);
        if (cl_log_failed(log)) {
            return CL_E_FAILED;
        }
        int64_t now_ns = cl_clock_monotonic_ns();
        uint64_t committed = cl_load(&log->cursors->committed.value);
        uint64_t waiting = waiting_bytes(log, committed);
        moved = 0;
        follow_roll(log, &number);
        if (!loop_due(pace, code, waiting, now_ns - last_ns)) {
            continue;
        }
        code = cl_commit(log, UINT64_MAX);
        moved = cl_load(&log->cursors->committed.value) - committed;
        if (ends_loop(code)) {
            return code;
        }
        last_ns = now_ns;
    }
    return CL_OK;
}

void cl_flush_ask(cl_log *log) {
    const uint64_t *tail = cl_log_tail(log);
    uint64_t end = tail != NULL ? cl_log_position(log, cl_load(tail))
                                : cl_load(&log->cursors->committed.value);
    end = cl_log_downward(log, end);
    if (end > cl_load(&log->cursors->flushed.value)) {
        cl_raise(&log->cursors->flush_wanted.value, end);
    }
}

static bool flush_asked(const cl_log *log, uint64_t flushed) {
    return cl_load(&log->cursors->flush_wanted.value) > flushed;
}

/* One round of the flush loop. Returns how its flush ended, or `code` if none was due. */
static int flush_round(cl_log *log, const cl_pace *pace, int code, int64_t *last_ns) {
    int64_t now_ns = cl_clock_monotonic_ns();
    uint64_t flushed = cl_load(&log->cursors->flushed.value);
    uint64_t waiting = log->pooled ? cl_load(&log->cursors->committed.value) - flushed
                                   : waiting_bytes(log, flushed);
    bool asked = waiting != 0 && flush_asked(log, flushed);
    if (!asked && !loop_due(pace, code, waiting, now_ns - *last_ns)) {
        return code;
    }
    *last_ns = now_ns;
    if (!lead_try(log)) {
        /* Another leader is flushing. If it is still at the same flush, poll it soon. */
        return replace_stuck_leader(log) ? CL_E_BUSY : CL_OK;
    }
    code = lead_once(log, log->pooled ? 0 : UINT64_MAX, INT64_MAX);
    lead_end(log);
    return code;
}

int cl_flush_loop(cl_log *log, const cl_pace *pace) {
    int64_t last_ns = cl_clock_monotonic_ns();
    uint32_t seen = cl_load32(&log->flush_request);
    int code = CL_OK;
    while (loop_wait(log, &log->flush_request, seen, loop_interval(pace, code))) {
        seen = cl_load32(&log->flush_request);
        if (cl_log_failed(log)) {
            return CL_E_FAILED;
        }
        code = flush_round(log, pace, code, &last_ns);
        if (ends_loop(code)) {
            return code;
        }
        int settled = cl_checkpoint_settle_due(log);
        if (settled != CL_OK) {
            return settled;
        }
    }
    return CL_OK;
}

void cl_log_stop(cl_log *log) {
    cl_store32(&log->stopping, 1);
    cl_futex_raise(&log->commit_signal);
    cl_futex_raise(&log->flush_request);
    cl_futex_raise(&log->event);
}
