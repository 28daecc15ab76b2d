#define _GNU_SOURCE
#include "claim.h"
#include "frame_cursor.h"

#include <string.h>

#include "crc32c.h"
#include "futex.h"

#define CLAIM_ATTEMPTS                                                                             \
    1000u /* after as many attempts that other handles rolled back, another one is futile */
#define AHEAD_OF_NEXT                                                                              \
    128u /* bytes: the second swap from here would otherwise wait for a cache miss */

/* Looks how far claims may reach in segment `number`. Its blocks only become more, and the other
 * segments have all of theirs: once it may, the writer adds without looking again. */
static void measure_room(cl_writer *writer, uint64_t number) {
    uint32_t size = (uint32_t)writer->log->segment_size;
    uint32_t allocated = cl_log_allocated(writer->log, number);
    cl_assert(allocated, >=, CL_SEGMENT_HEADER + CL_FRAME_SMALLEST);
    writer->room = allocated < size ? allocated - CL_FRAME_SMALLEST : size;
    writer->add_limit = allocated < size ? 0 : CL_FRAME_ADD_LIMIT;
}

void cl_writer_init(cl_writer *writer, cl_log *log, bool plain, bool precise, uint32_t wake_bytes) {
    cl_assert(log->slot, <, CL_CURSORS_SLOTS);
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
    writer->precise = precise;
    measure_room(writer, cl_tail_number(cl_load(log->tail)));
}

static void wake_at(cl_writer *writer, uint64_t packed) {
    writer->wake_tail = packed < writer->limit_tail ? packed : writer->limit_tail;
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
}

int64_t cl_writer_now(const cl_writer *writer) {
    return writer->precise ? cl_clock_precise_ns() : cl_clock_coarse_ns();
}

__attribute__((noinline)) int cl_writer_switch(cl_writer *writer, uint64_t number) {
    cl_segment *segment;
    int code = cl_table_acquire(&writer->log->table, number, &segment);
    if (code != CL_OK) {
        return code;
    }
    cl_segment_release(writer->segment);
    writer->segment = segment;
    cl_assert(segment->number, ==, number);
    measure_room(writer, number);
    wake_at(writer, cl_tail_pack(number, CL_SEGMENT_HEADER + writer->wake_bytes));
    cl_futex_raise(&writer->log->event);
    return CL_OK;
}

/* Writes type and key, and returns where they end in the frame. Out of line, because most frames
 * have none. */
static __attribute__((noinline)) size_t write_extension(uint8_t *at, const cl_record_input *input) {
    memcpy(at + CL_FRAME_TYPE, &input->type, sizeof input->type);
    memcpy(at + CL_FRAME_KEYLEN, &input->key_length, sizeof input->key_length);
    if (input->key_length == CL_KEYLEN_NONE || input->key_length == 0) {
        return CL_FRAME_EXTENDED;
    }
    memcpy(at + CL_FRAME_EXTENDED, input->key, input->key_length);
    return CL_FRAME_EXTENDED + (size_t)input->key_length;
}

static inline uint64_t frame_write(const cl_segment *segment, uint32_t offset,
                                   const cl_record_input *input) {
    uint8_t *at = segment->bytes + offset;
    uint32_t word = (uint32_t)cl_input_length(input);
    size_t head = CL_FRAME_HEADER;
    memcpy(at + CL_FRAME_TIMESTAMP, &input->timestamp_ns, sizeof input->timestamp_ns);
    if (CL_UNLIKELY(cl_input_extended(input))) {
        word |= CL_WORD_EXT;
        head = write_extension(at, input);
    }
    return cl_cell(
        word, cl_frame_copy_crc(segment->seed, offset, word, at, head, at + head, input->value));
}

uint64_t cl_frame_write(const cl_segment *segment, uint32_t offset, const cl_record_input *input) {
    return frame_write(segment, offset, input);
}

/* In the second half of a segment, the next one is to have its buffer. */
static bool wants_buffer(const cl_log *log, uint64_t packed) {
    return log->pooled && cl_tail_offset(packed) >= log->segment_size / 2 &&
           cl_tail_number(packed) + 1 >= log->ready_below;
}

/* Called every wake_bytes, and at the limit: wakes the commit loop of a pooled log and its
 * allocation service, and refuses the next append if it must wait for a required tailer. The record
 * just published stays. */
