/* Appends one record: claim, write, publish. The names say which appends a function takes:
 *
 *   function                frame                   stores  begins at     goes on with
 *   append_short_plain      short                   plain   tail          append_past_fast_plain
 *   append_past_fast_plain  short, past fast_below  plain   tail          append_any
 *   append_short_swap       short                   swaps   tail          the next two
 *   append_past_fast_swap   short, past fast_below  swaps   its own add   finish_swap
 *   append_again_swap       short, rolled back      swaps   tail          finish_swap
 *   append_short_swap_at    short                   swaps   a given tail  its caller
 *   append_any              any                     both    tail          finish_swap
 *   append_any_swap_at      any                     swaps   a given tail  its caller
 *
 * Short: a value below INTERLEAVED_LEAST bytes without key and type, whose CRC is computed inline.
 * Below the tail `fast_below`, nothing but the append is due. Pooled logs have plain stores, mapped
 * logs have swaps. A name that ends in `_value` takes a bare value at the clock's time, one that
 * ends in `_record` a record with its own time. */
#include "append.h"

#include "crc32c.h"
#include "crc32c_steps.h"

/* Continues an append with swaps from its claim, or from the code that refused the claim. */
static int finish_swap(cl_writer *writer, const cl_record_input *input, cl_claim *claim, int code,
                       uint64_t *position) {
    uint32_t length = (uint32_t)cl_input_length(input);
    for (;;) { /* cl_claim_gives_up bounds the rounds */
        if (CL_LIKELY(code == CL_OK)) {
            code = cl_writer_publish(writer, claim,
                                     cl_frame_write(claim->segment, claim->offset, input), 1);
            *position = claim->segment->base + claim->offset;
        }
        if (CL_LIKELY(code != CL_E_ROLLED_BACK)) {
            return code;
        }
        if (cl_claim_gives_up(writer)) {
            return CL_E_BUSY;
        }
        code = cl_claim_try(writer, cl_frame_aligned(length), length, claim);
    }
}

static __attribute__((noinline)) int append_any(cl_writer *writer, uint32_t largest,
                                                const cl_record_input *input, uint64_t *position) {
    cl_record_input record = *input;
    uint64_t length = cl_input_length(input);
    int code = cl_writer_admit(writer, &record.timestamp_ns);
    if (CL_UNLIKELY(code != CL_OK)) {
        return code;
    }
    if (CL_UNLIKELY(length > largest)) {
        return CL_E_TOO_LARGE;
    }
    uint32_t need = cl_frame_aligned((uint32_t)length);
    cl_claim claim;
    if (!writer->plain) {
        code = cl_claim_try(writer, need, (uint32_t)length, &claim);
        return finish_swap(writer, &record, &claim, code, position);
    }
    code = cl_plain_claim(writer, need, &claim);
    if (CL_LIKELY(code == CL_OK)) {
        cl_plain_publish(writer, claim.offset, need,
                         cl_frame_write(claim.segment, claim.offset, &record));
        cl_writer_tell(writer, cl_tail_pack(claim.segment->number, claim.offset + need), 1, need);
        *position = claim.segment->base + claim.offset;
    }
    return code;
}

#ifdef HAS_INSTRUCTIONS

typedef struct {
    const uint8_t *bytes;
    uint32_t length; /* of the frame, before padding */
    int64_t timestamp_ns;
} short_value;

static cl_record_input input_of(const short_value *value) {
    return (cl_record_input){.value = value->bytes,
                             .value_length = value->length - CL_FRAME_HEADER,
                             .key_length = CL_KEYLEN_NONE,
                             .timestamp_ns = value->timestamp_ns};
}

static inline short_value short_of(const cl_record_input *input) {
    return (short_value){input->value, CL_FRAME_HEADER + input->value_length, input->timestamp_ns};
}

/* Whether the fast path may be tried. A writer without a largest frame is lent to the C API. */
static inline bool is_short(const cl_writer *writer, uint32_t largest,
                            const cl_record_input *input) {
    return input->value_length < INTERLEAVED_LEAST && !cl_input_extended(input) && largest != 0 &&
           writer->fast_below != 0;
}

WITH_CRC INLINED uint64_t write_short_frame(uint32_t seed, uint32_t offset, uint8_t *at,
                                            const short_value *value) {
    return write_plain_frame(seed, offset, at, value->bytes, value->length, value->timestamp_ns);
}

