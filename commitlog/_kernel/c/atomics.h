/* The few atomic operations the protocol uses, on plain integers inside mapped memory. */
#ifndef CL_ATOMICS_H
#define CL_ATOMICS_H

#include "base.h"

static inline uint64_t cl_load(const uint64_t *cell) {
    return __atomic_load_n(cell, __ATOMIC_ACQUIRE);
}
static inline uint64_t cl_load_relaxed(const uint64_t *cell) {
    return __atomic_load_n(cell, __ATOMIC_RELAXED);
}
/* A sequentially consistent load, for a thread that publishes and then checks for sleepers. */
static inline uint64_t cl_load_ordered(const uint64_t *cell) {
    return __atomic_load_n(cell, __ATOMIC_SEQ_CST);
}
static inline uint32_t cl_load32_ordered(const uint32_t *cell) {
    return __atomic_load_n(cell, __ATOMIC_SEQ_CST);
}
static inline void cl_store(uint64_t *cell, uint64_t value) {
    __atomic_store_n(cell, value, __ATOMIC_RELEASE);
}
static inline uint64_t cl_add(uint64_t *cell, uint64_t amount) {
    return __atomic_fetch_add(cell, amount, __ATOMIC_SEQ_CST);
}

static inline uint32_t cl_load32(const uint32_t *cell) {
    return __atomic_load_n(cell, __ATOMIC_ACQUIRE);
}
static inline void cl_store32(uint32_t *cell, uint32_t value) {
    __atomic_store_n(cell, value, __ATOMIC_RELEASE);
}
static inline uint32_t cl_add32(uint32_t *cell, uint32_t amount) {
    return __atomic_fetch_add(cell, amount, __ATOMIC_SEQ_CST);
}

/* One compare-and-swap; on failure *expected holds the cell's value. */
static inline bool cl_swap(uint64_t *cell, uint64_t *expected, uint64_t desired) {
    return __atomic_compare_exchange_n(cell, expected, desired, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* Watermarks only rise: of two racing values the larger one stays. Each swap that fails has seen a
 * larger value, so the loop ends. */
static inline void cl_raise(uint64_t *cell, uint64_t value) {
    uint64_t seen = cl_load(cell);
    while (seen < value && !cl_swap(cell, &seen, value)) {
    }
    cl_assert(cl_load(cell), >=, value);
}

/* Prefetches a cache line for writing. Never faults. */
static inline void cl_prefetch_write(const void *at) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

static inline void cl_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

#endif
