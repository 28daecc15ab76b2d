#define _GNU_SOURCE /* qsort_r */
#include "lease_table.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "lease_order.h"

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
    const clq_slot *one = &((clq_slot *)slots)[clq_index(*(const uint32_t *)left)];
    const clq_slot *other = &((clq_slot *)slots)[clq_index(*(const uint32_t *)right)];
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
        clq_slot *slot = clq_slot_at(table, i);
        if (clq_state_of(slot->word) != CLQ_FREE && slot->stop > table->scan) {
            clq_set_word(slot, 0);
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
        clq_join_bucket(table, order[i]);
    }
    memcpy(table->waiting_heap, order, count * sizeof *order);
    for (uint32_t i = 0; i < count; i++) {
        /* A heap has at most `i` jobs by now, so it overwrites only what was read. */
        uint32_t index = clq_index(table->waiting_heap[i]);
        uint64_t word = clq_slot_at(table, index)->word;
        if (has_lease(clq_slot_at(table, index))) {
            clq_link_lease(table, index);
            clq_count_acquired(table, clq_worker_of(word), 1);
        } else if (!clq_is_blocked(table, index)) {
            clq_push(table, index, clq_state_of(word) == CLQ_WAITING);
        }
    }
}

/* Puts a job that is not held into the heap of its state, unless it is blocked. */
static void line_up(clq_table *table, uint32_t index) {
    if (!clq_is_blocked(table, index)) {
        clq_push(table, index, clq_state_of(clq_slot_at(table, index)->word) == CLQ_WAITING);
    }
}

