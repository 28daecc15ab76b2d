/* sources: crc32c.c frame_cursor.c */
/* What a frame cursor reports for each kind of cell, at its limit, at the segment's end, and when
 * the source ends inside a frame. */
#include <stdio.h>
#include <stdlib.h>

#include "frame_cursor.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define SIZE CL_SEGMENT_SMALLEST

static uint64_t cells[SIZE / sizeof(uint64_t)];
static uint8_t *const bytes = (uint8_t *)cells;
static cl_segment segment = {.size = SIZE, .seed = 7};

static cl_frame_cursor cursor_at(uint64_t offset) {
    return cl_frame_cursor_at(&segment, bytes, offset, SIZE);
}

static void put(uint64_t offset, uint64_t cell) { cells[offset / sizeof cell] = cell; }

/* Puts a record of that length with a valid CRC. */
static uint64_t put_record(uint64_t offset, uint32_t length) {
    put(offset, cl_cell(length, cl_frame_crc(segment.seed, offset, length,
                                             bytes + offset + CL_FRAME_TIMESTAMP, length - 8)));
    return offset + cl_frame_aligned(length);
}

static void check_read(uint64_t offset, uint32_t word, int code, uint64_t step) {
    put(offset, cl_cell(word, word == 0 ? 0 : 5));
    cl_frame_cursor at = cursor_at(offset);
    CHECK(cl_frame_read(&at) == code && at.offset == offset);
    CHECK(step == 0 || at.step == step);
    put(offset, 0);
}

static void each_kind_of_cell_has_its_result_code(void) {
    const uint64_t offset = CL_SEGMENT_HEADER;
    check_read(offset, 0, CL_E_END, 0);
    check_read(offset, CL_FRAME_HEADER, CL_OK, CL_FRAME_HEADER);
    check_read(offset, CL_FRAME_HEADER + 1, CL_OK, 24);
    check_read(offset, CL_FRAME_HEADER - 1, CL_E_DAMAGE, 0);
    check_read(offset, CL_WORD_EXT | CL_FRAME_EXTENDED, CL_OK, CL_FRAME_EXTENDED);
    check_read(offset, CL_WORD_EXT | (CL_FRAME_EXTENDED - 1), CL_E_DAMAGE, 0);
    check_read(offset, CL_WORD_CLAIMED | 40, CL_E_BUSY, 40);
    check_read(offset, CL_WORD_CLAIMED | CL_WORD_EXT | 40, CL_E_BUSY, 40);
    check_read(offset, CL_WORD_CLAIMED | 8, CL_E_DAMAGE, 0);
    check_read(offset, CL_WORD_SKIP | CL_FRAME_SMALLEST, CL_E_ROLLED_BACK, CL_FRAME_SMALLEST);
    check_read(offset, CL_WORD_SKIP | (CL_FRAME_SMALLEST - 1), CL_E_DAMAGE, 0);
    check_read(offset, CL_WORD_SKIP, CL_E_ROLLED_BACK, SIZE - offset);
    check_read(offset, CL_WORD_SKIP | CL_WORD_EXT | 40, CL_E_DAMAGE, 0);
    check_read(offset, CL_WORD_SKIP | CL_WORD_CLAIMED | 40, CL_E_DAMAGE, 0);
    check_read(offset, CL_WORD_BATCH | 40, CL_E_DAMAGE, 0);
    check_read(offset, UINT32_MAX, CL_E_DAMAGE, 0);
}

static void frame_past_the_end_of_the_segment_is_damage(void) {
    static const uint32_t flags[] = {0, CL_WORD_EXT, CL_WORD_CLAIMED, CL_WORD_SKIP};
    static const int codes[] = {CL_OK, CL_OK, CL_E_BUSY, CL_E_ROLLED_BACK};
    for (size_t which = 0; which < sizeof flags / sizeof *flags; which++) {
        check_read(SIZE - 24, flags[which] | 24, codes[which], 24);
        check_read(SIZE - 24, flags[which] | 25, CL_E_DAMAGE, 0);
        check_read(SIZE - 24, flags[which] | CL_WORD_LENGTH, CL_E_DAMAGE, 0);
    }
}

static void read_at_the_limit_ends(void) {
    cl_frame_cursor at = cl_frame_cursor_at(&segment, bytes, CL_SEGMENT_HEADER, CL_SEGMENT_HEADER);
    CHECK(cl_frame_read(&at) == CL_E_ROLL);
    at = cl_frame_cursor_at(&segment, bytes, SIZE, UINT64_MAX);
    CHECK(at.limit == SIZE && cl_frame_read(&at) == CL_E_ROLL);
}

static void incomplete_record_is_reported_with_its_length(void) {
    uint64_t end = put_record(CL_SEGMENT_HEADER, 40);
    cl_frame_cursor at = cursor_at(CL_SEGMENT_HEADER);
    at.end = at.limit = end;
    CHECK(cl_frame_read(&at) == CL_OK);
    at.end = at.limit = end - CL_FRAME_ALIGN;
    CHECK(cl_frame_read(&at) == CL_E_ABSENT && at.step == 40);
    CHECK(!cl_frame_find(&at)); /* an incomplete frame is not found */
    put(CL_SEGMENT_HEADER, 0);
}

static void find_passes_frames_with_a_wrong_crc(void) {
    uint64_t first = CL_SEGMENT_HEADER + 80, second = put_record(first, 31);
    put_record(second, 40);
    cl_frame_cursor at = cursor_at(CL_SEGMENT_HEADER);
    cl_record record;
    CHECK(cl_frame_find(&at) && at.offset == first);
    CHECK(cl_frame_verify(&at, cl_frame_read(&at), &record) == CL_OK && record.value_length == 15);
    cl_frame_next(&at);
    CHECK(at.offset == second && cl_frame_find(&at) && at.offset == second);
    bytes[first + CL_FRAME_TIMESTAMP] ^= 1;
    at = cursor_at(first);
    CHECK(cl_frame_read(&at) == CL_OK && cl_frame_verify(&at, CL_OK, &record) == CL_E_DAMAGE);
    CHECK(cl_frame_find(&at) && at.offset == second);
    bytes[second + CL_FRAME_TIMESTAMP] ^= 1;
    CHECK(!cl_frame_find(&at) && at.offset >= at.limit);
}

int main(void) {
    each_kind_of_cell_has_its_result_code();
    frame_past_the_end_of_the_segment_is_damage();
    read_at_the_limit_ends();
    incomplete_record_is_reported_with_its_length();
    find_passes_frames_with_a_wrong_crc();
    return 0;
}
