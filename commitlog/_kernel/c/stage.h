/* Frames laid out for a segment that is not part of a log yet: see commitlog/stage. */
#ifndef CL_STAGE_H
#define CL_STAGE_H

#include "writer.h"

/* Records as columns. Each offsets array has one number more than there are records, into the bytes
 * beside it. */
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
    size_t count;
} cl_stage_rows;

/* Lays rows from *done on behind one another, from *offset of the segment to `stop` at most, and
 * moves both along. What is laid is complete with its cells, and counted in `tally`. CL_E_FULL: the
 * next one does not fit. CL_E_TOO_LARGE: it fits no segment of this size. CL_E_DAMAGE: its offsets
 * lead out of its bytes. `segment->bytes` is where the bytes of offset 0 would be. */
int cl_stage_lay(const cl_segment *segment, uint64_t *offset, uint64_t stop,
                 const cl_stage_rows *rows, size_t *done, cl_tally *tally);

#endif
