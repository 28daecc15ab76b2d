/* Decodes records from a part of a segment file in memory into columns in Arrow's layout. */
#ifndef CL_FRAME_DECODER_H
#define CL_FRAME_DECODER_H

#include "frame_cursor.h"

/* Columns, each with room for `most` rows; NULL for a column that the caller does not want. Ends
 * are Arrow's offsets without the leading 0. */
typedef struct {
    int64_t *positions;
    int64_t *timestamps_us; /* rounded down */
    int64_t *types;
    int32_t *value_ends; /* with `values`, or both NULL */
    int32_t *key_ends;   /* with `keys` and `key_bits` */
    uint8_t *values;
    uint8_t *keys;
    uint8_t *key_bits; /* a bit a row, lowest first: 0 where there is no key */
    size_t values_room;
    size_t keys_room;
    size_t most;
    size_t count;
    size_t values_size;
    size_t keys_size;
    uint64_t passed; /* records passed over because they are before the first wanted */
} cl_rows_out;

/* Decodes from the cursor up to offset `limit`, and checks every CRC; the cursor's own limit is at
 * most that. Records below `first` are passed over and counted. The code says why it stopped at the
 * cursor: CL_E_ROLL at `limit`, CL_E_FULL when there is no room for the next row, CL_E_ABSENT when
 * the source holds only a part of the frame there, whose size is at least cursor->step bytes,
 * CL_E_END at a zero cell, CL_E_BUSY at a claim, CL_E_DAMAGE. */
int cl_frames_decode(cl_frame_cursor *cursor, uint64_t first, uint64_t limit, cl_rows_out *out);

#endif
