/* How a reader that has caught up waits for more. */
#include <sched.h>

#include "futex.h"
#include "reader.h"

#define STREAM_LOOKS 4u /* a record that arrived within this many polls may be part of a stream */
#define GAP_FIRST 2u /* pauses */
/* About 3 us: the latency that a reader may add to a stream that is faster than it. */
#define GAP_LONGEST 64u
/* After a gap that brought one record, the reader makes none for this many waits. */
#define GAP_CALM 64u
#define LOOKS_PER_CLOCK 32u

static inline uint64_t position_of(const cl_reader *reader) {
    return reader->segment->base + reader->offset;
}

/* Whether the last read found an unpublished claim or a gap here. The reader must read again soon,
 * because reads resolve it. */
static bool is_held_up(const cl_reader *reader) {
    return reader->watch->position == position_of(reader);
}

/* Whether a read may find a record. Only this function reads the cache line that a writer is about
 * to write. */
static inline bool has_news(const cl_reader *reader) {
    const cl_segment *segment = reader->segment;
    if (reader->offset >= segment->size) {
        return false; /* the record is in the next segment's file, which the caller opens */
    }
    if (reader->watermark != NULL && cl_load(reader->watermark) <= position_of(reader)) {
        return false;
    }
    if (reader->from_buffer) {
        /* This runs without the interpreter's lock, under which buffers are detached: it may read
         * only the tail. */
        const cl_log *log = reader->log;
        const uint64_t *tail = cl_log_tail(log);
        return !is_held_up(reader) && tail != NULL &&
               cl_log_position(log, cl_load(tail)) > position_of(reader);
    }
    return cl_cell_published(cl_load((const uint64_t *)(segment->map + reader->offset)));
}

/* Whether more than one record was read since the last wait. */
static bool has_read_several(const cl_reader *reader) {
    const cl_segment *segment = reader->segment;
    uint64_t waited_at = reader->far_from - CL_READER_FAR;
    if (reader->offset <= waited_at) {
        return false;
    }
    const uint8_t *first = (reader->from_buffer ? segment->bytes : segment->map) + waited_at;
    uint32_t word = cl_cell_word(cl_load((const uint64_t *)first));
    return reader->offset > waited_at + cl_frame_aligned(word & CL_WORD_LENGTH);
}

/* Returns how many pauses to make before polling. If the last gap brought several records, it was
 * useful, and a longer one may be. If it brought a single one, that record was a reply and not a
 * stream. */
static uint32_t next_gap(cl_reader *reader) {
    bool worth = has_read_several(reader);
    reader->far_from = reader->offset + CL_READER_FAR;
    if (reader->gap != 0) {
        reader->calm = worth ? 0 : GAP_CALM;
        reader->gap = worth ? (reader->gap < GAP_LONGEST ? reader->gap * 2 : GAP_LONGEST) : 0;
    }
    return reader->gap;
}

bool cl_reader_spin(cl_reader *reader) {
    if (has_news(reader)) {
        return true;
    }
    for (uint32_t gap = next_gap(reader); gap > 0; gap--) {
        cl_pause();
    }
    for (uint32_t look = 0; look < CL_SPIN_LOOKS && reader->offset < reader->segment->size;
         look++) {
        if (has_news(reader)) {
            if (reader->gap == 0 && look < STREAM_LOOKS) {
                reader->gap = reader->calm == 0 ? GAP_FIRST : 0;
                reader->calm -= reader->calm != 0;
            }
            return true;
        }
        cl_pause();
    }
    reader->gap = 0;
    return false;
}

