#include "headers.h"

#include <string.h>

#include "crc32c.h"
#include "mark.h"

#define MAGIC 0x53524448u /* "HDRS" read as a little-endian word */

typedef struct {
    uint32_t magic;
    uint32_t length; /* of the SKIP, a multiple of CL_FRAME_ALIGN */
} front_bytes;

typedef struct {
    uint32_t magic;
    uint32_t record_crc;
    uint32_t length;
    uint32_t crc; /* over all from the cell's end to here, seeded with the segment's id and the
                     offset */
} trailer_bytes;

#define SMALLEST (CL_HEADERS_AT + CL_FRAME_ALIGN + CL_HEADERS_TRAILER)
#define LARGEST (CL_HEADERS_AT + CL_HEADERS_LARGEST + CL_HEADERS_TRAILER)

_Static_assert(CL_CELL_SIZE + sizeof(front_bytes) == CL_HEADERS_AT, "headers follow the front");
_Static_assert(sizeof(trailer_bytes) == CL_HEADERS_TRAILER, "a trailer is this");
_Static_assert(CL_HEADERS_BACK == LARGEST + CL_MARK_LENGTH, "headers, then a mark");
_Static_assert(LARGEST % CL_FRAME_ALIGN == 0 && SMALLEST > CL_MARK_LENGTH,
               "no mark of a producer is as long");
_Static_assert(CL_HEADERS_LARGEST <= 1u << 16, "two bytes have the length of each value");

static uint32_t crc_of(const cl_segment *segment, uint64_t offset, const uint8_t *at,
                       uint32_t length) {
    const uint64_t place[2] = {segment->id, offset};
    return cl_crc32c(cl_crc32c(0, place, sizeof place), at + CL_CELL_SIZE,
                     length - CL_CELL_SIZE - sizeof(uint32_t));
}

static inline bool has_length(uint64_t length) {
    return length % CL_FRAME_ALIGN == 0 && length >= SMALLEST && length <= LARGEST;
}

uint64_t cl_headers_write(const cl_segment *segment, uint32_t offset, const cl_headers *headers,
                          uint32_t record_crc) {
    const uint32_t length = cl_headers_size(headers);
    const front_bytes front = {.magic = MAGIC, .length = length};
    trailer_bytes trailer = {.magic = MAGIC, .record_crc = record_crc, .length = length};
    uint8_t *at = segment->bytes + offset;
    uint8_t *end = at + length - sizeof trailer;
    cl_assert(has_length(length), ==, true);
    cl_assert(headers->length, <=, CL_HEADERS_LARGEST);
    cl_assert(offset + (uint64_t)length, <, segment->size);
    memcpy(at + CL_CELL_SIZE, &front, sizeof front);
    memset(end - CL_FRAME_ALIGN, 0, CL_FRAME_ALIGN); /* the zeros behind the headers */
    memcpy(at + CL_HEADERS_AT, headers->bytes, headers->length);
    memcpy(end, &trailer, offsetof(trailer_bytes, crc));
    trailer.crc = crc_of(segment, offset, at, length);
    memcpy(end, &trailer, sizeof trailer);
    return cl_skip_cell(segment, offset, length);
}

/* Whether a SKIP of that length ends at `end`. */
static bool has_skip(const cl_segment *segment, const uint8_t *bytes, uint64_t end,
                     uint32_t length) {
    return has_length(length) && length <= end - CL_SEGMENT_HEADER &&
           cl_load((const uint64_t *)(bytes + end - length)) ==
               cl_skip_cell(segment, (uint32_t)(end - length), length);
}

/* Where the record's claim begins but for its headers: before a mark of a producer. */
static uint64_t before_mark(cl_frame_cursor at) {
    const uint64_t record = at.offset;
    cl_mark mark;
    if (record < CL_SEGMENT_HEADER + CL_MARK_LENGTH) {
        return record;
    }
    at.offset -= CL_MARK_LENGTH;
    at.cell = cl_load((const uint64_t *)(at.bytes + at.offset));
    return cl_mark_read(&at, &mark) ? at.offset : record;
}

int cl_headers_find(const cl_segment *segment, const uint8_t *bytes, uint64_t offset,
                    cl_headers *found) {
    cl_frame_cursor at = cl_frame_cursor_at(segment, bytes, offset, segment->size);
    trailer_bytes trailer;
    *found = (cl_headers){0};
    cl_assert(offset, >=, CL_SEGMENT_HEADER);
    cl_assert(offset % CL_FRAME_ALIGN, ==, 0);
    if (cl_frame_read(&at) != CL_OK) {
        return CL_E_ABSENT;
    }
    const uint64_t end = before_mark(at);
    if (end < CL_SEGMENT_HEADER + SMALLEST) {
        return CL_OK;
    }
    memcpy(&trailer, bytes + end - sizeof trailer, sizeof trailer);
    const bool magic = trailer.magic == MAGIC, ours = trailer.record_crc == cl_cell_high(at.cell);
    if (CL_LIKELY(!magic && !ours)) {
        return CL_OK;
    }
    /* Damage of one field must not make headers vanish, nor must chance make some appear: two of
     * three tell. */
    const bool skip = has_skip(segment, bytes, end, trailer.length);
    if (magic + ours + skip < 2) {
        return CL_OK;
    }
    const uint8_t *start = bytes + end - trailer.length;
    if (!skip || crc_of(segment, end - trailer.length, start, trailer.length) != trailer.crc) {
        return CL_E_DAMAGE;
    }
    if (ours) { /* else they belong to a record that was cut */
        found->bytes = start + CL_HEADERS_AT;
        found->length = trailer.length - CL_HEADERS_AT - CL_HEADERS_TRAILER;
    }
    return CL_OK;
}

/* Whether one end of the SKIP says that it has headers: the other one may be torn. */
static bool ends_say_so(const uint8_t *at, uint64_t length) {
    front_bytes front;
    trailer_bytes trailer;
    memcpy(&front, at + CL_CELL_SIZE, sizeof front);
    memcpy(&trailer, at + length - sizeof trailer, sizeof trailer);
    return (front.magic == MAGIC && front.length == length) ||
           (trailer.magic == MAGIC && trailer.length == length);
}

bool cl_headers_begin(cl_frame_cursor at) {
    const uint32_t length = cl_cell_word(at.cell) & CL_WORD_LENGTH;
    cl_assert(cl_cell_word(at.cell) & CL_WORD_SKIP, !=, 0);
    return has_length(length) && length <= at.end - at.offset &&
           ends_say_so(at.bytes + at.offset, length);
}

bool cl_headers_damaged(cl_frame_cursor at) {
    const uint32_t length = cl_cell_word(at.cell) & CL_WORD_LENGTH;
    const uint8_t *start = at.bytes + at.offset;
    uint32_t crc;
    if (!cl_headers_begin(at)) {
        return false;
    }
    memcpy(&crc, start + length - sizeof crc, sizeof crc);
    return crc != crc_of(at.segment, at.offset, start, length);
}

void cl_headers_erase(cl_segment *segment, uint64_t offset, uint64_t length) {
    uint8_t *at = segment->map + offset;
    if (has_length(length) && ends_say_so(at, length)) {
        memset(at + CL_CELL_SIZE, 0, sizeof(front_bytes));
        memset(at + length - CL_HEADERS_TRAILER, 0, CL_HEADERS_TRAILER);
    }
}
