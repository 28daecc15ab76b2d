#define _GNU_SOURCE /* qsort_r */
#include "lease_table.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"

/* A process may be killed between any two stores: the compiler keeps their order around this. */
#define ORDERED() __atomic_signal_fence(__ATOMIC_SEQ_CST)

static void set_word(clq_slot *slot, uint64_t word) {
    ORDERED();
    __atomic_store_n(&slot->word, word, __ATOMIC_RELEASE);
    ORDERED();
}

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

static void push(clq_table *table, uint32_t slot, bool waits) {
    uint32_t at = (*size_of(table, waits))++;
    cl_assert(at, <, CLQ_SLOTS);
    place(table, heap_of(table, waits), at, slot);
    rise(table, at, waits);
}

static uint32_t pop(clq_table *table, bool waits) {
    uint32_t *heap = heap_of(table, waits), first = heap[0], size = --*size_of(table, waits);
    if (size > 0) {
        place(table, heap, 0, heap[size]);
        sink(table, 0, waits);
    }
    return first;
}

/* --- acquired jobs, by the end of their leases ------------------------------------------------ */

static void link_lease(clq_table *table, uint32_t index) {
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

static void unlink_lease(clq_table *table, uint32_t index) {
    clq_slot *slots = table->slots, *slot = &slots[index];
    *(slot->prev == CLQ_NONE ? &table->oldest : &slots[slot->prev].next) = slot->next;
    *(slot->next == CLQ_NONE ? &table->newest : &slots[slot->next].prev) = slot->prev;
}

static void count_acquired(clq_table *table, uint32_t worker, int change) {
    table->acquired += (uint32_t)change;
    table->workers[worker].acquired += (uint32_t)change;
}

/* --- order by key ----------------------------------------------------------------------------- */

static inline uint32_t bucket_of(const clq_slot *slot) { return (uint32_t)(slot->key >> 52); }

static inline bool is_ordered(const clq_table *table, const clq_slot *slot) {
    return table->terms.ordered && slot->key != 0;
}

/* Appends a job to its bucket. */
static void join_bucket(clq_table *table, uint32_t index) {
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
static inline bool is_blocked(const clq_table *table, uint32_t index) {
    const clq_slot *slot = &table->slots[index];
    return is_ordered(table, slot) && table->bucket_first[bucket_of(slot)] != index;
}

static void leave_bucket(clq_table *table, uint32_t index) {
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
            push(table, next, state == CLQ_WAITING);
        }
    }
}

/* --- the table -------------------------------------------------------------------------------- */

void clq_format(clq_table *table, int64_t scan, const clq_terms *terms) {
    table->scan = scan;
    table->terms = *terms;
    clq_rebuild(table);
}

static inline bool has_lease(const clq_slot *slot) {
    return clq_state_of(slot->word) == CLQ_ACQUIRED || clq_state_of(slot->word) == CLQ_ACCEPTING;
}

/* Held jobs come first, so that none of their keys is handed out twice. */
static int by_turn(const void *left, const void *right, void *slots) {
    const clq_slot *one = &((clq_slot *)slots)[*(const uint32_t *)left];
    const clq_slot *other = &((clq_slot *)slots)[*(const uint32_t *)right];
    if (has_lease(one) != has_lease(other)) {
        return has_lease(one) ? -1 : 1;
    }
    return (one->position > other->position) - (one->position < other->position);
}

void clq_rebuild(clq_table *table) {
    uint32_t *order = table->available_heap, count = 0; /* free memory until the heaps are made */
    table->free = table->oldest = table->newest = CLQ_NONE;
    table->available = table->waiting = table->acquired = table->unfinished = 0;
    memset(table->bucket_first, 0xff, sizeof table->bucket_first);
    memset(table->bucket_last, 0xff, sizeof table->bucket_last);
    for (uint32_t i = 0; i < CLQ_WORKERS; i++) {
        table->workers[i].acquired = 0;
    }
    for (uint32_t i = CLQ_SLOTS; i-- > 0;) {
        clq_slot *slot = &table->slots[i];
        if (clq_state_of(slot->word) != CLQ_FREE && slot->stop > table->scan) {
            set_word(slot, 0);
        }
        if (clq_state_of(slot->word) == CLQ_FREE) {
            slot->next = table->free;
            table->free = i;
        } else {
            order[count++] = i;
        }
    }
    qsort_r(order, count, sizeof *order, by_turn, table->slots);
    table->unfinished = count;
    for (uint32_t i = 0; i < count; i++) {
        join_bucket(table, order[i]);
    }
    memcpy(table->waiting_heap, order, count * sizeof *order);
    for (uint32_t i = 0; i < count; i++) {
        /* A heap has at most `i` jobs by now, so it overwrites only what was read. */
        uint32_t index = table->waiting_heap[i];
        uint64_t word = table->slots[index].word;
        if (has_lease(&table->slots[index])) {
            link_lease(table, index);
            count_acquired(table, clq_worker_of(word), 1);
        } else if (!is_blocked(table, index)) {
            push(table, index, clq_state_of(word) == CLQ_WAITING);
        }
    }
}

