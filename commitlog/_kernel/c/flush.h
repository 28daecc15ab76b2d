/* Flush, which makes records durable; and the loops of the commit thread and the flush thread. */
#ifndef CL_FLUSH_H
#define CL_FLUSH_H

#include "log.h"

/* Returns once everything below `upto` is durable: leads a flush, or waits for the leader.
 * CL_E_TIMEOUT: the deadline (monotonic ns) passed, at most one msync ago. CL_E_INTERRUPTED: a
 * signal handler is pending. */
int cl_flush(cl_log *log, uint64_t upto, int64_t deadline_ns);

/* Called after `cl_flush`, once the thread has the interpreter's lock again: lets the next thread
 * that the flush served return. Without this call it may return 10 ms later. */
void cl_flush_pass_on(cl_log *log);

/* Asks the writers' flush loops, through `cursors`, to flush everything that is claimed now. The
 * cursors must be writable. */
void cl_flush_ask(cl_log *log);

/* When a loop acts: after interval_ns if at least `least_bytes` are pending, and after thorough_ns
 * in any case. */
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
