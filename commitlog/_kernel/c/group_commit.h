/* Group commit: the threads that one flush serves, and how long a leader waits for them. */
#ifndef CL_GROUP_COMMIT_H
#define CL_GROUP_COMMIT_H

#include "base.h"

typedef struct {
    uint32_t arrived; /* futex: the number of waits for a flush that began through this handle */
    uint32_t awaited; /* the value of `arrived` that a gathering leader waits for */

    /* Only the leader uses these; a handle has one leader at a time: */
    uint32_t begun;    /* arrivals when the last flush began, all of which it served */
    uint32_t complete; /* the value of `arrived` once every thread that it served waits again */
    int64_t began_ns;  /* when the last flush began */
    int64_t until_ns;  /* the deadline of the next leader's wait */
    uint32_t in_vain;  /* how many flushes to skip gathering after the next fruitless wait */
    uint32_t rests;    /* how many flushes still skip gathering */
} cl_group_commit;

/* Registers a thread that waits for a flush and whose record is published. */
void cl_group_commit_arrive(cl_group_commit *group);

/* Called by the leader before its flush: waits for the threads that the last flush served, if they
 * are likely to return soon. */
void cl_group_commit_gather(cl_group_commit *group, int64_t deadline_ns);

/* Called by the leader: immediately before it determines how far to flush, and after the flush. */
void cl_group_commit_begin(cl_group_commit *group);
void cl_group_commit_end(cl_group_commit *group);

#endif
