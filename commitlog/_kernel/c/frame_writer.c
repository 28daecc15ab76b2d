#include "frame_writer.h"

#include <string.h>

#include "crc32c.h"

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

uint64_t cl_frame_write(const cl_segment *segment, uint32_t offset, const cl_record_input *input) {
    uint8_t *at = segment->bytes + offset;
    uint32_t word = (uint32_t)cl_input_length(input);
    size_t head = CL_FRAME_HEADER;
    cl_assert(offset, >=, CL_SEGMENT_HEADER);
    cl_assert(offset % CL_FRAME_ALIGN, ==, 0);
    cl_assert(offset + cl_input_length(input), <=, segment->size);
    memcpy(at + CL_FRAME_TIMESTAMP, &input->timestamp_ns, sizeof input->timestamp_ns);
    if (CL_UNLIKELY(cl_input_extended(input))) {
        word |= CL_WORD_EXT;
        head = write_extension(at, input);
    }
    return cl_cell(
        word, cl_frame_copy_crc(segment->seed, offset, word, at, head, at + head, input->value));
}
