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

/* Writes all of a mark but its cell, which is returned. */
static uint64_t write_mark(const cl_segment *segment, uint32_t offset, const cl_mark *mark,
                           uint32_t record_crc) {
    mark_bytes content = {.mark = *mark, .record_crc = record_crc};
    content.crc = crc_of(segment, offset, &content);
    memcpy(segment->bytes + offset + CL_CELL_SIZE, &content, sizeof content);
    return cl_skip_cell(segment, offset, CL_MARK_LENGTH);
}

uint64_t cl_marked_write(const cl_segment *segment, uint32_t offset, const cl_record_input *input,
                         const cl_headers *headers, const cl_mark *mark) {
    const uint32_t mark_at = offset + cl_headers_size(headers);
    const uint32_t record_at = mark_at + (mark == NULL ? 0 : CL_MARK_LENGTH);
    uint64_t cell = cl_frame_write(segment, record_at, input);
    const uint32_t record_crc = cl_cell_high(cell);
    if (mark != NULL) {
        memcpy(segment->bytes + record_at, &cell, sizeof cell);
        cell = write_mark(segment, mark_at, mark, record_crc);
    }
    if (headers->length != 0) {
        memcpy(segment->bytes + mark_at, &cell, sizeof cell);
        cell = cl_headers_write(segment, offset, headers, record_crc);
    }
    return cell;
}

int cl_append_marked(cl_writer *writer, const cl_record_input *input, const cl_headers *headers,
                     const cl_mark *mark, uint64_t *position) {
    const uint32_t before = cl_headers_size(headers) + CL_MARK_LENGTH;
    uint64_t length = before + cl_input_length(input);
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
            cl_assert(length, <=, claim.length);
            uint64_t cell = cl_marked_write(claim.segment, claim.offset, &record, headers, mark);
            code = cl_batch_publish(writer, &claim, cell, 1);
            *position = claim.segment->base + claim.offset + before;
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
