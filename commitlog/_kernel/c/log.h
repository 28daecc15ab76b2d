/* One process's handle on one log: what writer, readers, commit and flush share. */
#ifndef CL_LOG_H
#define CL_LOG_H

#include "atomics.h"
#include "cursors.h"
#include "flush_queue.h"
#include "group_commit.h"
#include "histogram.h"
#include "segment.h"

/* After waiting this long at a claim, an observer probes whether its owner is alive: a live owner
 * publishes within nanoseconds. */
#define CL_PROBE_AFTER_NS 30000ll
/* One poll adds at most this much to a timeout, so that no owner times out while the machine is
 * suspended. */
#define CL_POLL_CREDIT_NS 20000000ll

/* What an observer remembers, across calls, about a cell that does not change. */
typedef struct {
    uint64_t position;
    uint64_t cell;
    uint64_t tail;      /* the tail when the gap was first seen */
    int64_t awake_ns;   /* how long this observer has been awake and polling it */
    int64_t polled_ns;  /* when it polled last */
    int64_t probed_ns;  /* when it last probed whether the owner lives */
    uint32_t
        suspects;  /* slots that were odd when the gap was first seen and have not moved since */
    uint16_t slot[CL_CURSORS_SLOTS];
    uint32_t generation[CL_CURSORS_SLOTS];
    uint64_t counter[CL_CURSORS_SLOTS];
    uint64_t outstayed[CL_CURSORS_SLOTS]; /* by slot: the odd counter with which its owner has used
                                             up the claim timeout already */
} cl_watch;

/* What a handle remembers about a flush leader that it waits for. Atomics, because several threads
 * wait. */
typedef struct {
    uint64_t which; /* owner and flush signal, which identify one flush of one leader */
    int64_t awake_ns; /* how long this handle has been awake and waiting for it */
    int64_t polled_ns; /* when it polled last */
} cl_lead_watch;

typedef struct {
    uint64_t committed_bytes;
    uint64_t flushed_bytes;
    uint64_t rolled_back; /* claims that this handle turned into SKIP */
} cl_log_counters;

/* How long this handle's operations took. */
typedef struct {
    cl_histogram commit; /* a commit round; in a mapped log, the walk over the published frames */
    cl_histogram flush; /* a flush that this handle led */
    cl_histogram sync; /* an append's wait for its flush */
    cl_histogram roll; /* an append's wait for the next segment */
    cl_histogram claim; /* a commit's wait for an open claim */
    cl_histogram lag; /* an append's wait for a required tailer */
} cl_latencies;

typedef struct {
    cl_cursors *cursors;
    uint64_t *tail; /* the log's tail, or NULL where this handle cannot see one: then a zero cell is
                       the end */
    uint64_t private_tail; /* a pooled log's tail */
    cl_slot_fds slot_fds; /* hold this handle's slot locks, and serve to probe other owners */
    uint32_t slot;
    uint32_t owner; /* slot and generation as a CLAIMED cell holds them; 0: no slot */
    bool pooled; /* claims live in this process's buffers */
    bool resolves; /* may turn dead claims into SKIP */
    bool follows; /* a reader: it looks up in `cursors` where claims live, because that changes as
                     writers open and close the log */
    uint32_t refusal; /* 0, or the negated cl_code with which appends are refused */
    uint32_t stopping; /* 1: the commit and flush loops end */
    uint64_t segment_size;
    uint64_t ready_below; /* a roll to a segment below this number needs nothing but the kernel: the
                             segment is durable, mapped and has its buffer */
    uint64_t uncertain_from; /* in a log that is not recovered yet: from this position on, a bad
                                frame is a torn tail, not damage */
    int64_t claim_timeout_ns;
    cl_table table;

    pthread_mutex_t commit_mutex;
    uint32_t commit_signal; /* futex: raised when enough bytes wait for a commit, or at stop */
    uint32_t commit_rests; /* 1: the commit loop sleeps its long interval, and appenders wake it
                              when enough bytes wait */
    uint32_t flush_request; /* futex: raised when the flush loop should run, or at stop */
    cl_flush_queue flush_queue; /* the threads that wait for a flush */
    cl_group_commit group; /* how long a leader waits for more of them */
    uint32_t leading; /* 1: a thread of this handle leads a flush */
    uint32_t announces; /* 1: a flush of this handle raises the flush signal also when it begins */
    uint32_t event; /* futex: raised when the allocation service has work */
    uint32_t service_polls; /* 1: the allocation service polls the tail often */
    uint32_t index_spacing; /* records between two entries of the indexes that commits build; 0:
                               commits build none */
    uint32_t copy_limit; /* commits up to this size are copied through the mapping; larger ones use
                            pwrite */
    cl_watch watch; /* of the thread that walks under the commit mutex */
    uint64_t held_at; /* the claim that blocks commits, and since when; UINT64_MAX: none does */
    int64_t held_since_ns;
    cl_lead_watch lead_watch;

    int checkpoint_fd; /* -1: this handle writes no checkpoint */
    pthread_mutex_t checkpoint_mutex; /* guards this part; a flush leader only tries it */
    uint64_t checkpoint_count;
    int64_t checkpoint_interval_ns;
    int64_t checkpoint_written_ns; /* by a flush leader */
    int64_t checkpoint_settled_ns; /* by the flush loop */
    uint64_t checkpoint_settled; /* the position that a record of this handle has durably */
    cl_log_counters counters;
    cl_latencies latencies;
} cl_log;