uint32_t cl_sleeper_announce(cl_cursors *cursors) {
    uint32_t seen = cl_load32((uint32_t *)&cursors->append_signal.value);
    cl_store(&cursors->waiters.value, 1);
    /* The reader announces itself before its poll, and a writer publishes before it checks for
     * waiters: one of them sees the other. The signal was read before both, so that a wake-up in
     * between ends the sleep at once. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return seen;
}

bool cl_reader_news(const cl_reader *reader) { return is_held_up(reader) || has_news(reader); }

void cl_sleeper_wait(cl_cursors *cursors, uint32_t seen, int64_t timeout_ns) {
    uint32_t *signal = (uint32_t *)&cursors->append_signal.value;
    cl_futex_wait(signal, seen, timeout_ns);
    if (cl_load32(signal) != seen) {
        cl_futex_wake_all(signal);
    }
}

static void wait_blocked(cl_reader *reader, int64_t budget_ns) {
    cl_cursors *cursors = reader->log->cursors;
    if (reader->watermark != NULL) {
        uint32_t seen = cl_load32(reader->watermark_signal);
        if (!has_news(reader)) {
            cl_futex_wait(reader->watermark_signal, seen, budget_ns);
        }
        return;
    }
    uint32_t seen = cl_sleeper_announce(cursors);
    if (!has_news(reader)) {
        cl_sleeper_wait(cursors, seen, budget_ns);
    }
}

/* Waits between two polls. */
static void idle_round(cl_idle idle, uint32_t round, int64_t *nap_ns) {
    if (idle == CL_IDLE_SPIN) {
        cl_pause();
    } else if (idle == CL_IDLE_BACKOFF && round < CL_BACKOFF_SPINS) {
        for (int pause = 0; pause < 16; pause++) {
            cl_pause();
        }
    } else if (idle == CL_IDLE_YIELD || round < CL_BACKOFF_YIELDS) {
        sched_yield();
    } else {
        cl_sleep_ns(*nap_ns);
        *nap_ns = *nap_ns * 2 < CL_NAP_LONGEST_NS ? *nap_ns * 2 : CL_NAP_LONGEST_NS;
    }
}

/* Polls, with longer and longer pauses; true if there is news. With `sleeps`, ends at the longest
 * pause: the caller sleeps on the futex then. */
static bool poll_for_news(cl_reader *reader, cl_idle idle, bool sleeps, int64_t deadline_ns) {
    bool rested = idle == CL_IDLE_BACKOFF && reader->rested == position_of(reader);
    int64_t nap_ns = rested ? CL_NAP_LONGEST_NS : CL_NAP_FIRST_NS;
    for (uint32_t round = rested ? CL_BACKOFF_YIELDS : 0; !has_news(reader); round++) {
        /* Reading the clock takes as long as several polls of the cell. */
        if (((idle != CL_IDLE_SPIN || round % LOOKS_PER_CLOCK == 0) &&
             cl_clock_monotonic_ns() >= deadline_ns) ||
            (sleeps && nap_ns == CL_NAP_LONGEST_NS)) {
            return false;
        }
        idle_round(idle, round, &nap_ns);
    }
    return true;
}

bool cl_reader_wait(cl_reader *reader, cl_idle idle, int64_t budget_ns) {
    bool held_up = is_held_up(reader);
    if (held_up) {
        /* The next read probes whether the owner lives, once the claim is CL_PROBE_AFTER_NS old.
         * For a live owner's claim, one read a millisecond is enough. */
        int64_t soon_ns =
            reader->watch->awake_ns < CL_PROBE_AFTER_NS ? CL_PROBE_AFTER_NS : CL_NAP_LONGEST_NS;
        budget_ns = budget_ns < soon_ns ? budget_ns : soon_ns;
    }
    int64_t deadline_ns = cl_clock_monotonic_ns() + budget_ns;
    /* A pooled log's writer wakes readers only after the commit. */
    bool wakes = reader->announces && !reader->from_buffer;
    if (idle == CL_IDLE_BLOCK && !wakes) {
        idle = CL_IDLE_BACKOFF;
    }
    bool sleeps = wakes && idle == CL_IDLE_BACKOFF && !held_up;
    if (idle != CL_IDLE_BLOCK && poll_for_news(reader, idle, sleeps, deadline_ns)) {
        return true;
    }
    int64_t left_ns = deadline_ns - cl_clock_monotonic_ns();
    if ((sleeps || idle == CL_IDLE_BLOCK) && left_ns > 0 && !has_news(reader)) {
        wait_blocked(reader, left_ns);
    }
    if (has_news(reader)) {
        return true;
    }
    /* A short wait has not come to the longest pause. */
    reader->rested = held_up || budget_ns < 2 * CL_NAP_LONGEST_NS ? 0 : position_of(reader);
    return false;
}
