/* Durations, counted in fixed log-linear buckets like HdrHistogram's. Any thread adds, without a
 * lock. */
#ifndef CL_HISTOGRAM_H
#define CL_HISTOGRAM_H

#include "atomics.h"

/* Each power of two is divided into 2^CL_HISTOGRAM_BITS buckets, so that the relative error is at
 * most 1/32. */
#define CL_HISTOGRAM_BITS 5
#define CL_HISTOGRAM_TOP                                                                           \
    40 /* 2^40 ns is about 18 minutes; the last bucket also counts longer durations */
#define CL_HISTOGRAM_BUCKETS ((CL_HISTOGRAM_TOP - CL_HISTOGRAM_BITS + 1) << CL_HISTOGRAM_BITS)

typedef struct {
    uint64_t total_ns;
    uint64_t longest_ns;
    uint64_t counts[CL_HISTOGRAM_BUCKETS];
} cl_histogram;

/* Below 64 ns every nanosecond has its bucket; then they double in width with each power of two. */
static inline uint32_t cl_histogram_bucket(uint64_t value_ns) {
    uint64_t value =
        value_ns >> CL_HISTOGRAM_TOP == 0 ? value_ns : ((uint64_t)1 << CL_HISTOGRAM_TOP) - 1;
    int highest = 63 - __builtin_clzll(value | 1);
    uint32_t shift = highest > CL_HISTOGRAM_BITS ? (uint32_t)(highest - CL_HISTOGRAM_BITS) : 0;
    return (shift << CL_HISTOGRAM_BITS) + (uint32_t)(value >> shift);
}

/* The largest value that a bucket holds. */
static inline uint64_t cl_histogram_upto(uint32_t bucket) {
    uint32_t shift = bucket >> CL_HISTOGRAM_BITS;
    shift = shift > 0 ? shift - 1 : 0;
    return (((uint64_t)(bucket - (shift << CL_HISTOGRAM_BITS)) + 1) << shift) - 1;
}

static inline void cl_histogram_add(cl_histogram *histogram, int64_t took_ns) {
    uint64_t value = took_ns > 0 ? (uint64_t)took_ns : 0;
    __atomic_fetch_add(&histogram->total_ns, value, __ATOMIC_RELAXED);
    cl_raise(&histogram->longest_ns, value);
    __atomic_fetch_add(&histogram->counts[cl_histogram_bucket(value)], 1, __ATOMIC_RELAXED);
}

/* How many values lie above the bucket of value_ns. */
static inline uint64_t cl_histogram_above(const cl_histogram *histogram, uint64_t value_ns) {
    uint64_t count = 0;
    for (uint32_t bucket = cl_histogram_bucket(value_ns) + 1; bucket < CL_HISTOGRAM_BUCKETS;
         bucket++) {
        count += cl_load_relaxed(&histogram->counts[bucket]);
    }
    return count;
}

#endif
