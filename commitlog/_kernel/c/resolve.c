/* Resolves claims that will never be published, and waits for those that are only slow. A CLAIMED
 * cell names its owner. A zero cell below the tail is a gap without a name: its owner is one of the
 * slots that are odd. */
#include "resolve.h"

#include "futex.h"

#define PROBE_INTERVAL_NS 1000000ll

/* Records which slots could own a gap below `tail`: those that are odd after the tail was read.
 * Leaves out a slot that has already used up the claim timeout with the same counter, in another
 * gap: a stopped owner costs the timeout once, however many gaps there are. */
static void watch_gap(const cl_cursors *cursors, cl_watch *watch) {
    watch->suspects = 0;
    for (uint32_t slot = 0; slot < CL_CURSORS_SLOTS; slot++) {
        uint64_t counter = cl_load_ordered(&cursors->slots[slot].counter);
        if ((counter & 1) == 0 || counter == watch->outstayed[slot]) {
            continue;
        }
        uint32_t at = watch->suspects++;
        watch->slot[at] = (uint16_t)slot;
        watch->counter[at] = counter;
        watch->generation[at] = cl_load32(&cursors->slots[slot].generation);
    }
    cl_assert(watch->suspects, <=, CL_CURSORS_SLOTS);
}

static void watch_start(const cl_log *log, cl_watch *watch, uint64_t position, uint64_t cell,
                        uint64_t tail, int64_t now_ns) {
    watch->position = position;
    watch->cell = cell;
    watch->tail = tail;
    watch->awake_ns = 0;
    watch->polled_ns = now_ns;
    watch->probed_ns = now_ns - PROBE_INTERVAL_NS;
    watch->suspects = 0;
    if (cell == 0) {
        watch_gap(log->cursors, watch);
    }
}

static void watch_poll(cl_watch *watch, int64_t now_ns) {
    int64_t passed = now_ns - watch->polled_ns;
    watch->awake_ns += passed < CL_POLL_CREDIT_NS ? passed : CL_POLL_CREDIT_NS;
    watch->polled_ns = now_ns;
}

static bool probe_due(cl_watch *watch, int64_t now_ns) {
    if (watch->awake_ns < CL_PROBE_AFTER_NS || now_ns - watch->probed_ns < PROBE_INTERVAL_NS) {
        return false;
    }
    watch->probed_ns = now_ns;
    return true;
}

bool cl_owner_dead(const cl_log *log, uint32_t slot, uint32_t generation) {
    if (slot >= CL_CURSORS_SLOTS) {
        return false; /* no owner writes such a word: only the timeout resolves it */
    }
    if ((cl_load32(&log->cursors->slots[slot].generation) & CL_OWNER_GENERATION_MASK) !=
        generation) {
        return true;
    }
    bool own = log->owner != 0 && slot == log->slot;
    return !own && log->slot_fds.cursors >= 0 && !cl_slot_alive(log->slot_fds, slot);
}

/* Drops the suspects whose counter has changed or whose owner has died. */
static void review_suspects(const cl_log *log, cl_watch *watch, bool probe) {
    uint32_t kept = 0;
    for (uint32_t at = 0; at < watch->suspects; at++) {
        uint32_t slot = watch->slot[at];
        uint64_t counter = cl_load_ordered(&log->cursors->slots[slot].counter);
        if (counter != watch->counter[at] ||
            (probe && cl_owner_dead(log, slot, watch->generation[at] & CL_OWNER_GENERATION_MASK))) {
            continue;
        }
        watch->slot[kept] = watch->slot[at];
        watch->counter[kept] = watch->counter[at];
        watch->generation[kept] = watch->generation[at];
        kept++;
    }
    cl_assert(kept, <=, watch->suspects);
    watch->suspects = kept;
}

/* Marks the gap cell by cell, ascending, up to the tail of the time when it was first seen, and
 * stops at the first cell that is neither zero nor such a mark. If the owner resumes in a marked
 * gap, its first swap fails. *first: the first mark is this handle's, and not one of others who
 * mark the same gap. */
