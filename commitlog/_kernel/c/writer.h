/* The state of a handle that appends: its segment, how far it may append there, and what is due on
 * the way. */
#ifndef CL_WRITER_H
#define CL_WRITER_H

#include "futex.h"
#include "log.h"

#define CL_NO_SEGMENT UINT64_MAX

typedef struct {
    uint64_t appends; /* claims published: a batch counts once */
    uint64_t records;
    uint64_t bytes;   /* of frames, padding included */
    uint64_t refused; /* this handle's claims that another handle rolled back before they were
                         published */
    uint64_t rolls;
} cl_writer_counters;

/* How many records the log has below a position, up to which every claim is resolved. */
typedef struct {
    uint64_t packed; /* the position, in the form of the tail; 0: nothing is counted yet */
    uint64_t sequence;
    cl_watch watch; /* of the open claim there */
} cl_counted;

/* Guarded by the lock that guards the slot: in Python, the interpreter's lock. */
typedef struct {
    cl_log *log;
    uint64_t *tail;
    cl_slot *slot;
    cl_segment *segment; /* the segment of the last claim; the writer holds a reference */
    uint64_t overshot; /* the number of the segment whose end this handle's add has passed; it does
                          not add there again */
    int64_t cycle_end_ns; /* from then on the tail's cycle may have ended; INT64_MAX: the log rolls
                             by size alone */
    uint64_t fast_below; /* a short frame that ends below this tail (packed) is appended without
                            further checks: there is room, and nothing else is due; or 0 */
    uint64_t wake_tail; /* the tail at which the next publish calls `see_to` */
    uint64_t limit_tail; /* the tail beyond which an append first checks the required tailers */
    uint64_t required_seen; /* the value of the cell `required` when limit_tail was set */
    uint64_t wanted; /* the end (packed) of the last claim that needed more blocks */
    uint32_t wake_bytes;
    uint32_t largest; /* of a frame, padding included */
    uint32_t fast_length; /* a value that is shorter may be appended below `fast_below`; 0 while
                             there is no such tail, or while `largest` is 0 */
    uint32_t room; /* the offset up to which claims may reach in the segment in use: its size, or
                      one cell less than its blocks, so that it can be closed */
    uint32_t add_limit; /* larger frames claim by compare-and-swap, so that they never overshoot:
                           all of them while the segment in use has not all of its blocks */
    bool plain; /* plain stores instead of swaps: one process, one lock around every append */
    clockid_t clock; /* of timestamps */
    bool segment_missing; /* the segment of the last claim could not be opened; the writer opens it
                             before the next add */
    bool roll_due; /* the last claim ended exactly at the segment's end: this handle rolls now,
                      because no other handle would notice as soon */
    cl_writer_counters counters;
    uint64_t vain_since; /* `appends` when the current run of rolled-back claims began */
    uint32_t in_vain; /* the length of that run */
    cl_counted counted;
} cl_writer;

void cl_writer_init(cl_writer *writer, cl_log *log, bool plain, bool precise, uint32_t wake_bytes);
void cl_writer_clear(cl_writer *writer);
/* Sets the largest frame of appends that do not name one; 0 while the C API uses the writer. */
void cl_writer_set_largest(cl_writer *writer, uint32_t largest);
/* Lets appends go up to limit_tail (packed). Beyond it they fail with CL_E_LAG, as they do if
 * `required` has changed, which the writer checks after wake_bytes at the latest. Clears an earlier
 * CL_E_LAG refusal. */
void cl_writer_limit(cl_writer *writer, uint64_t limit_tail, uint64_t required_seen);
/* The segment number to roll from, or CL_NO_SEGMENT if the tail is inside a segment. */
uint64_t cl_writer_rolls_from(const cl_writer *writer);

/* The code with which appends are refused, or CL_OK. */
static inline int cl_writer_refusal(const cl_writer *writer) {
    const cl_log *log = writer->log;
    return CL_LIKELY(log->refusal == 0 && !cl_log_failed(log)) ? CL_OK : cl_log_refusal(log);
}

/* As cl_writer_refusal, and replaces a timestamp below 0 by the clock's. CL_E_CYCLE: the clock, and
 * not a timestamp that the caller gave, says that the cycle may have ended. */
static inline int cl_writer_admit(const cl_writer *writer, int64_t *timestamp_ns) {
    int code = cl_writer_refusal(writer);
    if (CL_UNLIKELY(code != CL_OK)) {
        return code;
    }
    if (*timestamp_ns >= 0 && writer->cycle_end_ns == INT64_MAX) {
        return CL_OK;
    }
    int64_t now_ns = cl_clock_ns(writer->clock);
    *timestamp_ns = *timestamp_ns < 0 ? now_ns : *timestamp_ns;
    return CL_UNLIKELY(now_ns >= writer->cycle_end_ns) ? CL_E_CYCLE : CL_OK;
}

/* Whether the writer holds segment `number`; if not, `cl_writer_switch` replaces its segment. */
static inline bool cl_writer_at(const cl_writer *writer, uint64_t number) {
    return writer->segment != NULL && writer->segment->number == number;
}
int cl_writer_switch(cl_writer *writer, uint64_t number);

/* Determines how far claims may reach in segment `number`. A segment never loses blocks, and the
 * other segments have all of theirs: once claims may reach the end, the writer adds without
 * checking again. */
void cl_writer_measure(cl_writer *writer, uint64_t number);
/* Sets `fast_below` and `fast_length`; 0: no append is fast. */
void cl_writer_set_fast(cl_writer *writer, uint64_t below);
/* Sets them after a change of what they depend on. */
void cl_writer_plan(cl_writer *writer);

/* Called every wake_bytes, and at the limit: wakes the commit loop of a pooled log and its
 * allocation service, and refuses the next append if it must wait for a required tailer. The record
 * just published stays. */
void cl_writer_see_to(cl_writer *writer, uint64_t packed);

static inline void cl_writer_count(cl_writer *writer, uint32_t records, uint32_t bytes) {
    writer->counters.appends++;
    writer->counters.records += records;
    writer->counters.bytes += bytes;
}

/* Called after a publish. On a mapped log each publish wakes sleeping readers. */
static inline void cl_writer_tell(cl_writer *writer, uint64_t packed, uint32_t records,
                                  uint32_t bytes) {
    cl_writer_count(writer, records, bytes);
    if (CL_UNLIKELY(packed >= writer->wake_tail)) {
        cl_writer_see_to(writer, packed);
    }
    if (!writer->log->pooled) {
        cl_log_wake_readers(writer->log);
    }
}

#endif
