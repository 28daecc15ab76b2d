/* The decoder of segment files into columns: parts of a segment, and columns that are too short. */
#include "frame_decoder.h"
#include "fuzz.h"

MUTATES_FRAMES

#define ROWS_MOST 64u

typedef struct {
    int64_t positions[ROWS_MOST], timestamps[ROWS_MOST], types[ROWS_MOST];
    int32_t value_ends[ROWS_MOST], key_ends[ROWS_MOST];
    uint8_t bits[(ROWS_MOST + 7) / 8];
} columns;

/* Decodes into columns with exactly so much room as the choices say. */
static int decode(cl_frame_cursor *at, const fuzz_input *input, uint64_t first, uint64_t limit,
                  uint64_t *rows) {
    columns made;
    size_t values_room = choice16(input, 8) % 4096u, keys_room = choice16(input, 10) % 1024u;
    uint8_t wanted = input->bytes[12], *values = malloc(values_room + 1),
            *keys = malloc(keys_room + 1);
    REQUIRE(values != NULL && keys != NULL);
    cl_rows_out out = {.positions = wanted & 1 ? made.positions : NULL,
                       .timestamps_us = wanted & 2 ? made.timestamps : NULL,
                       .types = wanted & 4 ? made.types : NULL,
                       .value_ends = wanted & 8 ? made.value_ends : NULL,
                       .values = wanted & 8 ? values + 1 : NULL,
                       .key_ends = wanted & 16 ? made.key_ends : NULL,
                       .keys = wanted & 16 ? keys + 1 : NULL,
                       .key_bits = wanted & 16 ? made.bits : NULL,
                       .values_room = values_room,
                       .keys_room = keys_room,
                       .most = input->bytes[13] % ROWS_MOST + 1u};
    int code = cl_frames_decode(at, first, limit, &out);
    REQUIRE(out.count <= out.most);
    REQUIRE(out.values_size <= values_room && out.keys_size <= keys_room);
    if (wanted & 8 && out.count != 0) {
        REQUIRE((size_t)made.value_ends[out.count - 1] == out.values_size);
    }
    *rows = out.count + out.passed;
    free(values);
    free(keys);
    return code;
}

/* The decoder passes headers, as readers do; a scan checks them, too. */
static void erase_headers(cl_segment *segment, uint64_t to) {
    cl_frame_cursor at = cl_frame_cursor_at(segment, segment->map, CL_SEGMENT_HEADER, to);
    for (int code; (code = cl_frame_read(&at)) == CL_OK || code == CL_E_ROLLED_BACK;
         cl_frame_next(&at)) {
        if (code == CL_E_ROLLED_BACK) {
            cl_headers_erase(segment, at.offset, at.step);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input input = input_of(data, size);
    cl_segment segment = segment_of(&input, input.bytes[0] % 4);
    uint64_t first = offset_of(&input, 1, segment.size), limit = offset_of(&input, 3, segment.size);
    uint64_t end = offset_of(&input, 5, segment.size), rows = 0, more;
    uint8_t *part = aligned_alloc(CL_FRAME_ALIGN, end);
    cl_scan scan;
    REQUIRE(part != NULL);
    memcpy(part, segment.map, end);
    cl_frame_cursor at = cl_frame_cursor_at(&segment, part, CL_SEGMENT_HEADER, limit);
    at.end = end;
    at.limit = at.limit < end ? at.limit : end;
    int code = CL_E_FULL;
    while (code == CL_E_FULL) { /* each round decodes rows, or a row has no room */
        code = decode(&at, &input, first, limit, &more);
        rows += more;
        REQUIRE(at.offset <= segment.size);
        if (code == CL_E_FULL && more == 0) {
            break;
        }
    }
    erase_headers(&segment, at.offset);
    cl_segment_scan(&segment, 0, at.offset, &scan);
    REQUIRE(scan.code == CL_OK && scan.offset == at.offset && scan.tally.records == rows);
    REQUIRE(code != CL_E_ABSENT || at.step >= sizeof at.cell);
    free(part);
    free(segment.map);
    return 0;
}
