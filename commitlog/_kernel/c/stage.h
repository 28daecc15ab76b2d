/* Frames laid out for a segment that is not part of a log yet: see commitlog/stage. */
#ifndef CL_STAGE_H
#define CL_STAGE_H

#include "frame_writer.h"
#include "headers.h"

/* Records as columns. Each offsets array has one entry more than there are records; the entries are
 * offsets into the bytes array declared before it. */
typedef struct {
    const uint8_t *values;
    const int64_t *value_offsets;
    uint64_t values_size;
    const uint8_t *keys;
    const int64_t *key_offsets; /* NULL: none is keyed */
    uint64_t keys_size;
    const uint8_t *keyed;        /* one byte a record */
    const uint32_t *types;       /* NULL: all 0 */
    const int64_t *timestamps_ns; /* NULL: `timestamp_ns` for all */
    int64_t timestamp_ns;
    const cl_headers *headers; /* NULL: none has any */
    size_t count;
} cl_stage_rows;

/* Writes the rows from *done on as consecutive frames, each behind its headers, from *offset of the
 * segment up to `stop`, and advances both. Each frame is written with its cell, and counted in
 * `tally`. CL_E_FULL: the next row does not fit. CL_E_TOO_LARGE: it fits no segment of this size.
 * CL_E_DAMAGE: the row's offsets are outside its bytes array. `segment->bytes` is where the bytes
 * of offset 0 would be. */
int cl_stage_lay(const cl_segment *segment, uint64_t *offset, uint64_t stop,
                 const cl_stage_rows *rows, size_t *done, cl_tally *tally);

#endif
