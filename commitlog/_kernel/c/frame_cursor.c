/* Finds the next frame after damage. */
#include "frame_cursor.h"

#define LONG_FRAME 4096u /* up to here a CRC costs less than a check of what follows the frame */

/* Whether a cell may be a frame's. A CRC of zero counts as data, which is full of small numbers. */
static inline bool is_plausible(const cl_frame_cursor *cursor, uint64_t offset) {
    if (offset >= cursor->end) {
        return false;
    }
    uint64_t cell = cl_load((const uint64_t *)(cursor->bytes + offset));
    uint64_t step;
    int code = cl_cell_read(cell, cursor->size - offset, &step);
    if (code == CL_E_END) {
        return true;
    }
    return code != CL_E_DAMAGE && cl_cell_high(cell) != 0 &&
           (code == CL_E_ROLLED_BACK || step <= cursor->size / 8);
}

/* Whether a frame is certainly at the cursor. cl_frame_find may try every cell of a damaged range,
 * where each cell that looks like a length would cost a CRC over that length: it accepts a long
 * frame only if a plausible cell follows it. */
static inline bool is_certain(cl_frame_cursor *cursor) {
    cl_record record;
    int code = cl_frame_read(cursor);
    if (code == CL_OK) {
        uint64_t next = cursor->offset + cursor->step;
        bool follows =
            cursor->step <= LONG_FRAME || next >= cursor->size || is_plausible(cursor, next);
        if (!follows || !is_plausible(cursor, cursor->offset)) {
            return false;
        }
    }
    if (code != CL_OK && code != CL_E_ROLLED_BACK) {
        return false;
    }
    return cl_frame_verify(cursor, code, &record) == code;
}

bool cl_frame_find(cl_frame_cursor *cursor) {
    cl_frame_cursor at = *cursor;
    while (at.offset < at.limit && !is_certain(&at)) {
        at.offset += CL_FRAME_ALIGN;
    }
    *cursor = at;
    return at.offset < at.limit;
}
