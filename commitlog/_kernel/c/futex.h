/* A futex word: one side raises it, the other waits on it. */
#ifndef CL_FUTEX_H
#define CL_FUTEX_H

#include <time.h>

#include "base.h"

#define CL_NS_PER_SECOND 1000000000ll

/* Wakes every waiter on the word, after adding one to it. The word may lie in shared memory. */
void cl_futex_raise(uint32_t *word);
/* Wakes one waiter, after adding one to the word; wakes all, and adds nothing. */
void cl_futex_raise_one(uint32_t *word);
void cl_futex_wake_all(const uint32_t *word);

/* Sleeps until the word differs from `seen`, or timeout_ns passed (CL_E_TIMEOUT), or a signal
 * handler ran (CL_E_INTERRUPTED). A wake-up may be spurious: the caller checks again. */
int cl_futex_wait(const uint32_t *word, uint32_t seen, int64_t timeout_ns);

static inline int64_t cl_clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * CL_NS_PER_SECOND + now.tv_nsec;
}
int64_t cl_clock_monotonic_ns(void);
int64_t cl_clock_coarse_ns(void);  /* wall clock at Linux's tick, about 6 ns a call */
int64_t cl_clock_precise_ns(void); /* wall clock, about 34 ns a call */
void cl_sleep_ns(int64_t duration_ns);

/* `cl_futex_wait` on a word that only this process uses; wakes one waiter. */
int cl_futex_wait_private(const uint32_t *word, uint32_t seen, int64_t timeout_ns);
void cl_futex_wake_private(const uint32_t *word);

#endif