static uint64_t mark_gap(cl_log *log, cl_segment *segment, uint32_t offset, uint64_t tail,
                         bool *first) {
    uint64_t stop = cl_tail_number(tail) == segment->number ? cl_tail_offset(tail) : segment->size;
    stop = stop > segment->size ? segment->size : stop;
    /* If the tail has left a segment without all of its blocks, the last cell that has one closes
     * it: nothing was claimed behind that. */
    uint32_t allocated = cl_log_allocated(log, segment->number);
    bool closes = offset < allocated && allocated < stop;
    stop = closes ? allocated : stop;
    uint32_t start = offset;
    cl_assert(offset % CL_FRAME_SMALLEST, ==, 0);
    cl_assert(start, <, stop);
    for (; offset < stop; offset += CL_FRAME_SMALLEST) {
        uint64_t *cell = (uint64_t *)(segment->bytes + offset);
        bool closing = closes && offset + CL_FRAME_SMALLEST == stop;
        uint64_t mark = cl_skip_cell(segment, offset, closing ? 0 : CL_FRAME_SMALLEST);
        uint64_t seen = 0;
        if (!log->resolves) {
            seen = cl_load(cell);
            if (seen != 0 && seen != mark) {
                break;
            }
        } else if (cl_swap(cell, &seen, mark)) {
            *first |= offset == start;
        } else if (seen != mark) {
            break;
        }
    }
    cl_assert(offset, <=, stop);
    cl_assert(!log->resolves || cl_load((const uint64_t *)(segment->bytes + start)) != 0, ==, true);
    return (closes && offset == stop ? segment->size : offset) - start;
}

static void count_rollback(cl_log *log, uint32_t slot) {
    __atomic_fetch_add(&log->counters.rolled_back, 1, __ATOMIC_RELAXED);
    cl_add(&log->cursors->rolled_back.value, 1);
    if (slot < CL_CURSORS_SLOTS) {
        cl_add(&log->cursors->slots[slot].rolled_back, 1);
    }
}

static int resolve_gap(cl_log *log, cl_segment *segment, uint32_t offset, cl_watch *watch,
                       int64_t now_ns, uint64_t *pass) {
    cl_assert(watch->position, ==, segment->base + offset);
    cl_assert(watch->cell, ==, 0);
    review_suspects(log, watch, probe_due(watch, now_ns));
    if (watch->suspects != 0 && (!log->resolves || watch->awake_ns < log->claim_timeout_ns)) {
        return CL_E_BUSY;
    }
    for (uint32_t at = 0; at < watch->suspects; at++) {
        watch->outstayed[watch->slot[at]] = watch->counter[at];
    }
    bool first = false;
    uint64_t marked = mark_gap(log, segment, offset, watch->tail, &first);
    if (first) {
        count_rollback(log, CL_CURSORS_SLOTS);
    }
    *pass = log->resolves ? 0 : marked;
    watch->position = UINT64_MAX;
    return CL_OK;
}

static int resolve_claim(cl_log *log, cl_segment *segment, uint32_t offset, cl_watch *watch,
                         int64_t now_ns, uint64_t *pass) {
    uint32_t owner = cl_cell_high(watch->cell);
    cl_assert(watch->position, ==, segment->base + offset);
    cl_assert(cl_cell_word(watch->cell) & CL_WORD_CLAIMED, !=, 0);
    uint32_t slot = cl_owner_slot(owner);
    bool dead = probe_due(watch, now_ns) && cl_owner_dead(log, slot, cl_owner_generation(owner));
    if (!dead && (!log->resolves || watch->awake_ns < log->claim_timeout_ns)) {
        return CL_E_BUSY;
    }
    if (!log->resolves) {
        *pass = cl_frame_aligned(cl_cell_word(watch->cell) & CL_WORD_LENGTH);
    } else if (cl_roll_back(segment, offset, watch->cell)) {
        count_rollback(log, slot);
    }
    if (log->resolves) {
        cl_assert(cl_load((const uint64_t *)(segment->bytes + offset)), !=, watch->cell);
    }
    watch->position = UINT64_MAX;
    return CL_OK;
}

int cl_resolve(cl_log *log, cl_segment *segment, uint32_t offset, cl_watch *watch, uint64_t *pass) {
    *pass = 0;
    cl_assert(offset, >=, CL_SEGMENT_HEADER);
    cl_assert(offset, <, segment->size);
    cl_assert(offset % CL_FRAME_ALIGN, ==, 0);
    const uint64_t *log_tail = cl_log_tail(log);
    if (log_tail == NULL) {
        return CL_E_END;
    }
    uint64_t position = segment->base + offset;
    uint64_t tail = cl_load_ordered(log_tail);
    /* The tail is read before the cell: a zero cell below this tail was claimed, and is not yet
     * written. */
    uint64_t cell = cl_load_ordered((const uint64_t *)(segment->bytes + offset));
    if (cell == 0 && position >= cl_log_position(log, tail)) {
        return CL_E_END;
    }
    if (cell != 0 && !(cl_cell_word(cell) & CL_WORD_CLAIMED)) {
        return CL_OK;
    }
    int64_t now_ns = cl_clock_monotonic_ns();
    if (watch->position != position || watch->cell != cell) {
        watch_start(log, watch, position, cell, tail, now_ns);
    } else {
        watch_poll(watch, now_ns);
    }
    return cell == 0 ? resolve_gap(log, segment, offset, watch, now_ns, pass)
                     : resolve_claim(log, segment, offset, watch, now_ns, pass);
}
