/* Walks over published cells: how the appended watermark rises. */
#ifndef CL_WALK_H
#define CL_WALK_H

#include "log.h"

/* Walks from `position` over published cells towards `limit`, and resolves dead claims on its way
 * if the handle may. Sets *position to where it stopped; the code says why (CL_OK: at or past the
 * limit, or at a segment's end). Requires the commit mutex: a handle that may resolve claims also
 * extends the segment's tally, if the walk starts where the tally ends. */
int cl_walk(cl_log *log, cl_segment *segment, uint64_t *position, uint64_t limit, cl_watch *watch);

/* Waits until every commit and walk of a pooled log that began before this call has ended. */
void cl_log_pass_commits(cl_log *log);

/* Raises the appended watermark as far as the published frames reach, and returns it. A handle that
 * may not write only computes it. */
int cl_log_appended(cl_log *log, uint64_t *appended);

#endif