static uint32_t fill(clq_table *table, const clq_found *found) {
    uint32_t index = table->free;
    if (index == CLQ_NONE) {
        return CLQ_NONE;
    }
    index = clq_index(index);
    clq_slot *slot = clq_slot_at(table, index);
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
        clq_join_bucket(table, index);
        bool suspect = found[i].position < table->suspect_below;
        clq_set_word(clq_slot_at(table, index),
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
    clq_slot *slot = clq_slot_at(table, index);
    slot->until_ns = until_ns;
    slot->history = history;
    clq_join_bucket(table, index);
    clq_set_word(slot, clq_word(until_ns ? CLQ_WAITING : CLQ_AVAILABLE, flags, 0, attempt, 0));
    line_up(table, index);
    return true;
}

uint32_t clq_wake_due(clq_table *table, int64_t now_ns) {
    uint32_t count = 0;
    while (table->waiting > 0 && clq_slot_at(table, table->waiting_heap[0])->until_ns <= now_ns) {
        uint32_t index = clq_pop(table, true);
        uint64_t word = clq_slot_at(table, index)->word;
        clq_set_word(clq_slot_at(table, index),
                     clq_word(CLQ_AVAILABLE, clq_flags_of(word), 0, clq_attempt_of(word), 0));
        clq_push(table, index, false);
        count++;
    }
    return count;
}

/* Ends the lease of a job that is held, or was about to be accepted. */
static void give_back(clq_table *table, uint32_t index, int64_t until_ns, bool tried,
                      enum clq_cause cause) {
    clq_slot *slot = clq_slot_at(table, index);
    uint64_t word = slot->word;
    uint32_t attempt = clq_attempt_of(word), flags = clq_flags_of(word);
    bool counts = tried && !(flags & CLQ_PENDING);
    if (!counts && !(flags & CLQ_DYING) && attempt > 0) {
        attempt--;
    }
    clq_unlink_lease(table, index);
    clq_count_acquired(table, clq_worker_of(word), -1);
    slot->until_ns = until_ns;
    if (counts) {
        slot->cause = cause;
    }
    clq_set_word(slot, clq_word(until_ns ? CLQ_WAITING : CLQ_AVAILABLE, flags & ~CLQ_PENDING, 0,
                                attempt, 0));
    line_up(table, index);
}

uint32_t clq_expire(clq_table *table, int64_t now_ns) {
    uint32_t count = 0, steps = 0;
    for (uint32_t index = table->oldest, next;
         index != CLQ_NONE && clq_slot_at(table, index)->until_ns <= now_ns && steps++ < CLQ_SLOTS;
         index = next) {
        index = clq_index(index);
        next = clq_slot_at(table, index)->next;
        if (clq_state_of(clq_slot_at(table, index)->word) == CLQ_ACQUIRED) {
            give_back(table, index, 0, true, CLQ_LEASE_ENDED);
            count++;
        }
    }
    table->expired += count;
    return count;
}

uint32_t clq_orphan(clq_table *table, uint32_t worker, clq_lease *accepting, uint32_t most,
                    uint32_t *found) {
    uint32_t count = 0, steps = 0;
    *found = 0;
    for (uint32_t index = table->oldest, next; index != CLQ_NONE && steps++ < CLQ_SLOTS;
         index = next) {
        index = clq_index(index);
        next = clq_slot_at(table, index)->next;
        uint64_t word = clq_slot_at(table, index)->word;
        if (clq_worker_of(word) != worker) {
            continue;
        }
        if (clq_state_of(word) == CLQ_ACQUIRED) {
            give_back(table, index, 0, true, CLQ_WORKER_DIED);
            count++;
        } else if (clq_state_of(word) == CLQ_ACCEPTING && *found < most) {
            accepting[*found].slot = index;
            accepting[(*found)++].ticket = clq_ticket_of(word);
        }
    }
    table->orphaned += count;
    return count;
}

void clq_adopt(clq_table *table, uint32_t index, uint32_t worker) {
    clq_slot *slot = clq_slot_at(table, index);
    uint64_t word = slot->word;
    cl_assert(clq_state_of(word), ==, CLQ_ACCEPTING);
    clq_count_acquired(table, clq_worker_of(word), -1);
    clq_set_word(slot, clq_word(CLQ_ACCEPTING, clq_flags_of(word), worker, clq_attempt_of(word),
                                clq_ticket_of(word)));
    clq_count_acquired(table, worker, 1);
}

uint32_t clq_acquire(clq_table *table, uint32_t worker, uint32_t most, int64_t now_ns, bool purges,
                     clq_lease *leases, enum clq_limit *limit) {
    const clq_terms *terms = &table->terms;
    uint32_t count = 0;
    *limit = CLQ_UNLIMITED;
    for (; count < most && table->available > 0; count++) {
        if (!purges && table->acquired >= terms->in_flight) {
            *limit = CLQ_QUEUE_LIMIT;
            break;
        }
        if (!purges && table->workers[worker].acquired >= terms->worker_in_flight) {
            *limit = CLQ_WORKER_LIMIT;
            break;
        }
        uint32_t index = clq_pop(table, false);
        clq_slot *slot = clq_slot_at(table, index);
        uint32_t attempt = clq_attempt_of(slot->word), flags = clq_flags_of(slot->word);
        if (flags & CLQ_DYING || attempt >= terms->attempts_most) {
            flags |= CLQ_DYING;
        } else if (attempt++ > 0 || flags & CLQ_SUSPECT) {
            flags |= CLQ_PENDING;
        }
        slot->until_ns = now_ns + terms->lease_ns;
        slot->taken_ns = now_ns;
        clq_set_word(slot, clq_word(CLQ_ACQUIRED, flags, worker, attempt, ++table->ticket));
        clq_link_lease(table, index);
        clq_count_acquired(table, worker, 1);
        leases[count].slot = index;
        leases[count].ticket = table->ticket;
    }
    table->taken += count;
    return count;
}

void clq_confirm(clq_table *table, clq_lease lease) {
    clq_slot *slot = clq_slot_at(table, lease.slot);
    clq_set_word(slot, slot->word & ~((uint64_t)CLQ_PENDING << 4));
}

void clq_begin_accept(clq_table *table, clq_lease lease, int64_t noted_from) {
    clq_slot *slot = clq_slot_at(table, lease.slot);
    slot->noted_from = noted_from;
    cl_assert(clq_state_of(slot->word), ==, CLQ_ACQUIRED);
    clq_set_word(slot, (slot->word & ~(uint64_t)15) | CLQ_ACCEPTING);
}

void clq_undo_accept(clq_table *table, clq_lease lease) {
    clq_slot *slot = clq_slot_at(table, lease.slot);
    cl_assert(clq_state_of(slot->word), ==, CLQ_ACCEPTING);
    clq_set_word(slot, (slot->word & ~(uint64_t)15) | CLQ_ACQUIRED);
}

void clq_finish(clq_table *table, uint32_t index) {
    clq_slot *slot = clq_slot_at(table, index);
    uint64_t word = slot->word;
    cl_assert(clq_state_of(word), ==, CLQ_ACCEPTING);
    if (slot->noted_from > table->noted) {
        table->noted = slot->noted_from;
    }
    clq_unlink_lease(table, index);
    clq_count_acquired(table, clq_worker_of(word), -1);
    clq_set_word(slot, 0);
    clq_leave_bucket(table, index);
    slot->next = table->free;
    table->free = index;
    table->unfinished--;
}

void clq_release(clq_table *table, clq_lease lease, int64_t until_ns, bool tried) {
    table->released += tried;
    give_back(table, lease.slot, until_ns, tried, CLQ_RELEASED);
}

void clq_renew(clq_table *table, clq_lease lease, int64_t now_ns) {
    clq_unlink_lease(table, lease.slot);
    clq_slot_at(table, lease.slot)->until_ns = now_ns + table->terms.lease_ns;
    clq_link_lease(table, lease.slot);
}

void clq_doom(clq_table *table, clq_lease lease) {
    clq_slot *slot = clq_slot_at(table, lease.slot);
    clq_set_word(slot, slot->word | (uint64_t)CLQ_DYING << 4);
}

int64_t clq_low(const clq_table *table) {
    int64_t low = table->scan;
    for (uint32_t i = 0; i < CLQ_SLOTS && table->unfinished > 0; i++) {
        const clq_slot *slot = clq_slot_at(table, i);
        if (clq_state_of(slot->word) != CLQ_FREE && slot->start < low) {
            low = slot->start;
        }
    }
    return low;
}
