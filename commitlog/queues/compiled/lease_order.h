/* What follows from the words of a table: heaps, the list of leases, and the buckets of keys. */
#ifndef CLQ_LEASE_ORDER_H
#define CLQ_LEASE_ORDER_H

#include "lease_table.h"

/* A process may be killed between any two stores: the compiler keeps their order around this. */
#define ORDERED() __atomic_signal_fence(__ATOMIC_SEQ_CST)

static inline void clq_set_word(clq_slot *slot, uint64_t word) {
    ORDERED();
    __atomic_store_n(&slot->word, word, __ATOMIC_RELEASE);
    ORDERED();
}

/* Adds a slot to the heap of available jobs, by position, or of those that wait, by time; removes
 * the first one. */
void clq_push(clq_table *table, uint32_t slot, bool waits);
uint32_t clq_pop(clq_table *table, bool waits);

/* The list of acquired jobs, by the end of their leases, and their number. */
void clq_link_lease(clq_table *table, uint32_t index);
void clq_unlink_lease(clq_table *table, uint32_t index);
void clq_count_acquired(clq_table *table, uint32_t worker, int change);

/* Appends a job to its bucket, if keys are in order. A job that is not the first of its bucket is
 * blocked: it cannot be taken yet, and is in no heap. When the first one leaves, the next one may
 * be taken. */
void clq_join_bucket(clq_table *table, uint32_t index);
bool clq_is_blocked(const clq_table *table, uint32_t index);
void clq_leave_bucket(clq_table *table, uint32_t index);

#endif