static __attribute__((noinline)) void see_to(cl_writer *writer, uint64_t packed) {
    cl_log *log = writer->log;
    wake_at(writer, packed + writer->wake_bytes);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the tail is stored before this load */
    if (log->pooled && cl_load32(&log->commit_rests)) {
        cl_futex_raise(&log->commit_signal);
    }
    /* The allocation service gets the next buffer, or allocates blocks ahead. */
    if (wants_buffer(log, packed) || writer->add_limit == 0) {
        cl_futex_raise(&log->event);
    }
    bool due = packed > writer->limit_tail ||
               cl_load(&log->cursors->required.value) != writer->required_seen;
    if (due && log->refusal == 0) {
        log->refusal = (uint32_t)-CL_E_LAG;
    }
}

/* Called after a publish. On a mapped log each publish wakes sleeping readers. */
static inline void writer_tell(cl_writer *writer, uint64_t packed, uint32_t records,
                               uint32_t bytes) {
    writer->counters.appends++;
    writer->counters.records += records;
    writer->counters.bytes += bytes;
    if (CL_UNLIKELY(packed >= writer->wake_tail)) {
        see_to(writer, packed);
    }
    if (!writer->log->pooled) {
        cl_log_wake_readers(writer->log);
    }
}

__attribute__((noinline)) void cl_pad_to_end(cl_segment *segment, uint32_t offset) {
    cl_assert(offset, <, segment->size);
    uint64_t zero = 0;
    cl_swap((uint64_t *)(segment->bytes + offset), &zero, cl_skip_cell(segment, offset, 0));
}

/* Whether a claim of `need` bytes at `offset` has its blocks; if it does not fit the segment,
 * whether the SKIP that closes it has. */
static bool has_blocks(cl_writer *writer, uint64_t number, uint32_t offset, uint32_t need) {
    uint32_t size = (uint32_t)writer->log->segment_size;
    uint32_t end = need <= size - offset ? offset + need : offset;
    measure_room(writer, number);
    if (CL_LIKELY(end <= writer->room)) {
        return true;
    }
    writer->wanted = cl_tail_pack(number, end);
    return false;
}

/* What a plain claim does that does not end within the room last seen. */
static __attribute__((noinline)) int pass_room(cl_writer *writer, uint64_t packed, uint32_t need) {
    uint32_t size = (uint32_t)writer->segment->size;
    uint32_t offset = cl_tail_offset(packed);
    if (offset < size) {
        if (!has_blocks(writer, cl_tail_number(packed), offset, need)) {
            return CL_E_GROW;
        }
        if (need <= size - offset) {
            return CL_OK;
        }
        cl_pad_to_end(writer->segment, offset);
        cl_store(writer->tail, cl_tail_pack(cl_tail_number(packed), size));
    }
    return CL_E_ROLL;
}

/* Requires one lock around every append. The frame is written at the tail and the tail moves last,
 * so that no other thread finds a zero cell below it. */
static inline int plain_claim(cl_writer *writer, uint32_t need, cl_claim *claim) {
    uint64_t packed = cl_load_relaxed(writer->tail);
    uint32_t offset = cl_tail_offset(packed);
    cl_assert(need % CL_FRAME_ALIGN, ==, 0);
    if (CL_UNLIKELY(!cl_writer_at(writer, cl_tail_number(packed)))) {
        int code = cl_writer_switch(writer, cl_tail_number(packed));
        if (code != CL_OK) {
            return code;
        }
    }
    if (CL_UNLIKELY(offset + need > writer->room)) {
        int code = pass_room(writer, packed, need);
        if (code != CL_OK) {
            return code;
        }
    }
    claim->segment = writer->segment;
    claim->offset = offset;
    cl_claim_assert(writer, claim, need);
    return CL_OK;
}

static inline void plain_publish(cl_writer *writer, uint32_t offset, uint32_t need, uint64_t cell) {
    cl_assert(cell, !=, 0);
    cl_assert(cl_load_relaxed(writer->tail), ==,
              cl_tail_pack(writer->segment->number, offset)); /* no other append came in between */
    cl_store((uint64_t *)(writer->segment->bytes + offset), cell);
    cl_store(writer->tail, cl_tail_pack(writer->segment->number, offset + need));
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
        if (cl_swap(writer->tail, &seen, next)) {
            *packed = seen;
            return CL_OK;
        }
    }
}

/* Steps 1 and 2 of the protocol. The slot is odd from before the add until the cell names its
 * owner. */
