/* Copying frames for another machine: which frames a copy has, and that it reads and writes no
 * byte outside of its range. */
#include "kernel_test.h"
#include "marked.h"
#include "scene.h"

/* Records of several lengths, rolled back claims, headers, and an open claim at the end. Returns
 * where the valid frames end. */
static uint64_t fill(test_scene *scene) {
    uint8_t value[300];
    cl_claim claim;
    start(scene, false, 0);
    memset(value, 'v', sizeof value);
    for (uint32_t length = 0; length < sizeof value; length += 37) {
        append_value(&scene->handle, value, length);
        CHECK(claim_bytes(&scene->handle.writer, CL_FRAME_HEADER + length, &claim) == CL_OK);
        cl_writer_abandon(&scene->handle.writer, &claim);
    }
    const cl_headers headers = {.bytes = (const uint8_t *)"\1\1\0kv", .length = 5};
    const cl_record_input input = record_of(value, 9);
    const cl_mark mark = {.producer = 7, .number = 8};
    uint64_t position;
    CHECK(cl_append_marked(&scene->handle.writer, &input, &headers, &mark, &position) == CL_OK);
    uint64_t end = tail_position(scene);
    CHECK(claim_bytes(&scene->handle.writer, 100, &claim) == CL_OK);
    return end;
}

/* Copies into memory of exactly the room that is needed, which the sanitizer guards. */
static int copy(const cl_segment *segment, uint64_t from, uint64_t to, uint64_t *end) {
    uint8_t *bytes = malloc(to - from + (to == from));
    uint32_t crc;
    CHECK(bytes != NULL);
    int code = cl_segment_copy(segment, from, to, bytes, end, &crc);
    CHECK(*end >= from && *end <= to && memcmp(bytes, segment->map + from, *end - from) == 0);
    CHECK(crc == cl_crc32c(0, bytes, *end - from));
    free(bytes);
    return code;
}

static void copy_has_the_whole_frames_of_any_range(void) {
    test_scene scene;
    cl_scan scan;
    uint64_t reached, last = fill(&scene), whole = CL_SEGMENT_HEADER;
    for (uint64_t to = whole; to <= last; to += CL_FRAME_ALIGN) {
        cl_segment_scan(scene.segment, whole, to, &scan);
        whole = scan.offset == to ? to : whole;
        int code = copy(scene.segment, CL_SEGMENT_HEADER, to, &reached);
        CHECK(reached == whole && code == (reached == to ? CL_OK : CL_E_ABSENT));
    }
    CHECK(whole == last);
    CHECK(copy(scene.segment, CL_SEGMENT_HEADER, SMALL, &reached) == CL_E_BUSY && reached == last);
    CHECK(copy(scene.segment, SMALL, SMALL, &reached) == CL_OK && reached == SMALL);
    end(&scene);
}

static void copy_ends_before_any_damage(void) {
    test_scene scene;
    cl_scan scan;
    uint64_t reached, last = fill(&scene);
    for (uint64_t at = CL_SEGMENT_HEADER; at < last; at++) {
        scene.segment->map[at] ^= 0x10;
        cl_segment_scan(scene.segment, CL_SEGMENT_HEADER, last, &scan);
        copy(scene.segment, CL_SEGMENT_HEADER, last, &reached);
        CHECK(reached == (scan.offset < last ? scan.offset : last));
        scene.segment->map[at] ^= 0x10;
    }
    end(&scene);
}

static void first_frame_is_not_split(void) {
    test_scene scene;
    cl_claim claim;
    uint8_t value[1000] = {0};
    start(&scene, false, 0);
    uint64_t first = append_value(&scene.handle, value, sizeof value);
    uint64_t second = tail_position(&scene);
    CHECK(cl_first_frame_end(scene.segment, first, first) == first);
    CHECK(cl_first_frame_end(scene.segment, first, first + 8) == second);
    CHECK(cl_first_frame_end(scene.segment, first, second + 8) == second + 8);
    CHECK(claim_bytes(&scene.handle.writer, 100, &claim) == CL_OK);
    CHECK(cl_first_frame_end(scene.segment, second, second + 8) == second + 8);
    cl_writer_abandon(&scene.handle.writer, &claim);
    CHECK(cl_first_frame_end(scene.segment, second, second + 8) == tail_position(&scene));
    /* A length that no record has, and a SKIP whose CRC does not match. */
    uint64_t cell = cl_cell(cl_frame_largest(SMALL) + CL_FRAME_ALIGN, 0);
    memcpy(scene.segment->map + first, &cell, sizeof cell);
    CHECK(cl_first_frame_end(scene.segment, first, first + 8) == first + 8);
    scene.segment->map[second + 4] ^= 1;
    CHECK(cl_first_frame_end(scene.segment, second, second + 8) == second + 8);
    end(&scene);
}

int main(void) {
    copy_has_the_whole_frames_of_any_range();
    copy_ends_before_any_damage();
    first_frame_is_not_split();
    return 0;
}
