/* Appends equal rows of bytes in batches: one claim for as many as fit. */
#include <string.h>

#include "claim.h"
#include "short_frames.h"

/* Long rows, one frame at a time: all but the first one's cell, which is returned. */
static uint64_t write_rows(const cl_segment *segment, uint32_t offset, const cl_rows *rows,
                           size_t first, size_t count, cl_record_input *input, int64_t *positions) {
    uint32_t step = cl_frame_aligned(CL_FRAME_HEADER + rows->length);
    uint64_t first_cell = 0;
    for (size_t row = 0; row < count; row++, offset += step) {
        input->value = rows->data + (first + row) * rows->stride;
        uint64_t cell = cl_frame_write(segment, offset, input);
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