static int reserve(cl_writer *writer, uint32_t need, uint32_t length, cl_claim *claim) {
    uint64_t packed;
    cl_assert(need % CL_FRAME_ALIGN, ==, 0);
    cl_slot_enter(writer->slot);
    if (CL_UNLIKELY(need > writer->add_limit)) {
        int code = reserve_large(writer, need, &packed);
        if (code != CL_OK) {
            cl_slot_leave(writer->slot);
            return code;
        }
    } else {
        packed = cl_add(writer->tail, need);
    }
    uint64_t number = cl_tail_number(packed);
    uint32_t offset = cl_tail_offset(packed);
    uint32_t size = (uint32_t)writer->log->segment_size;
    int code = CL_OK;
    if (CL_UNLIKELY(offset >= size)) {
        writer->overshot = number;
        code = CL_E_ROLL;
    } else if (CL_UNLIKELY(!cl_writer_at(writer, number))) {
        code = cl_writer_switch(writer, number);
        writer->segment_missing = code != CL_OK;
    }
    if (CL_LIKELY(code == CL_OK)) {
        uint64_t zero = 0;
        if (CL_UNLIKELY(need > size - offset)) {
            cl_pad_to_end(writer->segment, offset);
            writer->overshot = number;
            code = CL_E_ROLL;
        } else if (CL_UNLIKELY(!cl_swap((uint64_t *)(writer->segment->bytes + offset), &zero,
                                        cl_cell(CL_WORD_CLAIMED | length, writer->log->owner)))) {
            code = CL_E_ROLLED_BACK;
        }
        writer->roll_due |= need == size - offset;
        cl_prefetch_write(writer->segment->bytes + offset + need + AHEAD_OF_NEXT);
    }
    cl_slot_leave(writer->slot);
    claim->segment = writer->segment;
    claim->offset = offset;
    claim->length = length;
    if (code == CL_OK) {
        cl_claim_assert(writer, claim, need);
    }
    return code;
}

/* After an overshoot this handle does not add again until a handle has moved the tail to another
 * segment; if it could not open the segment of its own claim, not until it can. Each add would
 * waste another range. */
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
    return CL_OK;
}

/* Counts a failed attempt, and returns whether to give up. Attempts are counted from the last
 * append that succeeded, across rolls. */
static __attribute__((noinline)) bool gives_up(cl_writer *writer) {
    if (writer->vain_since != writer->counters.appends) {
        writer->vain_since = writer->counters.appends;
        writer->in_vain = 0;
    }
    if (++writer->in_vain < CLAIM_ATTEMPTS) {
        return false;
    }
    writer->in_vain = 0;
    return true;
}

static int swap_claim(cl_writer *writer, uint32_t need, uint32_t length, cl_claim *claim) {
    for (;;) { /* CLAIM_ATTEMPTS rounds at most */
        int code = check_tail(writer);
        if (code == CL_OK) {
            code = reserve(writer, need, length, claim);
        }
        if (CL_LIKELY(code != CL_E_ROLLED_BACK)) {
            return code;
        }
        writer->counters.refused++;
        if (gives_up(writer)) {
            return CL_E_BUSY;
        }
    }
}

int cl_writer_claim(cl_writer *writer, uint32_t length, cl_claim *claim) {
    return cl_writer_claim_upto(writer, writer->largest, length, claim);
}

int cl_writer_claim_upto(cl_writer *writer, uint32_t largest, uint64_t length, cl_claim *claim) {
    int code = cl_writer_refusal(writer);
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
    code = plain_claim(writer, need, claim);
    if (code == CL_OK) {
        claim->length = (uint32_t)length;
        plain_publish(writer, claim->offset, need,
                      cl_cell(CL_WORD_CLAIMED | claim->length, writer->log->owner));
    }
    return code;
}

int cl_writer_publish(cl_writer *writer, const cl_claim *claim, uint64_t cell, uint32_t records) {
    uint64_t claimed = cl_cell(CL_WORD_CLAIMED | claim->length, writer->log->owner);
    cl_assert(cl_cell_published(cell), ==, true);
    cl_assert(cl_cell_word(cell) & CL_WORD_LENGTH, <=, claim->length);
    if (CL_UNLIKELY(
            !cl_swap((uint64_t *)(claim->segment->bytes + claim->offset), &claimed, cell))) {
        writer->counters.refused++;
        return CL_E_ROLLED_BACK;
    }
    uint32_t need = cl_frame_aligned(claim->length);
    cl_assert(cl_load((const uint64_t *)(claim->segment->bytes + claim->offset)), ==, cell);
    cl_assert(cl_load(writer->tail), >=,
              cl_tail_pack(claim->segment->number, claim->offset + need));
    writer_tell(writer, cl_tail_pack(claim->segment->number, claim->offset + need), records, need);
    return CL_OK;
}

