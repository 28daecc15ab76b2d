#include "stage.h"

#include <string.h>

#include "marked.h"

/* Finds the bytes [*start, *start + *length) of a row. Returns false if its offsets are not inside
 * the column. */
static bool slot_of(const int64_t *offsets, uint64_t size, size_t row, uint64_t *start,
                    uint64_t *length) {
    int64_t first = offsets[row], last = offsets[row + 1];
    *start = (uint64_t)first;
    *length = (uint64_t)last - (uint64_t)first;
    return first >= 0 && last >= first && (uint64_t)last <= size;
}

static int input_of(const cl_stage_rows *rows, size_t row, uint32_t largest,
                    cl_record_input *input) {
    uint64_t start, length, key_start = 0, key_length = 0;
    bool keyed = rows->key_offsets != NULL && rows->keyed[row];
    if (!slot_of(rows->value_offsets, rows->values_size, row, &start, &length) ||
        (keyed && !slot_of(rows->key_offsets, rows->keys_size, row, &key_start, &key_length))) {
        return CL_E_DAMAGE;
    }
    if (length > largest || key_length > largest) {
        return CL_E_TOO_LARGE;
    }
    *input =
        (cl_record_input){.value = rows->values + start,
                          .value_length = (uint32_t)length,
                          .key = keyed ? rows->keys + key_start : NULL,
                          .key_length = keyed ? (uint32_t)key_length : CL_KEYLEN_NONE,
                          .type = rows->types == NULL ? 0 : rows->types[row],
                          .timestamp_ns = rows->timestamps_ns == NULL ? rows->timestamp_ns
                                                                      : rows->timestamps_ns[row]};
    return cl_input_length(input) > largest ? CL_E_TOO_LARGE : CL_OK;
}

int cl_stage_lay(const cl_segment *segment, uint64_t *offset, uint64_t stop,
                 const cl_stage_rows *rows, size_t *done, cl_tally *tally) {
    const uint32_t largest = cl_frame_largest(segment->size);
    cl_assert(*done, <=, rows->count);
    cl_assert(stop, <=, segment->size);
    for (; *done < rows->count; ++*done) {
        cl_record_input input;
        int code = input_of(rows, *done, largest, &input);
        if (code != CL_OK) {
            return code;
        }
        const cl_headers *headers = rows->headers == NULL ? NULL : &rows->headers[*done];
        uint64_t length = cl_input_length(&input);
        if (headers != NULL && (length += cl_headers_size(headers)) > largest) {
            return CL_E_TOO_LARGE;
        }
        uint32_t step = cl_frame_aligned((uint32_t)length);
        if (*offset + step > stop) {
            return CL_E_FULL;
        }
        uint8_t *at = segment->bytes + *offset;
        memset(at + step - CL_FRAME_ALIGN, 0, CL_FRAME_ALIGN); /* the padding */
        uint64_t cell = headers == NULL
                            ? cl_frame_write(segment, (uint32_t)*offset, &input)
                            : cl_marked_write(segment, (uint32_t)*offset, &input, headers, NULL);
        memcpy(at, &cell, sizeof cell);
        *offset += step;
        cl_tally_add(tally, input.timestamp_ns, *offset);
    }
    return CL_OK;
}
