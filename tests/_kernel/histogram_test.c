/* threads */
/* Histograms: each value has one bucket, buckets have no gaps, and concurrent additions are all
 * counted. */
#include "kernel_test.h"

#include <pthread.h>

#include "histogram.h"

#define THREADS 4
#define EACH 50000u

static void buckets_have_no_gaps(void) {
    CHECK(cl_histogram_upto(0) == 0);
    for (uint32_t bucket = 0; bucket < CL_HISTOGRAM_BUCKETS; bucket++) {
        uint64_t upto = cl_histogram_upto(bucket);
        CHECK(cl_histogram_bucket(upto) == bucket);
        CHECK(bucket + 1 == CL_HISTOGRAM_BUCKETS || cl_histogram_bucket(upto + 1) == bucket + 1);
    }
    CHECK(cl_histogram_upto(CL_HISTOGRAM_BUCKETS - 1) == (1ull << CL_HISTOGRAM_TOP) - 1);
}

static void bucket_is_exact_to_a_32nd(void) {
    uint64_t state = 88172645463325252ull;
    for (int turn = 0; turn < 100000; turn++) {
        uint64_t value = next_random(&state) >> (24 + next_random(&state) % 40);
        uint64_t reported = cl_histogram_upto(cl_histogram_bucket(value));
        CHECK(reported >= value && (reported - value) * 32 <= value);
    }
}

static void out_of_range_values_count_in_the_outer_buckets(void) {
    static cl_histogram histogram;
    cl_histogram_add(&histogram, INT64_MAX);
    cl_histogram_add(&histogram, -5); /* the clock was set back */
    CHECK(histogram.counts[CL_HISTOGRAM_BUCKETS - 1] == 1 && histogram.counts[0] == 1);
    CHECK(histogram.longest_ns == INT64_MAX && histogram.total_ns == INT64_MAX);
}

static void values_above_a_bound_are_counted(void) {
    static cl_histogram histogram;
    for (int64_t value = 0; value < 64; value++) {
        cl_histogram_add(&histogram, value);
    }
    CHECK(cl_histogram_above(&histogram, 0) == 63 && cl_histogram_above(&histogram, 60) == 3 &&
          cl_histogram_above(&histogram, 63) == 0);
}

static void *add_many(void *argument) {
    for (uint32_t value = 0; value < EACH; value++) {
        cl_histogram_add(argument, value);
    }
    return NULL;
}

static void concurrent_additions_are_all_counted(void) {
    static cl_histogram histogram;
    pthread_t threads[THREADS];
    uint64_t count = 0;
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], NULL, add_many, &histogram) == 0);
    }
    for (int index = 0; index < THREADS; index++) {
        pthread_join(threads[index], NULL);
    }
    for (uint32_t bucket = 0; bucket < CL_HISTOGRAM_BUCKETS; bucket++) {
        count += histogram.counts[bucket];
    }
    CHECK(count == THREADS * EACH && histogram.longest_ns == EACH - 1);
    CHECK(histogram.total_ns == (uint64_t)THREADS * EACH * (EACH - 1) / 2);
}

int main(void) {
    buckets_have_no_gaps();
    bucket_is_exact_to_a_32nd();
    out_of_range_values_count_in_the_outer_buckets();
    values_above_a_bound_are_counted();
    concurrent_additions_are_all_counted();
    return 0;
}
