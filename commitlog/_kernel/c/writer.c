#define _GNU_SOURCE
#include "writer.h"

#include <string.h>

#include "crc32c.h"
#include "futex.h"
#include "short_frames.h"

#define NO_SEGMENT UINT64_MAX
#define CLAIM_ATTEMPTS                                                                             \
    1000u /* others roll this handle's claims back each time: it is not going to get better */
#define AHEAD_OF_NEXT                                                                              \
    128u /* bytes: where the second swap from here on would wait for memory that nobody has in a   \
            cache yet */

void cl_writer_init(cl_writer *writer, cl_log *log, bool plain, bool precise, uint32_t wake_bytes) {
    memset(writer, 0, sizeof *writer);
    writer->log = log;
    writer->tail = log->tail;
    writer->slot = &log->cursors->slots[log->slot];
    writer->overshot = cl_writer_rolls_from(
        writer); /* a new handle, too, does not add past an end that is reached */
    writer->cycle_end_ns = INT64_MAX;
    writer->wake_bytes = wake_bytes;
    writer->limit_place = UINT64_MAX;
    writer->largest = cl_frame_largest(log->segment_size);
    writer->plain = plain;
    writer->precise = precise;
}

static void wake_at(cl_writer *writer, uint64_t place) {
    writer->wake_place = place < writer->limit_place ? place : writer->limit_place;
}

void cl_writer_limit(cl_writer *writer, uint64_t limit_place, uint64_t required_seen) {
    writer->limit_place = limit_place;
    writer->required_seen = required_seen;
    wake_at(writer, writer->wake_place);
    if (writer->log->gate == (uint32_t)-CL_E_LAG) {
        writer->log->gate = 0;
    }
}

void cl_writer_clear(cl_writer *writer) {
    cl_segment_release(writer->segment);
    writer->segment = NULL;
}

int64_t cl_writer_now(const cl_writer *writer) {
    return writer->precise ? cl_clock_precise_ns() : cl_clock_coarse_ns();
}

static inline int writer_gate(const cl_writer *writer) {
    if (CL_UNLIKELY(writer->log->gate != 0)) {
        return -(int)writer->log->gate;
    }
    return CL_UNLIKELY(cl_log_failed(writer->log)) ? CL_E_FAILED : CL_OK;
}

static __attribute__((noinline)) int writer_switch(cl_writer *writer, uint64_t number) {
    cl_segment *segment;
    int code = cl_table_acquire(&writer->log->table, number, &segment);
    if (code != CL_OK) {
        return code;
    }
    cl_segment_release(writer->segment);
    writer->segment = segment;
    wake_at(writer, cl_place(number, CL_SEGMENT_HEADER + writer->wake_bytes));
    cl_futex_raise(&writer->log->event);
    return CL_OK;
}

static inline bool writer_at(const cl_writer *writer, uint64_t number) {
    return writer->segment != NULL && writer->segment->number == number;
}

/* Type and key; where they end in the frame. Out of line, since most frames have none. */
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

/* Every wake_bytes, and at the limit: wakes the commit loop of a pooled log, and looks whether a
 * required tailer is to be waited for. What was just published stays; the next append is refused.
 */
static __attribute__((noinline)) void see_to(cl_writer *writer, uint64_t place) {
    cl_log *log = writer->log;
    wake_at(writer, place + writer->wake_bytes);
    if (log->pooled && cl_load32(&log->commit_rests)) {
        cl_futex_raise(&log->commit_signal);
    }
    bool due = place > writer->limit_place ||
               cl_load(&log->cursors->required.value) != writer->required_seen;
    if (due && log->gate == 0) {
        log->gate = (uint32_t)-CL_E_LAG;
    }
}

/* After a publish. Sleepers on a mapped log hear of every record. */
static inline void writer_tell(cl_writer *writer, uint64_t place, uint32_t records,
                               uint32_t bytes) {
    writer->counters.appends++;
    writer->counters.records += records;
    writer->counters.bytes += bytes;
    if (CL_UNLIKELY(place >= writer->wake_place)) {
        see_to(writer, place);
    }
    if (!writer->log->pooled) {
        cl_log_wake_readers(writer->log);
    }
}

/* Pads from `offset` to the segment's end. A refused swap means that observers marked the range
 * already. */
static __attribute__((noinline)) void pad_to_end(cl_segment *segment, uint32_t offset) {
    uint64_t zero = 0;
    cl_swap((uint64_t *)(segment->bytes + offset), &zero, cl_skip_cell(segment, offset, 0));
}

/* One lock around every append: the frame is written where the tail stands and the tail moves last,
 * so that no other thread ever finds a zero cell below it. */
