#include "marked.h"

#include <string.h>

#include "claim.h"

uint64_t cl_marked_write(const cl_segment *segment, uint32_t offset, const cl_record_input *input,
                         const cl_headers *headers, const cl_mark *mark) {
    const uint32_t mark_at = offset + cl_headers_size(headers);
    const uint32_t record_at = mark_at + (mark == NULL ? 0 : CL_MARK_LENGTH);
    uint64_t cell = cl_frame_write(segment, record_at, input);
    const uint32_t record_crc = cl_cell_high(cell);
    if (mark != NULL) {
        memcpy(segment->bytes + record_at, &cell, sizeof cell);
        cell = cl_mark_write(segment, mark_at, mark, record_crc);
    }
    if (headers->length != 0) {
        memcpy(segment->bytes + mark_at, &cell, sizeof cell);
        cell = cl_headers_write(segment, offset, headers, record_crc);
    }
    return cell;
}

int cl_append_marked(cl_writer *writer, const cl_record_input *input, const cl_headers *headers,
                     const cl_mark *mark, uint64_t *position) {
    const uint32_t before = cl_headers_size(headers) + (mark == NULL ? 0 : CL_MARK_LENGTH);
    uint64_t length = before + cl_input_length(input);
    cl_record_input record;
    int code;
    if (length > writer->largest) {
        return CL_E_TOO_LARGE;
    }
    do { /* cl_batch_publish bounds the rounds */
        cl_claim claim;
        record = *input;
        code = cl_batch_claim(writer, cl_frame_aligned((uint32_t)length), &record.timestamp_ns,
                              &claim);
        if (code == CL_OK) {
            cl_assert(length, <=, claim.length);
            uint64_t cell = cl_marked_write(claim.segment, claim.offset, &record, headers, mark);
            code = cl_batch_publish(writer, &claim, cell, 1);
            *position = claim.segment->base + claim.offset + before;
        }
    } while (code == CL_E_ROLLED_BACK);
    return code;
}
