/* A writer's state: its segment, how far it may append there, and what is due on the way. */
#define _GNU_SOURCE
#include "writer.h"

#include <string.h>

#include "crc32c.h"
#include "crc32c_steps.h"
#include "futex.h"

void cl_writer_measure(cl_writer *writer, uint64_t number) {
    uint32_t size = (uint32_t)writer->log->segment_size;
    uint32_t allocated = cl_log_allocated(writer->log, number);
    cl_assert(allocated, >=, CL_SEGMENT_HEADER + CL_FRAME_SMALLEST);
    writer->room = allocated < size ? allocated - CL_FRAME_SMALLEST : size;
    writer->add_limit = allocated < size ? 0 : CL_FRAME_ADD_LIMIT;
    cl_assert(writer->room, >=, CL_SEGMENT_HEADER);
    cl_assert(writer->room, <=, size);
}

void cl_writer_set_fast(cl_writer *writer, uint64_t below) {
    writer->fast_below = below;
    cl_assert(below, <=, writer->wake_tail);
    writer->fast_length = below != 0 && writer->largest != 0 ? INTERLEAVED_LEAST : 0;
    cl_assert(writer->fast_length == 0 || writer->largest >= SHORT_LENGTH, ==, true);
}

void cl_writer_set_largest(cl_writer *writer, uint32_t largest) {
    writer->largest = largest;
    cl_writer_set_fast(writer, writer->fast_below);
}

void cl_writer_plan(cl_writer *writer) {
    const cl_segment *segment = writer->segment;
    cl_writer_set_fast(writer, 0);
    if (segment == NULL || !cl_crc32c_steps) {
        return;
    }
    cl_writer_measure(writer, segment->number);
    bool adds = writer->overshot == CL_NO_SEGMENT && !writer->segment_missing &&
                writer->add_limit == CL_FRAME_ADD_LIMIT;
    if (writer->plain || adds) {
        uint64_t end = cl_tail_pack(segment->number, writer->room);
        cl_writer_set_fast(writer, end < writer->wake_tail ? end : writer->wake_tail);
    }
}

uint64_t cl_writer_rolls_from(const cl_writer *writer) {
    uint64_t packed = cl_load(writer->tail);
    return cl_tail_offset(packed) >= writer->log->segment_size ? cl_tail_number(packed)
                                                               : CL_NO_SEGMENT;
}

void cl_writer_init(cl_writer *writer, cl_log *log, bool plain, bool precise, uint32_t wake_bytes) {
    cl_assert(log->slot, <, CL_CURSORS_SLOTS);
    cl_assert(log->owner, !=, 0);
    cl_assert(cl_load(&log->cursors->slots[log->slot].counter) % 2, ==, 0);
    cl_assert(cl_tail_offset(cl_load(log->tail)), >=, CL_SEGMENT_HEADER);
    memset(writer, 0, sizeof *writer);
    writer->log = log;
    writer->tail = log->tail;
    writer->slot = &log->cursors->slots[log->slot];
    writer->overshot = cl_writer_rolls_from(
        writer); /* a new handle, too, must not add past an end that is already reached */
    writer->cycle_end_ns = INT64_MAX;
    writer->wake_bytes = wake_bytes;
    writer->limit_tail = UINT64_MAX;
    writer->largest = cl_frame_largest(log->segment_size);
    writer->plain = plain;
    writer->clock = precise ? CLOCK_REALTIME : CLOCK_REALTIME_COARSE;
    cl_writer_measure(writer, cl_tail_number(cl_load(log->tail)));
}

static void wake_at(cl_writer *writer, uint64_t packed) {
    writer->wake_tail = packed < writer->limit_tail ? packed : writer->limit_tail;
    cl_writer_plan(writer);
}

void cl_writer_limit(cl_writer *writer, uint64_t limit_tail, uint64_t required_seen) {
    writer->limit_tail = limit_tail;
    writer->required_seen = required_seen;
    wake_at(writer, writer->wake_tail);
    if (writer->log->refusal == (uint32_t)-CL_E_LAG) {
        writer->log->refusal = 0;
    }
}

void cl_writer_clear(cl_writer *writer) {
    cl_segment_release(writer->segment);
    writer->segment = NULL;
    cl_writer_set_fast(writer, 0);
}

/* Whether a thread sees within milliseconds, without being woken, that the tail has left a segment.
 * A wake-up is the greater part of a roll's time, and the woken thread may take over the appender's
 * processor. */
static bool roll_is_followed(const cl_log *log) {
    return log->pooled ? !cl_load32(&log->commit_rests) : cl_load32(&log->service_polls) != 0;
}

__attribute__((noinline)) int cl_writer_switch(cl_writer *writer, uint64_t number) {
    cl_segment *segment;
    cl_assert(cl_writer_at(writer, number), ==, false);
    int code = cl_table_acquire(&writer->log->table, number, &segment);
    if (code != CL_OK) {
        return code;
    }
    cl_segment_release(writer->segment);
    writer->segment = segment;
    cl_assert(segment->number, ==, number);
    cl_assert(segment->size, ==, writer->log->segment_size);
    cl_writer_measure(writer, number);
    wake_at(writer, cl_tail_pack(number, CL_SEGMENT_HEADER + writer->wake_bytes));
    if (!roll_is_followed(writer->log)) {
        cl_futex_raise(&writer->log->event);
    }
    return CL_OK;
}

/* In the second half of a segment, the next one is to be ready, in a pooled log with its buffer. A
 * mapped log wakes the service once, in case the service has not run since the roll. */
static bool wants_next(const cl_writer *writer, uint64_t packed) {
    const cl_log *log = writer->log;
    uint64_t offset = cl_tail_offset(packed), half = log->segment_size / 2;
    return offset >= half && (log->pooled || offset < half + writer->wake_bytes) &&
           cl_tail_number(packed) + 1 >= log->ready_below;
}

__attribute__((noinline)) void cl_writer_see_to(cl_writer *writer, uint64_t packed) {
    cl_log *log = writer->log;
    wake_at(writer, packed + writer->wake_bytes);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the tail is stored before this load */
    if (log->pooled && cl_load32(&log->commit_rests)) {
        cl_futex_raise(&log->commit_signal);
    }
    /* The allocation service makes the next segment ready, or allocates blocks ahead. */
    if (wants_next(writer, packed) || writer->add_limit == 0) {
        cl_futex_raise(&log->event);
    }
    bool due = packed > writer->limit_tail ||
               cl_load(&log->cursors->required.value) != writer->required_seen;
    if (due && log->refusal == 0) {
        log->refusal = (uint32_t)-CL_E_LAG;
    }
}