static inline int plain_claim(cl_writer *writer, uint32_t need, cl_claim *claim) {
    uint64_t place = cl_load_relaxed(writer->tail);
    uint32_t offset = cl_place_offset(place);
    if (CL_UNLIKELY(!writer_at(writer, cl_place_number(place)))) {
        int code = writer_switch(writer, cl_place_number(place));
        if (code != CL_OK) {
            return code;
        }
    }
    uint32_t size = (uint32_t)writer->segment->size;
    if (CL_UNLIKELY(need > size - offset)) {
        if (offset < size) {
            pad_to_end(writer->segment, offset);
            cl_store(writer->tail, cl_place(cl_place_number(place), size));
        }
        return CL_E_ROLL;
    }
    claim->segment = writer->segment;
    claim->offset = offset;
    return CL_OK;
}

static inline void plain_publish(cl_writer *writer, uint32_t offset, uint32_t need, uint64_t cell) {
    cl_store((uint64_t *)(writer->segment->bytes + offset), cell);
    cl_store(writer->tail, cl_place(writer->segment->number, offset + need));
}

static inline void slot_flip(cl_slot *slot) {
    __atomic_store_n(&slot->counter, slot->counter + 1, __ATOMIC_RELEASE);
}

/* Step 1 for large frames: compare-and-swap on the tail, which never overshoots. */
static int reserve_large(cl_writer *writer, uint32_t need, uint64_t *place) {
    uint64_t seen = cl_load(writer->tail);
    uint32_t size = (uint32_t)writer->log->segment_size;
    for (;;) {
        uint32_t offset = cl_place_offset(seen);
        if (offset >= size) {
            writer->overshot = cl_place_number(seen);
            return CL_E_ROLL;
        }
        /* Where the frame does not fit, the tail goes to the very end, and the caller pads. */
        uint64_t next = need <= size - offset ? seen + need : cl_place(cl_place_number(seen), size);
        if (cl_swap(writer->tail, &seen, next)) {
            *place = seen;
            return CL_OK;
        }
    }
}

/* Steps 1 and 2 of the protocol. The slot is odd from before the add until the cell names its
 * owner. */
static int reserve(cl_writer *writer, uint32_t need, uint32_t length, cl_claim *claim) {
    uint64_t place;
    slot_flip(writer->slot);
    if (CL_UNLIKELY(need > CL_FRAME_ADD_LIMIT)) {
        int code = reserve_large(writer, need, &place);
        if (code != CL_OK) {
            slot_flip(writer->slot);
            return code;
        }
    } else {
        place = cl_add(writer->tail, need);
    }
    uint64_t number = cl_place_number(place);
    uint32_t offset = cl_place_offset(place);
    uint32_t size = (uint32_t)writer->log->segment_size;
    int code = CL_OK;
    if (CL_UNLIKELY(offset >= size)) {
        writer->overshot = number;
        code = CL_E_ROLL;
    } else if (CL_UNLIKELY(!writer_at(writer, number))) {
        code = writer_switch(writer, number);
        writer->blind = code != CL_OK;
    }
    if (CL_LIKELY(code == CL_OK)) {
        uint64_t zero = 0;
        if (CL_UNLIKELY(need > size - offset)) {
            pad_to_end(writer->segment, offset);
            writer->overshot = number;
            code = CL_E_ROLL;
        } else if (CL_UNLIKELY(!cl_swap((uint64_t *)(writer->segment->bytes + offset), &zero,
                                        cl_cell(CL_WORD_CLAIMED | length, writer->log->owner)))) {
            code = CL_E_ROLLED_BACK;
        }
        writer->roll_due |= need == size - offset;
        cl_prefetch_write(writer->segment->bytes + offset + need + AHEAD_OF_NEXT);
    }
    slot_flip(writer->slot);
    claim->segment = writer->segment;
    claim->offset = offset;
    claim->length = length;
    return code;
}

/* After an overshoot this handle does not add again until somebody has moved the tail to another
 * segment; and after it could not open the segment that a claim of its own fell into, not before it
 * can: each add would burn another range. */
static inline int check_tail(cl_writer *writer) {
    if (CL_LIKELY(writer->overshot == NO_SEGMENT && !writer->blind)) {
        return CL_OK;
    }
    uint64_t number = cl_place_number(cl_load(writer->tail));
    if (number == writer->overshot) {
        return CL_E_ROLL;
    }
    writer->overshot = NO_SEGMENT;
    if (writer->blind && !writer_at(writer, number)) {
        int code = writer_switch(writer, number);
        if (code != CL_OK) {
            return code;
        }
    }
    writer->blind = false;
    return CL_OK;
}

