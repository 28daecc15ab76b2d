/* Marks: which producer appended a record, and as which of its numbers.
 *
 * A mark is a SKIP of 32 bytes in front of its record, in the same claim. Behind its cell it has
 * the producer, the number, the CRC of the record, and a CRC over all that and its own place. So
 * readers pass it, and a SKIP of another origin, or a mark whose record was cut, is no mark. */
#ifndef CL_MARK_H
#define CL_MARK_H

#include "frame_cursor.h"

#define CL_MARK_LENGTH 32u

typedef struct {
    uint64_t producer; /* a hash of its name */
    uint64_t number;
} cl_mark;

typedef struct {
    cl_mark mark;
    uint64_t position; /* of the record */
} cl_marked;

/* Writes all of a mark but its cell, which is returned. `record_crc` is the CRC in the cell of the
 * record. */
uint64_t cl_mark_write(const cl_segment *segment, uint32_t offset, const cl_mark *mark,
                       uint32_t record_crc);

/* Whether the frame at the cursor is a mark, and its record is behind it. */
bool cl_mark_read(const cl_frame_cursor *cursor, cl_mark *mark);

/* Copies at most `most` marks of the frames in the file from `*offset` up to `limit`, and moves
 * `*offset` behind the last frame that it read. Stops at a claim, a zero cell and damage; the code
 * says why, CL_OK at the limit. Returns how many it found; `most`: there may be more. */
size_t cl_marks_read(const cl_segment *segment, uint64_t *offset, uint64_t limit, cl_marked *found,
                     size_t most, int *code);

#endif