/* Returns where the frame at a tail below `fast_below` begins. */
INLINED uint8_t *claimed_bytes(const cl_segment *segment, uint64_t packed, uint32_t need) {
    const uint32_t offset = cl_tail_offset(packed);
    cl_assert(segment->number, ==, cl_tail_number(packed));
    cl_assert(offset, >=, CL_SEGMENT_HEADER);
    cl_assert(offset + (uint64_t)need, <, segment->size);
    return segment->bytes + offset;
}

static __attribute__((noinline)) int append_past_fast_plain(cl_writer *writer, short_value value,
                                                            uint64_t *position) {
    const cl_record_input input = input_of(&value);
    return append_any(writer, value.length, &input, position);
}

WITH_CRC INLINED int append_short_plain(cl_writer *writer, short_value value, uint64_t *position) {
    int code = cl_writer_admit(writer, &value.timestamp_ns);
    if (CL_UNLIKELY(code != CL_OK)) {
        return code;
    }
    const cl_segment *segment = writer->segment;
    const uint32_t need = cl_frame_aligned(value.length);
    const uint64_t packed = cl_load_relaxed(writer->tail);
    if (CL_UNLIKELY(packed + need >= writer->fast_below)) {
        return append_past_fast_plain(writer, value, position);
    }
    const uint32_t offset = cl_tail_offset(packed);
    uint8_t *at = claimed_bytes(segment, packed, need);
    *position = segment->base + offset;
    cl_writer_count(writer, 1, need);
    uint64_t cell = write_short_frame(segment->seed, offset, at, &value);
    cl_plain_store(writer, at, cell, packed, packed + need);
    return CL_OK;
}

static __attribute__((noinline)) int append_past_fast_swap(cl_writer *writer, uint64_t packed,
                                                           short_value value, uint64_t *position) {
    const cl_record_input input = input_of(&value);
    cl_claim claim;
    int code = cl_claim_name(writer, packed, cl_frame_aligned(value.length), value.length, &claim);
    return finish_swap(writer, &input, &claim, code, position);
}

static __attribute__((noinline)) int append_again_swap(cl_writer *writer, short_value value,
                                                       uint64_t *position) {
    const cl_record_input input = input_of(&value);
    cl_claim claim;
    writer->counters.refused++;
    return finish_swap(writer, &input, &claim, CL_E_ROLLED_BACK, position);
}

/* Continues a short append whose range, at `packed`, was taken from the tail. */
WITH_CRC INLINED int finish_short_swap(cl_writer *writer, const cl_segment *segment,
                                       uint64_t packed, const short_value *value, uint32_t need,
                                       uint64_t *position) {
    const uint32_t offset = cl_tail_offset(packed);
    uint8_t *at = claimed_bytes(segment, packed, need);
    uint64_t claimed = cl_cell(CL_WORD_CLAIMED | value->length, writer->log->owner);
    bool mine = cl_claim_swap(at, need, claimed);
    cl_slot_leave(writer->slot);
    if (CL_UNLIKELY(!mine || !cl_swap((uint64_t *)at, &claimed,
                                      write_short_frame(segment->seed, offset, at, value)))) {
        return CL_E_ROLLED_BACK;
    }
    cl_assert(cl_load(writer->tail), >=, packed + need);
    *position = segment->base + offset;
    cl_writer_count(writer, 1, need);
    cl_log_wake_readers(writer->log);
    return CL_OK;
}

WITH_CRC INLINED int append_short_swap(cl_writer *writer, short_value value, uint64_t *position) {
    int code = cl_writer_admit(writer, &value.timestamp_ns);
    if (CL_UNLIKELY(code != CL_OK)) {
        return code;
    }
    const cl_segment *segment = writer->segment;
    const uint32_t need = cl_frame_aligned(value.length);
    cl_slot_enter(writer->slot);
    const uint64_t packed = cl_add(writer->tail, need);
    if (CL_UNLIKELY(packed + need >= writer->fast_below)) {
        return append_past_fast_swap(writer, packed, value, position);
    }
    code = finish_short_swap(writer, segment, packed, &value, need, position);
    return CL_LIKELY(code == CL_OK) ? CL_OK : append_again_swap(writer, value, position);
}