/* Another try was in vain. Whether it is to be the last: they are counted from the last append that
 * succeeded, also over rolls. */
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
    for (;;) {
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
    uint32_t need = cl_frame_aligned(length);
    int code = writer_gate(writer);
    if (code != CL_OK) {
        return code;
    }
    if (need > writer->largest) {
        return CL_E_TOO_LARGE;
    }
    if (!writer->plain) {
        return swap_claim(writer, need, length, claim);
    }
    code = plain_claim(writer, need, claim);
    if (code == CL_OK) {
        claim->length = length;
        plain_publish(writer, claim->offset, need,
                      cl_cell(CL_WORD_CLAIMED | length, writer->log->owner));
    }
    return code;
}

int cl_writer_publish(cl_writer *writer, const cl_claim *claim, uint64_t cell, uint32_t records) {
    uint64_t claimed = cl_cell(CL_WORD_CLAIMED | claim->length, writer->log->owner);
    if (CL_UNLIKELY(
            !cl_swap((uint64_t *)(claim->segment->bytes + claim->offset), &claimed, cell))) {
        writer->counters.refused++;
        return CL_E_ROLLED_BACK;
    }
    uint32_t need = cl_frame_aligned(claim->length);
    writer_tell(writer, cl_place(claim->segment->number, claim->offset + need), records, need);
    return CL_OK;
}

void cl_writer_abandon(cl_writer *writer, const cl_claim *claim) {
    cl_roll_back(claim->segment, claim->offset,
                 cl_cell(CL_WORD_CLAIMED | claim->length, writer->log->owner));
}

