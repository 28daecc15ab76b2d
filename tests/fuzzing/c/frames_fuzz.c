/* Scan, copy, digest, search after damage, landing, seal, take-over: what recovery, verification,
 * copies and stores ask of the bytes of a segment. */
#include "fuzz.h"

MUTATES_FRAMES

static bool is_end(int code) {
    return code == CL_OK || code == CL_E_END || code == CL_E_BUSY || code == CL_E_DAMAGE ||
           code == CL_E_ABSENT;
}

static cl_scan check_scan(const cl_segment *segment) {
    cl_scan scan, rest;
    cl_segment_scan(segment, 0, segment->size, &scan);
    REQUIRE(is_end(scan.code));
    REQUIRE(scan.offset % CL_FRAME_ALIGN == 0 && scan.offset <= segment->size);
    REQUIRE(scan.tally.end <= scan.offset && scan.skipped <= scan.offset);
    REQUIRE((scan.code == CL_OK) == (scan.offset == segment->size));
    cl_segment_scan(segment, scan.offset, segment->size, &rest);
    REQUIRE(rest.offset == scan.offset && rest.tally.records == 0);
    return scan;
}

static void check_copy(const cl_segment *segment, uint64_t from, uint64_t to) {
    if (from >= to) {
        return;
    }
    uint8_t *copy = aligned_alloc(CL_FRAME_ALIGN, to - from);
    uint64_t end;
    uint32_t crc;
    REQUIRE(copy != NULL);
    int code = cl_segment_copy(segment, from, to, copy, &end, &crc);
    REQUIRE(is_end(code) && end >= from && end <= to);
    REQUIRE(memcmp(copy, segment->map + from, end - from) == 0);
    REQUIRE(crc == cl_crc32c(0, copy, end - from));
    cl_scan scan;
    cl_segment_scan(segment, from, end, &scan);
    REQUIRE(scan.code == CL_OK && scan.offset == end);
    uint64_t first = cl_first_frame_end(segment, from, to);
    REQUIRE(first >= to && first <= segment->size);
    free(copy);
}

static void check_digest(const cl_segment *segment, uint64_t to) {
    uint64_t whole = SEGMENT_ID, parts = SEGMENT_ID;
    uint64_t end = cl_segment_digest(segment, 0, segment->size, &whole);
    uint64_t middle = cl_segment_digest(segment, 0, to, &parts);
    REQUIRE(middle <= end);
    REQUIRE(cl_segment_digest(segment, middle, segment->size, &parts) == end && parts == whole);
}

static void check_searches(const cl_segment *segment, uint64_t from, uint64_t to) {
    uint64_t found = cl_segment_resume(segment, from);
    REQUIRE(found > from || from >= segment->size);
    REQUIRE(found == segment->size || found % CL_FRAME_ALIGN == 0);
    uint64_t landing = cl_segment_landing(segment, from);
    REQUIRE(landing >= from && landing <= segment->size);
    REQUIRE(cl_segment_landing(segment, landing) == landing);
    uint64_t end = cl_segment_certain_end(segment, segment->map, from);
    REQUIRE(end >= from && end <= segment->size);
    if (from <= to) {
        uint64_t nonzero = cl_segment_nonzero(segment, from, to);
        REQUIRE(nonzero >= from && nonzero <= to);
        REQUIRE(nonzero == to || segment->map[nonzero] != 0);
    }
}

/* Recovery takes the frames of a dead pool's buffer over into the file. */
static void check_take_over(const cl_segment *segment) {
    cl_segment file = *segment;
    uint64_t end = CL_SEGMENT_HEADER;
    cl_scan scan, before;
    file.map = file.bytes = calloc(1, segment->size);
    REQUIRE(file.map != NULL);
    cl_segment_scan(segment, 0, segment->size, &before);
    cl_segment_take_over(&file, segment->map, &end);
    REQUIRE(end >= before.offset && end <= segment->size);
    cl_segment_scan(&file, 0, end, &scan);
    REQUIRE(scan.code == CL_OK && scan.offset == end);
    REQUIRE(scan.tally.records >= before.tally.records);
    cl_segment_mark_gap(&file, end, segment->size);
    cl_segment_scan(&file, 0, segment->size, &scan);
    REQUIRE(scan.offset >= end);
    free(file.map);
}

static void check_seal(cl_segment *segment, const cl_scan *scan) {
    cl_index_entry entries[16];
    cl_index index = {.entries = entries,
                      .room = 16,
                      .spacing = 3,
                      .largest_ns = INT64_MIN,
                      .offset = CL_SEGMENT_HEADER};
    cl_header_seal seal;
    int code = cl_segment_seal(segment, 7, &index);
    REQUIRE((code == CL_OK) == (scan->code == CL_OK));
    REQUIRE((cl_segment_sealed(segment, &seal) == CL_OK) == (code == CL_OK));
    if (code == CL_OK) {
        REQUIRE(seal.record_count == scan->tally.records && seal.end == scan->tally.end);
        REQUIRE(index.count <= index.room && index.records == scan->tally.records);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input input = input_of(data, size);
    cl_segment segment = segment_of(&input, input.bytes[0] % 4);
    uint64_t from = offset_of(&input, 1, segment.size), to = offset_of(&input, 3, segment.size);
    cl_scan scan = check_scan(&segment);
    check_copy(&segment, from, to);
    check_copy(&segment, CL_SEGMENT_HEADER, segment.size);
    check_digest(&segment, to);
    check_searches(&segment, from, to);
    check_searches(&segment, input.bytes[5], segment.size);
    check_take_over(&segment);
    if (segment.size > CL_SEGMENT_HEADER) {
        check_seal(&segment, &scan);
    }
    free(segment.map);
    return 0;
}