int cl_claim_publish(cl_writer *writer, const cl_claim *claim, const cl_record_input *input) {
    uint8_t *at = claim->segment->bytes + claim->offset;
    uint32_t length = (uint32_t)cl_input_length(input);
    uint32_t step = cl_frame_aligned(length), claimed = cl_frame_aligned(claim->length);
    cl_record_input record = *input;
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
    cl_add32(&segment->users, 1);
}

void cl_claim_release(cl_log *log, cl_segment *segment) {
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

/* Inlined, so that the compiler folds the fields that are constant in a caller's input. */
static inline __attribute__((always_inline)) int
append_one(cl_writer *writer, uint32_t largest, const cl_record_input *input, uint64_t *position) {
    uint64_t length = cl_input_length(input);
    int code = cl_writer_refusal(writer);
    if (CL_UNLIKELY(code != CL_OK)) {
        return code;
    }
    if (CL_UNLIKELY(length > largest)) {
        return CL_E_TOO_LARGE;
    }
    uint32_t need = cl_frame_aligned((uint32_t)length);
    cl_claim claim;
    if (writer->plain) {
        code = plain_claim(writer, need, &claim);
        if (CL_LIKELY(code == CL_OK)) {
            plain_publish(writer, claim.offset, need,
                          frame_write(claim.segment, claim.offset, input));
            writer_tell(writer, cl_tail_pack(claim.segment->number, claim.offset + need), 1, need);
            *position = claim.segment->base + claim.offset;
        }
        return code;
    }
    for (;;) { /* CLAIM_ATTEMPTS rounds at most */
        code = swap_claim(writer, need, (uint32_t)length, &claim);
        if (CL_UNLIKELY(code != CL_OK)) {
            return code;
        }
        code =
            cl_writer_publish(writer, &claim, frame_write(claim.segment, claim.offset, input), 1);
        if (CL_LIKELY(code == CL_OK)) {
            *position = claim.segment->base + claim.offset;
            return CL_OK;
        }
        if (gives_up(writer)) {
            return CL_E_BUSY;
        }
    }
}

int cl_writer_append(cl_writer *writer, const cl_record_input *input, uint64_t *position) {
    return append_one(writer, writer->largest, input, position);
}

int cl_writer_append_upto(cl_writer *writer, uint32_t largest, const cl_record_input *input,
                          uint64_t *position) {
    return append_one(writer, largest, input, position);
}

int cl_writer_append_value(cl_writer *writer, const void *value, uint32_t length,
                           uint64_t *position) {
    const cl_record_input input = {.value = value,
                                   .value_length = length,
                                   .key_length = CL_KEYLEN_NONE,
                                   .timestamp_ns = cl_writer_now(writer)};
    if (CL_UNLIKELY(input.timestamp_ns >= writer->cycle_end_ns)) {
        return CL_E_CYCLE;
    }
    return append_one(writer, writer->largest, &input, position);
}

int cl_batch_claim(cl_writer *writer, uint32_t length, cl_claim *claim) {
    int code = cl_writer_refusal(writer);
    if (code != CL_OK) {
        return code;
    }
    if (CL_UNLIKELY(writer->largest == 0)) {
        return CL_E_TOO_LARGE; /* the C API has the writer */
    }
    cl_assert(length, <=,
              writer->largest < CL_FRAME_ADD_LIMIT ? CL_FRAME_ADD_LIMIT : writer->largest);
    claim->length = length;
    return writer->plain ? plain_claim(writer, length, claim)
                         : swap_claim(writer, length, length, claim);
}

int cl_batch_publish(cl_writer *writer, const cl_claim *claim, uint64_t first_cell,
                     uint32_t records) {
    if (!writer->plain) {
        int code = cl_writer_publish(writer, claim, first_cell, records);
        return code == CL_E_ROLLED_BACK && gives_up(writer) ? CL_E_BUSY : code;
    }
    plain_publish(writer, claim->offset, claim->length, first_cell);
    writer_tell(writer, cl_tail_pack(claim->segment->number, claim->offset + claim->length),
                records, claim->length);
    return CL_OK;
}
