/* Claims and their publication: with plain stores, or with swaps on what other processes share. */
#include "claim.h"

#include <string.h>

#include "frame_cursor.h"
#include "futex.h"

#define CLAIM_ATTEMPTS                                                                             \
    1000u /* after as many attempts that other handles rolled back, another one is futile */

__attribute__((noinline)) void cl_pad_to_end(cl_segment *segment, uint32_t offset) {
    uint64_t zero = 0;
    cl_assert(offset, >=, CL_SEGMENT_HEADER);
    cl_assert(offset, <, segment->size);
    cl_swap((uint64_t *)(segment->bytes + offset), &zero, cl_skip_cell(segment, offset, 0));
    cl_assert(cl_load((const uint64_t *)(segment->bytes + offset)), !=, 0);
}

/* Whether a claim of `need` bytes at `offset` has its blocks; if it does not fit the segment,
 * whether the SKIP that closes it has. */
static bool has_blocks(cl_writer *writer, uint64_t number, uint32_t offset, uint32_t need) {
    uint32_t size = (uint32_t)writer->log->segment_size;
    uint32_t end = need <= size - offset ? offset + need : offset;
    cl_writer_measure(writer, number);
    if (CL_LIKELY(end <= writer->room)) {
        return true;
    }
    writer->wanted = cl_tail_pack(number, end);
    return false;
}

__attribute__((noinline)) int cl_plain_pass_room(cl_writer *writer, uint64_t packed,
                                                 uint32_t need) {
    uint32_t size = (uint32_t)writer->segment->size;
    uint32_t offset = cl_tail_offset(packed);
    cl_assert(writer->segment->number, ==, cl_tail_number(packed));
    cl_assert(cl_load_relaxed(writer->tail), ==, packed); /* no other append came in between */
    if (offset < size) {
        if (!has_blocks(writer, cl_tail_number(packed), offset, need)) {
            return CL_E_GROW;
        }
        if (need <= size - offset) {
            cl_writer_plan(writer);
            cl_assert(offset + (uint64_t)need, <=, writer->room);
            return CL_OK;
        }
        cl_pad_to_end(writer->segment, offset);
        cl_store(writer->tail, cl_tail_pack(cl_tail_number(packed), size));
    }
    cl_assert(cl_tail_offset(cl_load_relaxed(writer->tail)), >=, size);
    return CL_E_ROLL;
}

/* Step 1 for large frames, and where blocks may be missing: compare-and-swap on the tail, which
 * never overshoots. A swap fails only if another append moved the tail, and a segment has room for
 * so many appends. */
static int reserve_large(cl_writer *writer, uint32_t need, uint64_t *packed) {
    uint64_t seen = cl_load(writer->tail);
    uint32_t size = (uint32_t)writer->log->segment_size;
    for (;;) {
        uint32_t offset = cl_tail_offset(seen);
        if (offset >= size) {
            writer->overshot = cl_tail_number(seen);
            return CL_E_ROLL;
        }
        if (CL_UNLIKELY(!has_blocks(writer, cl_tail_number(seen), offset, need))) {
            return CL_E_GROW;
        }
        /* If the frame does not fit, the tail moves to the segment's end, and the caller pads. */
        uint64_t next =
            need <= size - offset ? seen + need : cl_tail_pack(cl_tail_number(seen), size);
        cl_assert(seen, <, next);
        cl_assert(cl_tail_offset(next), <=, size);
        if (cl_swap(writer->tail, &seen, next)) {
            *packed = seen;
            return CL_OK;
        }
    }
}

/* Notes that this handle's claim found the end of segment `number`, or could not open it. */
static __attribute__((noinline)) void refrain(cl_writer *writer, uint64_t overshot, bool missing) {
    writer->overshot = overshot;
    writer->segment_missing = missing;
    cl_writer_set_fast(writer, 0);
}

static inline int claim_name(cl_writer *writer, uint64_t packed, uint32_t need, uint32_t length,
                             cl_claim *claim) {
    uint64_t number = cl_tail_number(packed);
    uint32_t offset = cl_tail_offset(packed);
    uint32_t size = (uint32_t)writer->log->segment_size;
    int code = CL_OK;
    cl_assert(offset, >=, CL_SEGMENT_HEADER);
    cl_assert(length, <=, need);
    if (CL_UNLIKELY(offset >= size)) {
        refrain(writer, number, writer->segment_missing);
        code = CL_E_ROLL;
    } else if (CL_UNLIKELY(!cl_writer_at(writer, number))) {
        code = cl_writer_switch(writer, number);
        if (code != CL_OK) {
            refrain(writer, writer->overshot, true);
        }
    }
    if (CL_LIKELY(code == CL_OK)) {
        if (CL_UNLIKELY(need > size - offset)) {
            cl_pad_to_end(writer->segment, offset);
            refrain(writer, number, writer->segment_missing);
            code = CL_E_ROLL;
        } else if (CL_UNLIKELY(
                       !cl_claim_swap(writer->segment->bytes + offset, need,
                                      cl_cell(CL_WORD_CLAIMED | length, writer->log->owner)))) {
            writer->counters.refused++;
            code = CL_E_ROLLED_BACK;
        }
        writer->roll_due |= need == size - offset;
    }
    cl_slot_leave(writer->slot);
    *claim = (cl_claim){.segment = writer->segment, .offset = offset, .length = length};
    if (code == CL_OK) {
        cl_claim_assert(writer, claim, need);
    }
    return code;
}