/* In line, so that what is constant in the input of one caller costs that caller nothing. */
static inline __attribute__((always_inline)) int
append_one(cl_writer *writer, const cl_record_input *input, uint64_t *position) {
    uint64_t length = cl_input_length(input);
    int code = writer_gate(writer);
    if (CL_UNLIKELY(code != CL_OK)) {
        return code;
    }
    if (CL_UNLIKELY(length > writer->largest)) {
        return CL_E_TOO_LARGE;
    }
    uint32_t need = cl_frame_aligned((uint32_t)length);
    cl_claim claim;
    if (writer->plain) {
        code = plain_claim(writer, need, &claim);
        if (CL_LIKELY(code == CL_OK)) {
            plain_publish(writer, claim.offset, need,
                          frame_write(claim.segment, claim.offset, input));
            writer_tell(writer, cl_place(claim.segment->number, claim.offset + need), 1, need);
            *position = claim.segment->base + claim.offset;
        }
        return code;
    }
    for (;;) {
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
    return append_one(writer, input, position);
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
    return append_one(writer, &input, position);
}

int cl_batch_claim(cl_writer *writer, uint32_t length, cl_claim *claim) {
    int code = writer_gate(writer);
    if (code != CL_OK) {
        return code;
    }
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
    writer_tell(writer, cl_place(claim->segment->number, claim->offset + claim->length), records,
                claim->length);
    return CL_OK;
}

/* Long rows, one frame at a time: all but the first one's cell, which is returned. */
static uint64_t write_rows(const cl_segment *segment, uint32_t offset, const cl_rows *rows,
                           size_t first, size_t count, cl_record_input *input, int64_t *positions) {
    uint32_t step = cl_frame_aligned(CL_FRAME_HEADER + rows->length);
    uint64_t first_cell = 0;
    for (size_t row = 0; row < count; row++, offset += step) {
        input->value = rows->data + (first + row) * rows->stride;
        uint64_t cell = frame_write(segment, offset, input);
        if (row == 0) {
            first_cell = cell;
        } else {
            memcpy(segment->bytes + offset, &cell, sizeof cell);
        }
        positions[row] = (int64_t)(segment->base + offset);
    }
    return first_cell;
}

int cl_writer_append_rows(cl_writer *writer, const cl_rows *rows, size_t *done,
                          int64_t *positions) {
    int gate = writer_gate(writer);
    if (gate != CL_OK) {
        return gate;
    }
    uint32_t length = CL_FRAME_HEADER + rows->length;
    uint32_t step = cl_frame_aligned(length);
    if ((uint64_t)CL_FRAME_HEADER + rows->length > writer->largest) {
        return CL_E_TOO_LARGE;
    }
    size_t most =
        writer->largest < CL_FRAME_ADD_LIMIT ? writer->largest / step : CL_FRAME_ADD_LIMIT / step;
    most = most == 0 ? 1 : most;
    while (*done < rows->count) {
        size_t count = rows->count - *done < most ? rows->count - *done : most;
        cl_record_input input = {.value_length = rows->length,
                                 .key_length = CL_KEYLEN_NONE,
                                 .timestamp_ns = rows->timestamp_ns};
        if (rows->timestamp_ns < 0 || writer->cycle_end_ns != INT64_MAX) {
            int64_t now_ns = cl_writer_now(writer);
            if (now_ns >= writer->cycle_end_ns) {
                return CL_E_CYCLE;
            }
            input.timestamp_ns = rows->timestamp_ns < 0 ? now_ns : rows->timestamp_ns;
        }
        cl_claim claim;
        int code = cl_batch_claim(writer, (uint32_t)count * step, &claim);
        if (code != CL_OK) {
            return code;
        }
        uint64_t first_cell = 0;
        if (!cl_short_frames_write(claim.segment, claim.offset, rows, *done, count,
                                   input.timestamp_ns, &first_cell, positions + *done)) {
            first_cell = write_rows(claim.segment, claim.offset, rows, *done, count, &input,
                                    positions + *done);
        }
        code = cl_batch_publish(writer, &claim, first_cell, (uint32_t)count);
        if (code == CL_OK) {
            *done += count;
        } else if (code != CL_E_ROLLED_BACK) {
            return code;
        }
    }
    return CL_OK;
}

uint64_t cl_writer_rolls_from(const cl_writer *writer) {
    uint64_t place = cl_load(writer->tail);
    return cl_place_offset(place) >= writer->log->segment_size ? cl_place_number(place)
                                                               : NO_SEGMENT;
}

int cl_writer_close_segment(cl_writer *writer, uint64_t number) {
    int code = writer_gate(writer);
    if (code != CL_OK && code != CL_E_LAG) { /* nothing is appended by it */
        return code;
    }
    code = CL_OK;
    uint32_t size = (uint32_t)writer->log->segment_size;
    slot_flip(writer->slot);
    uint64_t seen = cl_load(writer->tail);
    number = number == CL_SEGMENT_CURRENT ? cl_place_number(seen) : number;
    while (cl_place_number(seen) == number && cl_place_offset(seen) < size) {
        code = writer_at(writer, number) ? CL_OK : writer_switch(writer, number);
        if (code != CL_OK) {
            break;
        }
        /* In a plain log the pad is in place before the tail moves over it, as with every other
         * frame. */
        uint64_t zero = 0;
        if (writer->plain) {
            pad_to_end(writer->segment, cl_place_offset(seen));
        }
        if (cl_swap(writer->tail, &seen, cl_place(number, size))) {
            cl_swap((uint64_t *)(writer->segment->bytes + cl_place_offset(seen)), &zero,
                    cl_skip_cell(writer->segment, cl_place_offset(seen), 0));
            break;
        }
    }
    slot_flip(writer->slot);
    return code;
}

/* The opened part has one author, whoever's swap on its first word succeeded; the rest follows from
 * that word. */
static int64_t open_segment(cl_segment *segment, int64_t now_ns) {
    cl_header_opened *opened = (cl_header_opened *)(segment->map + CL_HEADER_OPENED_AT);
    uint64_t none = 0;
    cl_swap((uint64_t *)&opened->opened_ns, &none, (uint64_t)now_ns);
    return (int64_t)cl_load((const uint64_t *)&opened->opened_ns);
}

static void note_cycle(cl_segment *segment, int64_t opened_ns, int64_t cycle) {
    cl_header_opened *opened = (cl_header_opened *)(segment->map + CL_HEADER_OPENED_AT);
    cl_store((uint64_t *)&opened->cycle, (uint64_t)cycle);
    cl_store32(&opened->crc, cl_header_opened_crc(segment->id, opened_ns, cycle));
}

int cl_writer_open_segment(cl_writer *writer, uint64_t number, int64_t now_ns, int64_t *opened_ns) {
    cl_segment *segment;
    int code = cl_table_acquire(&writer->log->table, number, &segment);
    if (code == CL_OK) {
        *opened_ns = open_segment(segment, now_ns);
        cl_segment_release(segment);
    }
    return code;
}

int cl_writer_roll(cl_writer *writer, uint64_t number, int64_t now_ns, int64_t cycle) {
    cl_segment *next;
    uint64_t seen = cl_load(writer->tail);
    if (cl_place_number(seen) != number || cl_place_offset(seen) < writer->log->segment_size) {
        return CL_OK; /* somebody has been here */
    }
    int code = cl_table_acquire(&writer->log->table, number + 1, &next);
    if (code != CL_OK) {
        return code;
    }
    note_cycle(next, open_segment(next, now_ns), cycle);
    while (cl_place_number(seen) == number &&
           !cl_swap(writer->tail, &seen, cl_place(number + 1, CL_SEGMENT_HEADER))) {
    }
    writer->counters.rolls++;
    cl_segment_release(next);
    return CL_OK;
}