WITH_CRC static __attribute__((noinline)) int
append_short_swap_at(cl_writer *writer, uint64_t packed, short_value value, uint64_t *position) {
    int code = cl_writer_admit(writer, &value.timestamp_ns);
    if (CL_UNLIKELY(code != CL_OK)) {
        return code;
    }
    const uint32_t need = cl_frame_aligned(value.length);
    uint64_t seen = packed;
    cl_slot_enter(writer->slot);
    if (CL_UNLIKELY(!cl_swap(writer->tail, &seen, packed + need))) {
        cl_slot_leave(writer->slot);
        return CL_E_MOVED;
    }
    code = finish_short_swap(writer, writer->segment, packed, &value, need, position);
    writer->counters.refused += code != CL_OK;
    return code;
}

/* Each is compiled twice, because most appends have the clock's time. */
#define SHORT_APPENDS(way)                                                                         \
    WITH_CRC static __attribute__((noinline)) int way##_value(                                     \
        cl_writer *writer, const void *value, uint32_t length, uint64_t *position) {               \
        return way(writer, (short_value){value, length, -1}, position);                            \
    }                                                                                              \
    WITH_CRC static __attribute__((noinline)) int way##_record(                                    \
        cl_writer *writer, const cl_record_input *input, uint64_t *position) {                     \
        return way(writer, short_of(input), position);                                             \
    }
SHORT_APPENDS(append_short_plain)
SHORT_APPENDS(append_short_swap)

#endif

int cl_writer_append_upto(cl_writer *writer, uint32_t largest, const cl_record_input *input,
                          uint64_t *position) {
#ifdef HAS_INSTRUCTIONS
    if (CL_LIKELY(is_short(writer, largest, input))) {
        return writer->plain ? append_short_plain_record(writer, input, position)
                             : append_short_swap_record(writer, input, position);
    }
#endif
    return append_any(writer, largest, input, position);
}

static __attribute__((noinline)) int append_any_swap_at(cl_writer *writer, uint64_t packed,
                                                        const cl_record_input *input,
                                                        uint64_t *position) {
    cl_record_input record = *input;
    uint32_t length = (uint32_t)cl_input_length(input);
    cl_claim claim;
    int code = cl_writer_admit(writer, &record.timestamp_ns);
    if (code == CL_OK) {
        code = cl_claim_at(writer, packed, cl_frame_aligned(length), length, &claim);
    }
    if (code != CL_OK) {
        return code;
    }
    *position = claim.segment->base + claim.offset;
    return cl_writer_publish(writer, &claim, cl_frame_write(claim.segment, claim.offset, &record),
                             1);
}

int cl_append_at(cl_writer *writer, uint64_t packed, const cl_record_input *input,
                 uint64_t *position) {
#ifdef HAS_INSTRUCTIONS
    uint32_t need = cl_frame_aligned(CL_FRAME_HEADER + input->value_length);
    if (CL_LIKELY(is_short(writer, writer->largest, input) && packed + need < writer->fast_below)) {
        return writer->plain ? append_short_plain_record(writer, input, position)
                             : append_short_swap_at(writer, packed, short_of(input), position);
    }
#endif
    return writer->plain ? append_any(writer, writer->largest, input, position)
                         : append_any_swap_at(writer, packed, input, position);
}

int cl_writer_append(cl_writer *writer, const cl_record_input *input, uint64_t *position) {
    return cl_writer_append_upto(writer, writer->largest, input, position);
}

static __attribute__((noinline)) int append_any_value(cl_writer *writer, const void *value,
                                                      uint32_t length, uint64_t *position) {
    const cl_record_input input = {
        .value = value, .value_length = length, .key_length = CL_KEYLEN_NONE, .timestamp_ns = -1};
    return append_any(writer, writer->largest, &input, position);
}

int cl_writer_append_value(cl_writer *writer, const void *value, uint32_t length,
                           uint64_t *position) {
#ifdef HAS_INSTRUCTIONS
    if (CL_LIKELY(length < writer->fast_length)) {
        return writer->plain
                   ? append_short_plain_value(writer, value, CL_FRAME_HEADER + length, position)
                   : append_short_swap_value(writer, value, CL_FRAME_HEADER + length, position);
    }
#endif
    return append_any_value(writer, value, length, position);
}