__attribute__((noinline)) int cl_claim_name(cl_writer *writer, uint64_t packed, uint32_t need,
                                            uint32_t length, cl_claim *claim) {
    return claim_name(writer, packed, need, length, claim);
}

/* After an overshoot this handle does not add again until a handle has moved the tail to another
 * segment. If it could not open the segment of its own claim, it does not add until it can. Each
 * add would waste another range. */
static inline int check_tail(cl_writer *writer) {
    if (CL_LIKELY(writer->overshot == CL_NO_SEGMENT && !writer->segment_missing)) {
        return CL_OK;
    }
    uint64_t number = cl_tail_number(cl_load(writer->tail));
    if (number == writer->overshot) {
        return CL_E_ROLL;
    }
    writer->overshot = CL_NO_SEGMENT;
    if (writer->segment_missing && !cl_writer_at(writer, number)) {
        int code = cl_writer_switch(writer, number);
        if (code != CL_OK) {
            return code;
        }
    }
    writer->segment_missing = false;
    cl_writer_plan(writer);
    return CL_OK;
}

static inline int claim_try(cl_writer *writer, uint32_t need, uint32_t length, cl_claim *claim) {
    uint64_t packed;
    cl_assert(need % CL_FRAME_ALIGN, ==, 0);
    int code = check_tail(writer);
    if (code != CL_OK) {
        return code;
    }
    cl_slot_enter(writer->slot);
    if (CL_UNLIKELY(need > writer->add_limit)) {
        code = reserve_large(writer, need, &packed);
        if (code != CL_OK) {
            cl_slot_leave(writer->slot);
            return code;
        }
    } else {
        packed = cl_add(writer->tail, need);
    }
    return claim_name(writer, packed, need, length, claim);
}

int cl_claim_at(cl_writer *writer, uint64_t packed, uint32_t need, uint32_t length,
                cl_claim *claim) {
    if (writer->plain) {
        cl_assert(cl_load_relaxed(writer->tail), ==, packed);
        claim->length = length;
        return cl_plain_claim(writer, need, claim);
    }
    uint32_t size = (uint32_t)writer->log->segment_size, offset = cl_tail_offset(packed);
    cl_assert(need % CL_FRAME_ALIGN, ==, 0);
    int code = check_tail(writer);
    if (code != CL_OK) {
        return code;
    }
    if (offset >= size) {
        refrain(writer, cl_tail_number(packed), writer->segment_missing);
        return CL_E_ROLL;
    }
    if (writer->add_limit == 0 && !has_blocks(writer, cl_tail_number(packed), offset, need)) {
        return CL_E_GROW;
    }
    /* If the frame does not fit, the tail moves to the segment's end, and the claim pads. */
    uint64_t next =
        need <= size - offset ? packed + need : cl_tail_pack(cl_tail_number(packed), size);
    uint64_t seen = packed;
    cl_assert(packed, <, next);
    cl_assert(cl_tail_offset(next), <=, size);
    cl_slot_enter(writer->slot);
    if (!cl_swap(writer->tail, &seen, next)) {
        cl_slot_leave(writer->slot);
        return CL_E_MOVED;
    }
    return claim_name(writer, packed, need, length, claim);
}

int cl_claim_try(cl_writer *writer, uint32_t need, uint32_t length, cl_claim *claim) {
    return claim_try(writer, need, length, claim);
}

/* Attempts are counted from the last append that succeeded, across rolls. */
__attribute__((noinline)) bool cl_claim_gives_up(cl_writer *writer) {
    if (writer->vain_since != writer->counters.appends) {
        writer->vain_since = writer->counters.appends;
        writer->in_vain = 0;
    }
    cl_assert(writer->in_vain, <, CLAIM_ATTEMPTS);
    if (++writer->in_vain < CLAIM_ATTEMPTS) {
        return false;
    }
    writer->in_vain = 0;
    return true;
}

static int swap_claim(cl_writer *writer, uint32_t need, uint32_t length, cl_claim *claim) {
    for (;;) { /* CLAIM_ATTEMPTS rounds at most */
        int code = claim_try(writer, need, length, claim);
        if (CL_LIKELY(code != CL_E_ROLLED_BACK)) {
            return code;
        }
        if (cl_claim_gives_up(writer)) {
            return CL_E_BUSY;
        }
    }
}

int cl_writer_claim(cl_writer *writer, uint32_t largest, cl_record_input *input, cl_claim *claim) {
    uint64_t length = cl_input_length(input);
    int code = cl_writer_admit(writer, &input->timestamp_ns);
    if (code != CL_OK) {
        return code;
    }
    if (length > largest) {
        return CL_E_TOO_LARGE;
    }
    uint32_t need = cl_frame_aligned((uint32_t)length);
    if (!writer->plain) {
        return swap_claim(writer, need, (uint32_t)length, claim);
    }
    code = cl_plain_claim(writer, need, claim);
    if (code == CL_OK) {
        claim->length = (uint32_t)length;
        cl_assert(writer->log->owner, !=, 0);
        cl_plain_publish(writer, claim->offset, need,
                         cl_cell(CL_WORD_CLAIMED | claim->length, writer->log->owner));
    }
    return code;
}

