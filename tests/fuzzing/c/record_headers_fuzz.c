/* Headers of records, which a reader finds in front of them. */
#include "fuzz.h"

MUTATES_FRAMES

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input input = input_of(data, size);
    cl_segment segment = segment_of(&input, input.bytes[0] % 4);
    cl_frame_cursor at = cl_frame_cursor_at(&segment, segment.map, CL_SEGMENT_HEADER, segment.size);
    int code;
    while ((code = cl_frame_read(&at)) == CL_OK || code == CL_E_ROLLED_BACK) {
        cl_headers found;
        if (code == CL_E_ROLLED_BACK) {
            REQUIRE(!cl_headers_damaged(at) || cl_headers_begin(at));
        } else if (cl_headers_find(&segment, segment.map, at.offset, &found) == CL_OK &&
                   found.length != 0) {
            const uint8_t *end = segment.map + at.offset;
            REQUIRE(found.bytes >= segment.map + CL_SEGMENT_HEADER);
            REQUIRE(found.length <= CL_HEADERS_LARGEST && found.bytes + found.length < end);
        }
        cl_frame_next(&at);
    }
    free(segment.map);
    return 0;
}
