/* Marks of producers, which an appender searches in the file after a crash. */
#include "fuzz.h"

MUTATES_FRAMES

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input input = input_of(data, size);
    cl_segment segment = segment_of(&input, input.bytes[0] % 4);
    uint64_t limit = offset_of(&input, 1, segment.size), offset = CL_SEGMENT_HEADER;
    size_t most = input.bytes[3] % 5u + 1u, count;
    cl_marked found[5];
    int code = CL_OK;
    while (offset < limit) { /* as `marks_of` in producers_file.py */
        uint64_t before = offset;
        count = cl_marks_read(&segment, &offset, limit, found, most, &code);
        REQUIRE(count <= most && offset >= before && offset <= segment.size);
        for (size_t at = 0; at < count; at++) {
            uint64_t behind = found[at].position - segment.base;
            REQUIRE(behind >= before + CL_MARK_LENGTH && behind < limit);
            cl_frame_cursor frame = cl_frame_cursor_at(&segment, segment.map, behind, segment.size);
            REQUIRE(cl_frame_read(&frame) == CL_OK);
        }
        if (code != CL_OK) {
            offset = cl_segment_resume(&segment, offset);
        } else if (count < most) {
            REQUIRE(offset >= limit);
        }
        REQUIRE(offset > before);
    }
    free(segment.map);
    return 0;
}