int cl_writer_publish(cl_writer *writer, const cl_claim *claim, uint64_t cell, uint32_t records) {
    uint64_t claimed = cl_cell(CL_WORD_CLAIMED | claim->length, writer->log->owner);
    cl_assert(cl_cell_published(cell), ==, true);
    cl_assert(cl_cell_word(cell) & CL_WORD_LENGTH, <=, claim->length);
    cl_assert(claim->offset % CL_FRAME_ALIGN, ==, 0);
    cl_assert(claim->offset + (uint64_t)claim->length, <=, claim->segment->size);
    cl_assert(records, >, 0);
    if (CL_UNLIKELY(
            !cl_swap((uint64_t *)(claim->segment->bytes + claim->offset), &claimed, cell))) {
        writer->counters.refused++;
        return CL_E_ROLLED_BACK;
    }
    uint32_t need = cl_frame_aligned(claim->length);
    cl_assert(cl_load((const uint64_t *)(claim->segment->bytes + claim->offset)), ==, cell);
    cl_assert(cl_load(writer->tail), >=,
              cl_tail_pack(claim->segment->number, claim->offset + need));
    cl_writer_tell(writer, cl_tail_pack(claim->segment->number, claim->offset + need), records,
                   need);
    return CL_OK;
}

int cl_claim_publish(cl_writer *writer, const cl_claim *claim, const cl_record_input *input) {
    uint8_t *at = claim->segment->bytes + claim->offset;
    uint32_t length = (uint32_t)cl_input_length(input);
    uint32_t step = cl_frame_aligned(length), claimed = cl_frame_aligned(claim->length);
    cl_record_input record = *input;
    cl_assert(length, <=, claim->length);
    record.value = at + length - input->value_length;
    /* The unused rest becomes a SKIP behind the record, written before the record is published. */
    if (step < claimed) {
        uint64_t cell = cl_skip_cell(claim->segment, claim->offset + step, claimed - step);
        memcpy(at + step, &cell, sizeof cell);
    }
    return cl_writer_publish(writer, claim, cl_frame_write(claim->segment, claim->offset, &record),
                             1);
}

void cl_claim_hold(cl_segment *segment) {
    cl_segment_hold(segment);
    uint32_t before = cl_add32(&segment->users, 1);
    cl_assert(before, !=, UINT32_MAX);
}

void cl_claim_release(cl_log *log, cl_segment *segment) {
    cl_assert(cl_load32(&segment->references), >, 0);
    uint32_t left = __atomic_sub_fetch(&segment->users, 1, __ATOMIC_ACQ_REL);
    cl_assert(left, !=, UINT32_MAX);
    if (left == 0 && cl_load32(&segment->drained)) {
        cl_futex_raise(&log->event);
    }
    cl_segment_release(segment);
}

void cl_writer_abandon(cl_writer *writer, const cl_claim *claim) {
    cl_roll_back(claim->segment, claim->offset,
                 cl_cell(CL_WORD_CLAIMED | claim->length, writer->log->owner));
    cl_assert(cl_cell_published(cl_load((const uint64_t *)(claim->segment->bytes + claim->offset))),
              ==, true);
}

int cl_batch_claim(cl_writer *writer, uint32_t length, int64_t *timestamp_ns, cl_claim *claim) {
    int code = cl_writer_admit(writer, timestamp_ns);
    if (code != CL_OK) {
        return code;
    }
    if (CL_UNLIKELY(writer->largest == 0)) {
        return CL_E_TOO_LARGE; /* the C API has the writer */
    }
    cl_assert(length, <=,
              writer->largest < CL_FRAME_ADD_LIMIT ? CL_FRAME_ADD_LIMIT : writer->largest);
    cl_assert(length, >=, CL_FRAME_HEADER);
    claim->length = length;
    return writer->plain ? cl_plain_claim(writer, length, claim)
                         : swap_claim(writer, length, length, claim);
}

int cl_batch_publish(cl_writer *writer, const cl_claim *claim, uint64_t first_cell,
                     uint32_t records) {
    cl_assert(claim->length % CL_FRAME_ALIGN, ==, 0);
    if (!writer->plain) {
        int code = cl_writer_publish(writer, claim, first_cell, records);
        return code == CL_E_ROLLED_BACK && cl_claim_gives_up(writer) ? CL_E_BUSY : code;
    }
    cl_assert(cl_cell_published(first_cell), ==, true);
    cl_assert(cl_cell_word(first_cell) & CL_WORD_LENGTH, <=, claim->length);
    cl_assert(records, >, 0);
    cl_plain_publish(writer, claim->offset, claim->length, first_cell);
    cl_writer_tell(writer, cl_tail_pack(claim->segment->number, claim->offset + claim->length),
                   records, claim->length);
    return CL_OK;
}