int cl_log_init(cl_log *log, cl_cursors *cursors, int dir_fd, const uint8_t *log_uuid,
                uint64_t segment_size, bool writable);
void cl_log_clear(cl_log *log);
void cl_log_after_fork(cl_log *log);
/* Fails the log for all its processes. Keeps the first cause. Returns CL_E_FAILED. */
int cl_log_fail(cl_log *log, int cause);
/* The code with which appends are refused, or CL_OK. */
int cl_log_refusal(const cl_log *log);
static inline bool cl_log_failed(const cl_log *log) {
    return cl_load(&log->cursors->failed.value) != 0;
}

/* Returns the tail, or NULL if this handle cannot see one; then a zero cell is the end. A writer
 * sees its own tail. A reader sees the tail of a mapped log that is not being recovered: a pooled
 * log's tail is in its writer's memory. */
static inline uint64_t *cl_log_tail(const cl_log *log) {
    if (!log->follows) {
        return log->tail;
    }
    cl_cursors *cursors = log->cursors;
    bool mapped = cl_load(&cursors->state.value) == CL_STATE_READY &&
                  cl_load32(&cursors->mode) == CL_MODE_MAPPED;
    return mapped ? &cursors->tail.value : NULL;
}

/* Whether claims live in pool buffers, this process's or another's. */
static inline bool cl_log_pooled(const cl_log *log) {
    return log->follows ? cl_log_tail(log) == NULL : log->pooled;
}

/* Whether the log was cut at a fork since it was opened: see cl_cursors. */
static inline bool cl_log_cut(const cl_log *log) { return cl_load(&log->cursors->cut.value) != 0; }

/* The position of a packed tail or watermark, at most the end of its segment. */
static inline uint64_t cl_log_position(const cl_log *log, uint64_t packed) {
    uint64_t offset = cl_tail_offset(packed);
    return cl_tail_number(packed) * log->segment_size +
           (offset < log->segment_size ? offset : log->segment_size);
}

/* How much of segment `number` has blocks. After that it is a hole; a store into the hole on a full
 * disk raises SIGBUS. */
static inline uint32_t cl_log_allocated(const cl_log *log, uint64_t number) {
    uint64_t allocated = cl_load(&log->cursors->allocated.value);
    bool known = cl_tail_number(allocated) == number && cl_tail_offset(allocated) != 0;
    return known && cl_tail_offset(allocated) < log->segment_size ? cl_tail_offset(allocated)
                                                                  : (uint32_t)log->segment_size;
}

/* Wakes the readers that sleep until the next publish. The first waker clears their announcement,
 * so that a sleep costs one wake-up however many records are appended before the sleepers run. The
 * load must be sequentially consistent, so that it is not reordered before the swap that publishes.
 * On aarch64 an acquire load (LDAPR) may be, and a sleeper would miss its wake-up. */
void cl_log_wake_sleepers(cl_log *log);
static inline void cl_log_wake_readers(cl_log *log) {
    if (CL_UNLIKELY(cl_load_ordered(&log->cursors->waiters.value) != 0)) {
        cl_log_wake_sleepers(log);
    }
}

/* Between the last frame of a segment and the first of the next lies a header page, so the same end
 * has two positions. Comparisons use the lower; users see the upper, where the next record goes. */
static inline uint64_t cl_log_downward(const cl_log *log, uint64_t position) {
    uint64_t offset = position % log->segment_size;
    return offset <= CL_SEGMENT_HEADER ? position - offset : position;
}
static inline uint64_t cl_log_upward(const cl_log *log, uint64_t position) {
    uint64_t offset = position % log->segment_size;
    return offset < CL_SEGMENT_HEADER ? position - offset + CL_SEGMENT_HEADER : position;
}

/* flushed <= committed <= appended <= tail. Each only rises, so the lower one is read first. */
static inline void cl_log_assert(const cl_log *log) {
#ifdef CL_ASSERT
    if (!log->resolves) {
        return; /* a handle that only reads may have mapped what is left of a log */
    }
    uint64_t flushed = cl_log_downward(log, cl_load(&log->cursors->flushed.value));
    uint64_t committed = cl_log_downward(log, cl_load(&log->cursors->committed.value));
    uint64_t appended = cl_log_downward(log, cl_load(&log->cursors->appended.value));
    cl_assert(flushed, <=, committed);
    cl_assert(committed, <=, appended);
    if (log->tail != NULL) {
        cl_assert(appended, <=, cl_log_position(log, cl_load(log->tail)));
    }
#else
    (void)log;
#endif
}

#endif
