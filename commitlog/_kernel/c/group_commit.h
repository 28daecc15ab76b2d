/* The group that one flush serves: who waits for it, and for how long a leader lets the others
 * catch up. */
#ifndef CL_GROUP_COMMIT_H
#define CL_GROUP_COMMIT_H

#include "base.h"

typedef struct {
    uint32_t arrived; /* futex: how many have come to wait for a flush, through this handle */
    uint32_t awaited; /* the arrival that a gathering leader sleeps until */

    /* The leader's alone, of which a handle has one at a time: */
    uint32_t begun;    /* arrivals when the last flush began, which served all of those */
    uint32_t complete; /* arrivals when everybody whom it served is back */
    int64_t began_ns;  /* when it began */
    int64_t until_ns;  /* how long the next leader waits at most */
    uint32_t in_vain;  /* flushes that do not gather, the next time that gathering is in vain */
    uint32_t rests;    /* that many flushes will not gather */
} cl_group_commit;

/* Somebody waits, whose record is published. */
void cl_group_commit_arrive(cl_group_commit *group);

/* The leader, before its flush: waits for those whom the last flush served, if they are likely to
 * be back in a moment. */
void cl_group_commit_gather(cl_group_commit *group, int64_t deadline_ns);

/* The leader, right before it looks how far to flush, and after the flush. */
void cl_group_commit_begin(cl_group_commit *group);
void cl_group_commit_end(cl_group_commit *group);

#endif
