/* Records out of a part of a segment file that was read into memory, as columns in the layout of
 * Arrow. */
#ifndef CL_PIECE_H
#define CL_PIECE_H

#include "scan.h"

/* Bytes [start, stop) of a segment file, both of them multiples of 8; `segment` has its id's seed,
 * base and size, and maps nothing. */
typedef struct {
    const cl_segment *segment;
    const uint8_t *bytes;
    uint64_t start;
    uint64_t stop;
} cl_piece;

/* Columns, each with room for `most` rows; NULL where nobody asked for one. Ends are what Arrow has
 * as offsets, without the leading 0. */
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
    uint64_t
        passed; /* records that were gone over because they stand before the first that is wanted */
} cl_rows_out;

/* Decodes on from *offset, which stands in the piece, up to `limit`, and checks every CRC. Records
 * below `first` are passed over and counted. *offset is where it stopped, and the code says why:
 * CL_E_ROLL at the limit, CL_E_FULL when the next row has no room, CL_E_ABSENT when the piece has
 * not all of the frame there, of which *step says the length if its cell is in the piece, CL_E_END
 * at a zero cell, CL_E_BUSY at a claim, CL_E_DAMAGE. */
int cl_piece_decode(const cl_piece *piece, uint64_t *offset, uint64_t first, uint64_t limit,
                    cl_rows_out *out, uint64_t *step);

/* Where a certain frame starts next behind `offset`, or `limit`. The piece has to reach as far
 * behind the limit as the largest frame is long, or to the segment's end. */
uint64_t cl_piece_resume(const cl_piece *piece, uint64_t offset, uint64_t limit);

#endif
