/* Writes the frame of a record into a claim, all but the cell that publishes it. */
#ifndef CL_FRAME_WRITER_H
#define CL_FRAME_WRITER_H

#include "segment.h"

/* The input of a frame. */
typedef struct {
    const void *value;
    const void *key;
    uint32_t value_length;
    uint32_t key_length; /* CL_KEYLEN_NONE: not keyed */
    uint32_t type;
    int64_t timestamp_ns;
} cl_record_input;

static inline bool cl_input_extended(const cl_record_input *input) {
    return input->type != 0 || input->key_length != CL_KEYLEN_NONE;
}

/* Frame length before padding. 64-bit, so that no sum of lengths can wrap. */
static inline uint64_t cl_input_length(const cl_record_input *input) {
    uint64_t header = cl_input_extended(input) ? CL_FRAME_EXTENDED : CL_FRAME_HEADER;
    return header + (input->key_length == CL_KEYLEN_NONE ? 0 : input->key_length) +
           input->value_length;
}

/* Writes all of a frame but its cell at `offset`, and returns the cell that publishes it. */
uint64_t cl_frame_write(const cl_segment *segment, uint32_t offset, const cl_record_input *input);

#endif
