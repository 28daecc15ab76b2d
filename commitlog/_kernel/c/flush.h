/* Commit and flush: what becomes visible to other processes, what becomes durable, and the loops
 * that see to it. */
#ifndef CL_FLUSH_H
#define CL_FLUSH_H

#include "log.h"

/* Commits what is published, up to `upto` at least if it can. A mapped log only raises its
 * watermarks. CL_E_BUSY: a live claim below `upto` stands in the way. */
int cl_commit(cl_log *log, uint64_t upto);

/* Returns once everything below `upto` is durable: leads a flush, or waits for whoever leads one.
 * CL_E_TIMEOUT after the deadline (monotonic ns), by one msync at most, CL_E_INTERRUPTED when a
 * signal handler wants to run. */
int cl_flush(cl_log *log, uint64_t upto, int64_t deadline_ns);

/* Asks the writers' flush loops, through `cursors`, to make durable what is claimed at present. The
 * cursors must be writable. */
void cl_flush_ask(cl_log *log);

/* When a loop acts: each interval if at least this much waits, and in any case after the thorough
 * interval. */
typedef struct {
    int64_t interval_ns;
    int64_t thorough_ns;
    uint64_t least_bytes;
} cl_pace;

/* Both run until log->stopping, and return CL_OK then, or the code that failed the log. */
int cl_commit_loop(cl_log *log, const cl_pace *pace);
int cl_flush_loop(cl_log *log, const cl_pace *pace);
void cl_log_stop(cl_log *log);

#endif
