#include "lease_order.h"

#include "assertion.h"

/* --- heaps: available jobs by position, waiting jobs by time ---------------------------------- */

static inline int64_t rank_of(const clq_table *table, uint32_t slot, bool waits) {
    return waits ? table->slots[slot].until_ns : table->slots[slot].position;
}

static inline uint32_t *heap_of(clq_table *table, bool waits) {
    return waits ? table->waiting_heap : table->available_heap;
}

static inline uint32_t *size_of(clq_table *table, bool waits) {
    return waits ? &table->waiting : &table->available;
}

static inline void place(clq_table *table, uint32_t *heap, uint32_t at, uint32_t slot) {
    heap[at] = slot;
    table->slots[slot].heap_at = at;
}

static void rise(clq_table *table, uint32_t at, bool waits) {
    uint32_t *heap = heap_of(table, waits), slot = heap[at];
    int64_t rank = rank_of(table, slot, waits);
    while (at > 0 && rank_of(table, heap[(at - 1) / 2], waits) > rank) {
        place(table, heap, at, heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    place(table, heap, at, slot);
}

static void sink(clq_table *table, uint32_t at, bool waits) {
    uint32_t *heap = heap_of(table, waits), size = *size_of(table, waits), slot = heap[at];
    int64_t rank = rank_of(table, slot, waits);
    for (uint32_t child = 2 * at + 1; child < size; child = 2 * at + 1) {
        if (child + 1 < size &&
            rank_of(table, heap[child + 1], waits) < rank_of(table, heap[child], waits)) {
            child++;
        }
        if (rank_of(table, heap[child], waits) >= rank) {
            break;
        }
        place(table, heap, at, heap[child]);
        at = child;
    }
    place(table, heap, at, slot);
}

void clq_push(clq_table *table, uint32_t slot, bool waits) {
    uint32_t at = (*size_of(table, waits))++;
    cl_assert(at, <, CLQ_SLOTS);
    place(table, heap_of(table, waits), at, slot);
    rise(table, at, waits);
}

uint32_t clq_pop(clq_table *table, bool waits) {
    uint32_t *heap = heap_of(table, waits), first = heap[0], size = --*size_of(table, waits);
    if (size > 0) {
        place(table, heap, 0, heap[size]);
        sink(table, 0, waits);
    }
    return first;
}

/* --- acquired jobs, by the end of their leases ------------------------------------------------ */

void clq_link_lease(clq_table *table, uint32_t index) {
    clq_slot *slots = table->slots;
    uint32_t before = table->newest;
    while (before != CLQ_NONE && slots[before].until_ns > slots[index].until_ns) {
        before = slots[before].prev; /* only after the terms have changed */
    }
    uint32_t after = before == CLQ_NONE ? table->oldest : slots[before].next;
    slots[index].prev = before;
    slots[index].next = after;
    *(before == CLQ_NONE ? &table->oldest : &slots[before].next) = index;
    *(after == CLQ_NONE ? &table->newest : &slots[after].prev) = index;
}

void clq_unlink_lease(clq_table *table, uint32_t index) {
    clq_slot *slots = table->slots, *slot = &slots[index];
    *(slot->prev == CLQ_NONE ? &table->oldest : &slots[slot->prev].next) = slot->next;
    *(slot->next == CLQ_NONE ? &table->newest : &slots[slot->next].prev) = slot->prev;
}

void clq_count_acquired(clq_table *table, uint32_t worker, int change) {
    table->acquired += (uint32_t)change;
    table->workers[worker].acquired += (uint32_t)change;
}

/* --- order by key ----------------------------------------------------------------------------- */

static inline uint32_t bucket_of(const clq_slot *slot) { return (uint32_t)(slot->key >> 52); }

static inline bool is_ordered(const clq_table *table, const clq_slot *slot) {
    return table->terms.ordered && slot->key != 0;
}

/* Appends a job to its bucket. */
void clq_join_bucket(clq_table *table, uint32_t index) {
    clq_slot *slot = &table->slots[index];
    slot->behind = CLQ_NONE;
    if (!is_ordered(table, slot)) {
        return;
    }
    uint32_t bucket = bucket_of(slot), last = table->bucket_last[bucket];
    *(last == CLQ_NONE ? &table->bucket_first[bucket] : &table->slots[last].behind) = index;
    table->bucket_last[bucket] = index;
}

/* A job that is not the first of its bucket cannot be taken yet. */
bool clq_is_blocked(const clq_table *table, uint32_t index) {
    const clq_slot *slot = &table->slots[index];
    return is_ordered(table, slot) && table->bucket_first[bucket_of(slot)] != index;
}

void clq_leave_bucket(clq_table *table, uint32_t index) {
    clq_slot *slots = table->slots, *slot = &slots[index];
    if (!is_ordered(table, slot)) {
        return;
    }
    uint32_t bucket = bucket_of(slot), next = slot->behind, before = table->bucket_first[bucket];
    bool was_first = before == index;
    if (was_first) {
        table->bucket_first[bucket] = next;
        before = CLQ_NONE;
    } else { /* several jobs of a key were held when the terms changed to an order */
        while (slots[before].behind != index) {
            before = slots[before].behind;
        }
        slots[before].behind = next;
    }
    if (next == CLQ_NONE) {
        table->bucket_last[bucket] = before;
    } else if (was_first) {
        enum clq_state state = clq_state_of(slots[next].word);
        if (state == CLQ_AVAILABLE || state == CLQ_WAITING) {
            clq_push(table, next, state == CLQ_WAITING);
        }
    }
}