/* Puts a job that is not held into the heap of its state, unless it is blocked. */
static void line_up(clq_table *table, uint32_t index) {
    if (!is_blocked(table, index)) {
        push(table, index, clq_state_of(table->slots[index].word) == CLQ_WAITING);
    }
}

static uint32_t fill(clq_table *table, const clq_found *found) {
    uint32_t index = table->free;
    if (index == CLQ_NONE) {
        return CLQ_NONE;
    }
    clq_slot *slot = &table->slots[index];
    table->free = slot->next;
    slot->start = found->start;
    slot->position = found->position;
    slot->stop = found->stop;
    slot->key = found->key;
    slot->print = found->print;
    slot->until_ns = slot->taken_ns = 0;
    slot->history = -1;
    slot->cause = CLQ_NEW;
    table->unfinished++;
    return index;
}

static void set_top(clq_table *table, const clq_found *found) {
    table->top = found->position;
    table->top_print = found->print;
}

int64_t clq_add(clq_table *table, int64_t from, int64_t to, const clq_found *found, uint32_t count,
                const clq_found *last) {
    if (table->scan != from) {
        return -1;
    }
    for (uint32_t i = 0; i < count; i++) {
        cl_assert(found[i].stop, >, found[i].start);
        uint32_t index = fill(table, &found[i]);
        if (index == CLQ_NONE) {
            return i;
        }
        join_bucket(table, index);
        bool suspect = found[i].position < table->suspect_below;
        set_word(&table->slots[index],
                 clq_word(CLQ_AVAILABLE, suspect ? CLQ_SUSPECT : 0, 0, 0, 0));
        set_top(table, &found[i]);
        table->scan = found[i].stop;
        line_up(table, index);
    }
    if (last != NULL) {
        set_top(table, last);
    }
    table->scan = to;
    return count;
}

bool clq_restore(clq_table *table, const clq_found *found, uint32_t attempt, int64_t until_ns,
                 int64_t history, uint32_t flags) {
    uint32_t index = fill(table, found);
    if (index == CLQ_NONE) {
        return false;
    }
    clq_slot *slot = &table->slots[index];
    slot->until_ns = until_ns;
    slot->history = history;
    join_bucket(table, index);
    set_word(slot, clq_word(until_ns ? CLQ_WAITING : CLQ_AVAILABLE, flags, 0, attempt, 0));
    line_up(table, index);
    return true;
}

uint32_t clq_wake_due(clq_table *table, int64_t now_ns) {
    uint32_t count = 0;
    while (table->waiting > 0 && table->slots[table->waiting_heap[0]].until_ns <= now_ns) {
        uint32_t index = pop(table, true);
        uint64_t word = table->slots[index].word;
        set_word(&table->slots[index],
                 clq_word(CLQ_AVAILABLE, clq_flags_of(word), 0, clq_attempt_of(word), 0));
        push(table, index, false);
        count++;
    }
    return count;
}

/* Ends the lease of a job that is held, or was about to be accepted. */
static void give_back(clq_table *table, uint32_t index, int64_t until_ns, bool tried,
                      enum clq_cause cause) {
    clq_slot *slot = &table->slots[index];
    uint64_t word = slot->word;
    uint32_t attempt = clq_attempt_of(word), flags = clq_flags_of(word);
    bool counts = tried && !(flags & CLQ_PENDING);
    if (!counts && !(flags & CLQ_DYING) && attempt > 0) {
        attempt--;
    }
    unlink_lease(table, index);
    count_acquired(table, clq_worker_of(word), -1);
    slot->until_ns = until_ns;
    if (counts) {
        slot->cause = cause;
    }
    set_word(slot, clq_word(until_ns ? CLQ_WAITING : CLQ_AVAILABLE, flags & ~CLQ_PENDING, 0,
                            attempt, 0));
    line_up(table, index);
}

uint32_t clq_expire(clq_table *table, int64_t now_ns) {
    uint32_t count = 0;
    for (uint32_t index = table->oldest, next;
         index != CLQ_NONE && table->slots[index].until_ns <= now_ns; index = next) {
        next = table->slots[index].next;
        if (clq_state_of(table->slots[index].word) == CLQ_ACQUIRED) {
            give_back(table, index, 0, true, CLQ_LEASE_ENDED);
            count++;
        }
    }
    table->expired += count;
    return count;
}

