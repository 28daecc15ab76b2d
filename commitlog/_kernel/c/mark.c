#include "mark.h"

#include <string.h>

#include "crc32c.h"

/* The bytes behind the cell. */
typedef struct {
    cl_mark mark;
    uint32_t record_crc;
    uint32_t crc; /* over the above, seeded with the segment's id and the mark's offset */
} mark_bytes;

_Static_assert(CL_CELL_SIZE + sizeof(mark_bytes) == CL_MARK_LENGTH, "a mark is its cell and this");
_Static_assert(CL_MARK_LENGTH % CL_FRAME_ALIGN == 0, "the record behind a mark is aligned");

static uint32_t crc_of(const cl_segment *segment, uint64_t offset, const mark_bytes *content) {
    const uint64_t place[2] = {segment->id, offset};
    return cl_crc32c(cl_crc32c(0, place, sizeof place), content, offsetof(mark_bytes, crc));
}

uint64_t cl_mark_write(const cl_segment *segment, uint32_t offset, const cl_mark *mark,
                       uint32_t record_crc) {
    mark_bytes content = {.mark = *mark, .record_crc = record_crc};
    content.crc = crc_of(segment, offset, &content);
    memcpy(segment->bytes + offset + CL_CELL_SIZE, &content, sizeof content);
    return cl_skip_cell(segment, offset, CL_MARK_LENGTH);
}

bool cl_mark_read(const cl_frame_cursor *cursor, cl_mark *mark) {
    const uint64_t behind = cursor->offset + CL_MARK_LENGTH;
    mark_bytes content;
    if (cl_cell_word(cursor->cell) != (CL_WORD_SKIP | CL_MARK_LENGTH) || behind >= cursor->limit) {
        return false;
    }
    memcpy(&content, cursor->bytes + cursor->offset + CL_CELL_SIZE, sizeof content);
    const uint64_t cell = cl_load((const uint64_t *)(cursor->bytes + behind));
    uint64_t step;
    *mark = content.mark;
    return content.crc == crc_of(cursor->segment, cursor->offset, &content) &&
           content.record_crc == cl_cell_high(cell) &&
           cl_cell_read(cell, cursor->size - behind, &step) == CL_OK;
}

size_t cl_marks_read(const cl_segment *segment, uint64_t *offset, uint64_t limit, cl_marked *found,
                     size_t most, int *code) {
    cl_frame_cursor at = cl_frame_cursor_at(segment, segment->map, cl_frame_offset(*offset), limit);
    size_t count = 0;
    for (*code = CL_OK; count < most; cl_frame_next(&at)) {
        *code = cl_frame_read(&at);
        if (*code == CL_E_ROLLED_BACK && cl_mark_read(&at, &found[count].mark)) {
            found[count++].position = segment->base + at.offset + CL_MARK_LENGTH;
        } else if (*code != CL_OK && *code != CL_E_ROLLED_BACK) {
            break;
        }
        *code = CL_OK;
    }
    cl_assert(at.offset, >=, *offset);
    cl_assert(count, <=, most);
    *offset = at.offset;
    *code = *code == CL_E_ROLL ? CL_OK : *code;
    return count;
}
