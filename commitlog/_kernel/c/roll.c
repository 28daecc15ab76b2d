#include "roll.h"

#include "claim.h"
#include "futex.h"

int cl_writer_close_segment(cl_writer *writer, uint64_t number) {
    int code = cl_writer_refusal(writer);
    if (code != CL_OK && code != CL_E_LAG) { /* closing a segment appends no record */
        return code;
    }
    code = CL_OK;
    uint32_t size = (uint32_t)writer->log->segment_size;
    cl_slot_enter(writer->slot);
    uint64_t seen = cl_load(writer->tail);
    number = number == CL_SEGMENT_CURRENT ? cl_tail_number(seen) : number;
    /* A swap fails only if an append moved the tail, and a segment has room for so many appends. */
    while (cl_tail_number(seen) == number && cl_tail_offset(seen) < size) {
        code = cl_writer_at(writer, number) ? CL_OK : cl_writer_switch(writer, number);
        if (code != CL_OK) {
            break;
        }
        cl_assert(writer->segment->number, ==, number);
        cl_assert(cl_tail_offset(seen), >=, CL_SEGMENT_HEADER);
        /* In a plain log the pad is in place before the tail moves over it, as with every other
         * frame. */
        uint64_t zero = 0;
        if (writer->plain) {
            cl_pad_to_end(writer->segment, cl_tail_offset(seen));
        }
        if (cl_swap(writer->tail, &seen, cl_tail_pack(number, size))) {
            cl_swap((uint64_t *)(writer->segment->bytes + cl_tail_offset(seen)), &zero,
                    cl_skip_cell(writer->segment, cl_tail_offset(seen), 0));
            cl_assert(cl_load((const uint64_t *)(writer->segment->bytes + cl_tail_offset(seen))),
                      !=, 0);
            break;
        }
    }
    cl_slot_leave(writer->slot);
    if (code == CL_OK) {
        seen = cl_load(writer->tail);
        cl_assert(cl_tail_number(seen) != number || cl_tail_offset(seen) >= size, ==, true);
    }
    return code;
}

/* The handle whose swap on its first word succeeds is the only author of the opened part; the other
 * fields follow from that word. */
static int64_t open_segment(cl_segment *segment, int64_t now_ns) {
    cl_header_opened *opened = (cl_header_opened *)(segment->map + CL_HEADER_OPENED_AT);
    uint64_t none = 0;
    cl_assert(now_ns, !=, 0); /* 0: not opened */
    cl_swap((uint64_t *)&opened->opened_ns, &none, (uint64_t)now_ns);
    return (int64_t)cl_load((const uint64_t *)&opened->opened_ns);
}

static void note_cycle(cl_segment *segment, int64_t opened_ns, int64_t cycle) {
    cl_header_opened *opened = (cl_header_opened *)(segment->map + CL_HEADER_OPENED_AT);
    cl_assert(cl_load((const uint64_t *)&opened->opened_ns), ==, opened_ns); /* its only author */
    cl_store((uint64_t *)&opened->cycle, (uint64_t)cycle);
    cl_store32(&opened->crc, cl_header_opened_crc(segment->id, opened_ns, cycle));
}

int cl_writer_open_segment(cl_writer *writer, uint64_t number, int64_t now_ns, int64_t *opened_ns) {
    cl_segment *segment;
    int code = cl_table_acquire(&writer->log->table, number, &segment);
    if (code == CL_OK) {
        *opened_ns = open_segment(segment, now_ns);
        cl_assert(*opened_ns, !=, 0);
        cl_segment_release(segment);
    }
    return code;
}

int cl_writer_roll(cl_writer *writer, uint64_t number, int64_t now_ns, int64_t cycle) {
    cl_segment *next;
    uint64_t seen = cl_load(writer->tail);
    if (cl_tail_number(seen) != number || cl_tail_offset(seen) < writer->log->segment_size) {
        return CL_OK; /* another handle has rolled */
    }
    int code = cl_table_acquire(&writer->log->table, number + 1, &next);
    if (code != CL_OK) {
        return code;
    }
    cl_assert(next->number, ==, number + 1);
    note_cycle(next, open_segment(next, now_ns), cycle);
    /* A swap fails if another handle rolled, or added past the end, which each handle does once. */
    while (cl_tail_number(seen) == number &&
           !cl_swap(writer->tail, &seen, cl_tail_pack(number + 1, CL_SEGMENT_HEADER))) {
    }
    cl_assert(cl_load(writer->tail), >=, cl_tail_pack(number + 1, CL_SEGMENT_HEADER));
    writer->counters.rolls++;
    cl_segment_release(next);
    return CL_OK;
}

/* The time of a roll from segment `number`: the clock's, but not before the log rolled into it. */
static int time_after(cl_writer *writer, uint64_t number, int64_t *now_ns) {
    cl_segment *left;
    int code = cl_table_acquire(&writer->log->table, number, &left);
    if (code == CL_OK) {
        cl_header_opened opened;
        *now_ns = cl_clock_precise_ns();
        if (cl_header_opened_read(left->map, left->id, &opened) && opened.opened_ns > *now_ns) {
            *now_ns = opened.opened_ns;
        }
        cl_segment_release(left);
    }
    return code;
}

int cl_writer_roll_ahead(cl_writer *writer, uint64_t number) {
    int64_t now_ns;
    if (writer->cycle_end_ns != INT64_MAX || number + 1 >= writer->log->ready_below) {
        return CL_E_ABSENT;
    }
    int code = time_after(writer, number, &now_ns);
    return code == CL_OK ? cl_writer_roll(writer, number, now_ns, 0) : code;
}
