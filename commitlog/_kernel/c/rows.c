/* Appends equal rows of bytes in batches: one claim for as many as fit. */
#include <string.h>

#include "claim.h"
#include "crc32c.h"
#include "crc32c_steps.h"

#ifdef HAS_INSTRUCTIONS

/* As write_rows, for short frames. */
WITH_CRC static uint64_t write_short_rows(const cl_segment *segment, uint32_t offset,
                                          const cl_rows *rows, size_t first, size_t count,
                                          int64_t timestamp_ns, int64_t *positions) {
    const uint32_t seed = segment->seed, length = CL_FRAME_HEADER + rows->length;
    const uint32_t step = cl_frame_aligned(length);
    const uint64_t base = segment->base;
    const size_t stride = rows->stride;
    const uint8_t *from = rows->data + first * stride;
    uint8_t *at = segment->bytes + offset;
    uint64_t first_cell;
    void *cell_at = &first_cell;
    for (size_t row = 0; row < count; row++) {
        __builtin_prefetch(at + CL_AHEAD, 1);
        memcpy(at + CL_FRAME_TIMESTAMP, &timestamp_ns, sizeof timestamp_ns);
        uint64_t state = feed_plain_head(seed, offset, length, (uint64_t)timestamp_ns);
        state = feed_into_frame(state, at + CL_FRAME_HEADER, from, rows->length);
        uint64_t cell = cl_cell(length, (uint32_t)~state);
        memcpy(cell_at, &cell, sizeof cell);
        positions[row] = (int64_t)(base + offset);
        at += step;
        cell_at = at;
        offset += step;
        from += stride;
    }
    return first_cell;
}

#endif

/* Writes all frames but the first one's cell, which is returned. */
static uint64_t write_rows(const cl_segment *segment, uint32_t offset, const cl_rows *rows,
                           size_t first, size_t count, int64_t timestamp_ns, int64_t *positions) {
#ifdef HAS_INSTRUCTIONS
    if (rows->length < INTERLEAVED_LEAST && cl_crc32c_steps) {
        return write_short_rows(segment, offset, rows, first, count, timestamp_ns, positions);
    }
#endif
    cl_record_input input = {.value = rows->data + first * rows->stride,
                             .value_length = rows->length,
                             .key_length = CL_KEYLEN_NONE,
                             .timestamp_ns = timestamp_ns};
    uint64_t first_cell;
    void *cell_at = &first_cell;
    for (size_t row = 0; row < count; row++) {
        uint64_t cell = cl_frame_write(segment, offset, &input);
        memcpy(cell_at, &cell, sizeof cell);
        positions[row] = (int64_t)(segment->base + offset);
        offset += cl_frame_aligned(CL_FRAME_HEADER + rows->length);
        cell_at = segment->bytes + offset;
        input.value = (const uint8_t *)input.value + rows->stride;
    }
    return first_cell;
}

int cl_writer_append_rows(cl_writer *writer, const cl_rows *rows, size_t *done,
                          int64_t *positions) {
    int refusal = cl_writer_refusal(writer);
    if (refusal != CL_OK) {
        return refusal;
    }
    cl_assert(*done, <=, rows->count);
    uint32_t length = CL_FRAME_HEADER + rows->length;
    uint32_t step = cl_frame_aligned(length);
    if ((uint64_t)CL_FRAME_HEADER + rows->length > writer->largest) {
        return CL_E_TOO_LARGE;
    }
    size_t most =
        writer->largest < CL_FRAME_ADD_LIMIT ? writer->largest / step : CL_FRAME_ADD_LIMIT / step;
    most = most == 0 ? 1 : most;
    /* A batch that another handle rolls back is retried until `cl_batch_publish` gives up. */
    while (*done < rows->count) {
        size_t count = rows->count - *done < most ? rows->count - *done : most;
        int64_t timestamp_ns = rows->timestamp_ns;
        if (rows->timestamp_ns < 0 || writer->cycle_end_ns != INT64_MAX) {
            int64_t now_ns = cl_writer_now(writer);
            if (now_ns >= writer->cycle_end_ns) {
                return CL_E_CYCLE;
            }
            timestamp_ns = rows->timestamp_ns < 0 ? now_ns : rows->timestamp_ns;
        }
        cl_claim claim;
        int code = cl_batch_claim(writer, (uint32_t)count * step, &claim);
        if (code != CL_OK) {
            return code;
        }
        uint64_t first_cell = write_rows(claim.segment, claim.offset, rows, *done, count,
                                         timestamp_ns, positions + *done);
        code = cl_batch_publish(writer, &claim, first_cell, (uint32_t)count);
        if (code == CL_OK) {
            *done += count;
        } else if (code != CL_E_ROLLED_BACK) {
            return code;
        }
    }
    return CL_OK;
}