uint32_t clq_orphan(clq_table *table, uint32_t worker, clq_lease *accepting, uint32_t most,
                    uint32_t *found) {
    uint32_t count = 0;
    *found = 0;
    for (uint32_t index = table->oldest, next; index != CLQ_NONE; index = next) {
        next = table->slots[index].next;
        uint64_t word = table->slots[index].word;
        if (clq_worker_of(word) != worker) {
            continue;
        }
        if (clq_state_of(word) == CLQ_ACQUIRED) {
            give_back(table, index, 0, true, CLQ_WORKER_DIED);
            count++;
        } else if (*found < most) {
            accepting[*found].slot = index;
            accepting[(*found)++].ticket = clq_ticket_of(word);
        }
    }
    table->orphaned += count;
    return count;
}

void clq_adopt(clq_table *table, uint32_t index, uint32_t worker) {
    clq_slot *slot = &table->slots[index];
    uint64_t word = slot->word;
    cl_assert(clq_state_of(word), ==, CLQ_ACCEPTING);
    count_acquired(table, clq_worker_of(word), -1);
    set_word(slot, clq_word(CLQ_ACCEPTING, clq_flags_of(word), worker, clq_attempt_of(word),
                            clq_ticket_of(word)));
    count_acquired(table, worker, 1);
}

uint32_t clq_acquire(clq_table *table, uint32_t worker, uint32_t most, int64_t now_ns,
                     clq_lease *leases, enum clq_limit *limit) {
    const clq_terms *terms = &table->terms;
    uint32_t count = 0;
    *limit = CLQ_UNLIMITED;
    for (; count < most && table->available > 0; count++) {
        if (table->acquired >= terms->in_flight) {
            *limit = CLQ_QUEUE_LIMIT;
            break;
        }
        if (table->workers[worker].acquired >= terms->worker_in_flight) {
            *limit = CLQ_WORKER_LIMIT;
            break;
        }
        uint32_t index = pop(table, false);
        clq_slot *slot = &table->slots[index];
        uint32_t attempt = clq_attempt_of(slot->word), flags = clq_flags_of(slot->word);
        if (flags & CLQ_DYING || attempt >= terms->attempts_most) {
            flags |= CLQ_DYING;
        } else if (attempt++ > 0 || flags & CLQ_SUSPECT) {
            flags |= CLQ_PENDING;
        }
        slot->until_ns = now_ns + terms->lease_ns;
        slot->taken_ns = now_ns;
        set_word(slot, clq_word(CLQ_ACQUIRED, flags, worker, attempt, ++table->ticket));
        link_lease(table, index);
        count_acquired(table, worker, 1);
        leases[count].slot = index;
        leases[count].ticket = table->ticket;
    }
    table->taken += count;
    return count;
}

void clq_confirm(clq_table *table, clq_lease lease) {
    clq_slot *slot = &table->slots[lease.slot];
    set_word(slot, slot->word & ~((uint64_t)CLQ_PENDING << 4));
}

void clq_begin_accept(clq_table *table, clq_lease lease, int64_t noted_from) {
    clq_slot *slot = &table->slots[lease.slot];
    slot->noted_from = noted_from;
    cl_assert(clq_state_of(slot->word), ==, CLQ_ACQUIRED);
    set_word(slot, (slot->word & ~(uint64_t)15) | CLQ_ACCEPTING);
}

void clq_undo_accept(clq_table *table, clq_lease lease) {
    clq_slot *slot = &table->slots[lease.slot];
    cl_assert(clq_state_of(slot->word), ==, CLQ_ACCEPTING);
    set_word(slot, (slot->word & ~(uint64_t)15) | CLQ_ACQUIRED);
}

void clq_finish(clq_table *table, uint32_t index) {
    clq_slot *slot = &table->slots[index];
    uint64_t word = slot->word;
    cl_assert(clq_state_of(word), ==, CLQ_ACCEPTING);
    unlink_lease(table, index);
    count_acquired(table, clq_worker_of(word), -1);
    set_word(slot, 0);
    leave_bucket(table, index);
    slot->next = table->free;
    table->free = index;
    table->unfinished--;
}

void clq_release(clq_table *table, clq_lease lease, int64_t until_ns, bool tried) {
    table->released += tried;
    give_back(table, lease.slot, until_ns, tried, CLQ_RELEASED);
}

void clq_renew(clq_table *table, clq_lease lease, int64_t now_ns) {
    unlink_lease(table, lease.slot);
    table->slots[lease.slot].until_ns = now_ns + table->terms.lease_ns;
    link_lease(table, lease.slot);
}

void clq_doom(clq_table *table, clq_lease lease) {
    clq_slot *slot = &table->slots[lease.slot];
    set_word(slot, slot->word | (uint64_t)CLQ_DYING << 4);
}

int64_t clq_low(const clq_table *table) {
    int64_t low = table->scan;
    for (uint32_t i = 0; i < CLQ_SLOTS && table->unfinished > 0; i++) {
        const clq_slot *slot = &table->slots[i];
        if (clq_state_of(slot->word) != CLQ_FREE && slot->start < low) {
            low = slot->start;
        }
    }
    return low;
}
