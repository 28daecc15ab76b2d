#include "lease_order.h"

/* --- heaps: available jobs by position, waiting jobs by time ---------------------------------- */

static inline int64_t rank_of(const clq_table *table, uint32_t slot, bool waits) {
    return waits ? clq_slot_at(table, slot)->until_ns : clq_slot_at(table, slot)->position;
}

static inline uint32_t *heap_of(clq_table *table, bool waits) {
    return waits ? table->waiting_heap : table->available_heap;
}

static inline uint32_t *size_of(clq_table *table, bool waits) {
    uint32_t *size = waits ? &table->waiting : &table->available;
    *size = *size <= CLQ_SLOTS ? *size : CLQ_SLOTS;
    return size;
}

static void rise(clq_table *table, uint32_t at, bool waits) {
    uint32_t *heap = heap_of(table, waits), slot = heap[at];
    int64_t rank = rank_of(table, slot, waits);
    while (at > 0 && rank_of(table, heap[(at - 1) / 2], waits) > rank) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = slot;
}

static void sink(clq_table *table, uint32_t at, bool waits) {
    uint32_t *heap = heap_of(table, waits), size = clq_index(*size_of(table, waits));
    uint32_t slot = heap[at];
    int64_t rank = rank_of(table, slot, waits);
    for (uint32_t child = 2 * at + 1; child < size; child = 2 * at + 1) {
        if (child + 1 < size &&
            rank_of(table, heap[child + 1], waits) < rank_of(table, heap[child], waits)) {
            child++;
        }
        if (rank_of(table, heap[child], waits) >= rank) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = slot;
}

void clq_push(clq_table *table, uint32_t slot, bool waits) {
    uint32_t at = clq_index((*size_of(table, waits))++);
    heap_of(table, waits)[at] = slot;
    rise(table, at, waits);
}

uint32_t clq_pop(clq_table *table, bool waits) {
    uint32_t *heap = heap_of(table, waits), first = clq_index(heap[0]);
    uint32_t size = clq_index(--*size_of(table, waits));
    if (size > 0) {
        heap[0] = heap[size];
        sink(table, 0, waits);
    }
    return first;
}

/* --- acquired jobs, by the end of their leases ------------------------------------------------ */

void clq_link_lease(clq_table *table, uint32_t index) {
    clq_slot *slot = clq_slot_at(table, index);
    uint32_t before = table->newest;
    for (uint32_t steps = 0; before != CLQ_NONE && steps < CLQ_SLOTS &&
                             clq_slot_at(table, before)->until_ns > slot->until_ns;
         steps++) {
        before = clq_slot_at(table, before)->prev; /* only after the terms have changed */
    }
    uint32_t after = before == CLQ_NONE ? table->oldest : clq_slot_at(table, before)->next;
    slot->prev = before;
    slot->next = after;
    *(before == CLQ_NONE ? &table->oldest : &clq_slot_at(table, before)->next) = index;
    *(after == CLQ_NONE ? &table->newest : &clq_slot_at(table, after)->prev) = index;
}

void clq_unlink_lease(clq_table *table, uint32_t index) {
    uint32_t prev = clq_slot_at(table, index)->prev, next = clq_slot_at(table, index)->next;
    *(prev == CLQ_NONE ? &table->oldest : &clq_slot_at(table, prev)->next) = next;
    *(next == CLQ_NONE ? &table->newest : &clq_slot_at(table, next)->prev) = prev;
}

void clq_count_acquired(clq_table *table, uint32_t worker, int change) {
    table->acquired += (uint32_t)change;
    table->workers[worker % CLQ_WORKERS].acquired += (uint32_t)change;
}

/* --- order by key ----------------------------------------------------------------------------- */

static inline uint32_t bucket_of(const clq_slot *slot) { return (uint32_t)(slot->key >> 52); }

static inline bool is_ordered(const clq_table *table, const clq_slot *slot) {
    return table->terms.ordered && slot->key != 0;
}

/* Appends a job to its bucket. */
void clq_join_bucket(clq_table *table, uint32_t index) {
    clq_slot *slot = clq_slot_at(table, index);
    slot->behind = CLQ_NONE;
    if (!is_ordered(table, slot)) {
        return;
    }
    uint32_t bucket = bucket_of(slot), last = table->bucket_last[bucket];
    *(last == CLQ_NONE ? &table->bucket_first[bucket] : &clq_slot_at(table, last)->behind) = index;
    table->bucket_last[bucket] = index;
}

/* A job that is not the first of its bucket cannot be taken yet. */
bool clq_is_blocked(const clq_table *table, uint32_t index) {
    const clq_slot *slot = clq_slot_at(table, index);
    return is_ordered(table, slot) && table->bucket_first[bucket_of(slot)] != index;
}

void clq_leave_bucket(clq_table *table, uint32_t index) {
    clq_slot *slot = clq_slot_at(table, index);
    if (!is_ordered(table, slot)) {
        return;
    }
    uint32_t bucket = bucket_of(slot), next = slot->behind, before = table->bucket_first[bucket];
    bool was_first = before == index;
    if (was_first) {
        table->bucket_first[bucket] = next;
        before = CLQ_NONE;
    } else { /* several jobs of a key were held when the terms changed to an order */
        for (uint32_t steps = 0; clq_slot_at(table, before)->behind != index && steps < CLQ_SLOTS;
             steps++) {
            before = clq_slot_at(table, before)->behind;
        }
        clq_slot_at(table, before)->behind = next;
    }
    if (next == CLQ_NONE) {
        table->bucket_last[bucket] = before;
    } else if (was_first) {
        enum clq_state state = clq_state_of(clq_slot_at(table, next)->word);
        if (state == CLQ_AVAILABLE || state == CLQ_WAITING) {
            clq_push(table, clq_index(next), state == CLQ_WAITING);
        }
    }
}
