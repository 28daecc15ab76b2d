/* Appends with a mark, and the search for marks. */
#include "mark.h"

#include <string.h>

#include "claim.h"
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

/* Writes the mark and its record, except the first cell, which is returned. */
static uint64_t write_marked(const cl_claim *claim, const cl_record_input *input,
                             const cl_mark *mark) {
    uint8_t *at = claim->segment->bytes + claim->offset;
    cl_assert(CL_MARK_LENGTH + cl_input_length(input), <=, claim->length);
    uint64_t cell = cl_frame_write(claim->segment, claim->offset + CL_MARK_LENGTH, input);
    mark_bytes content = {.mark = *mark, .record_crc = cl_cell_high(cell)};
    content.crc = crc_of(claim->segment, claim->offset, &content);
    memcpy(at + CL_MARK_LENGTH, &cell, sizeof cell);
    memcpy(at + CL_CELL_SIZE, &content, sizeof content);
    return cl_skip_cell(claim->segment, claim->offset, CL_MARK_LENGTH);
}

int cl_append_marked(cl_writer *writer, const cl_record_input *input, const cl_mark *mark,
                     uint64_t *position) {
    uint64_t length = CL_MARK_LENGTH + cl_input_length(input);
    cl_record_input record;
    int code;
    if (length > writer->largest) {
        return CL_E_TOO_LARGE;
    }
    do { /* cl_batch_publish bounds the rounds */
        cl_claim claim;
        record = *input;
        code = cl_batch_claim(writer, cl_frame_aligned((uint32_t)length), &record.timestamp_ns,
                              &claim);
        if (code == CL_OK) {
            code = cl_batch_publish(writer, &claim, write_marked(&claim, &record, mark), 1);
            *position = claim.segment->base + claim.offset + CL_MARK_LENGTH;
        }
    } while (code == CL_E_ROLLED_BACK);
    return code;
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
