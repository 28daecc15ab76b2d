#include "futex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "atomics.h"

int64_t cl_clock_monotonic_ns(void) { return cl_clock_ns(CLOCK_MONOTONIC); }
int64_t cl_clock_coarse_ns(void) { return cl_clock_ns(CLOCK_REALTIME_COARSE); }
int64_t cl_clock_precise_ns(void) { return cl_clock_ns(CLOCK_REALTIME); }

static struct timespec as_timespec(int64_t duration_ns) {
    struct timespec spec = {.tv_sec = duration_ns / CL_NS_PER_SECOND,
                            .tv_nsec = duration_ns % CL_NS_PER_SECOND};
    return spec;
}

void cl_sleep_ns(int64_t duration_ns) {
    struct timespec spec = as_timespec(duration_ns > 0 ? duration_ns : 0);
    nanosleep(&spec, NULL);
}

void cl_futex_wake_all(const uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void cl_futex_raise(uint32_t *word) {
    cl_add32(word, 1);
    cl_futex_wake_all(word);
}

void cl_futex_raise_one(uint32_t *word) {
    cl_add32(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static int wait_on(const uint32_t *word, uint32_t seen, int64_t timeout_ns, int operation) {
    if (cl_load32(word) != seen) {
        return CL_OK;
    }
    if (timeout_ns <= 0) {
        return CL_E_TIMEOUT;
    }
    struct timespec spec = as_timespec(timeout_ns);
    if (syscall(SYS_futex, word, operation, seen, &spec, NULL, 0) == 0 || errno == EAGAIN) {
        return CL_OK;
    }
    return errno == EINTR ? CL_E_INTERRUPTED : CL_E_TIMEOUT;
}

int cl_futex_wait(const uint32_t *word, uint32_t seen, int64_t timeout_ns) {
    return wait_on(word, seen, timeout_ns, FUTEX_WAIT);
}

int cl_futex_wait_private(const uint32_t *word, uint32_t seen, int64_t timeout_ns) {
    return wait_on(word, seen, timeout_ns, FUTEX_WAIT_PRIVATE);
}

void cl_futex_wake_private(const uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
