/* Columns that a caller hands over, whose offsets may lie: laid out as frames, and read again. */
#include "frame_decoder.h"
#include "fuzz.h"
#include "stage.h"

#define ROWS_MOST 32u

/* Mostly small offsets, which ascend. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    uint32_t state = seed;
    size = LLVMFuzzerMutate(data, size, most);
    int64_t offset = 0;
    if (next_number(&state) % 4 != 0) {
        for (size_t at = CHOICES; at + 8 <= size && at < CHOICES + 2 * 8 * (ROWS_MOST + 1);
             at += 8) {
            offset = (at - CHOICES) / 8 % (ROWS_MOST + 1) == 0 ? 0 : offset + data[at] % 24;
            if (next_number(&state) % 64 != 0) {
                memcpy(data + at, &offset, sizeof offset);
            }
        }
    }
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t offsets[2][ROWS_MOST + 1] = {{0}}, timestamps[ROWS_MOST];
    uint32_t types[ROWS_MOST];
    uint8_t keyed[ROWS_MOST];
    fuzz_input input = input_of(data, size);
    size_t head = input.size < sizeof offsets ? input.size : sizeof offsets;
    size_t count = input.bytes[0] % (ROWS_MOST + 1u);
    memcpy(offsets, input.frames, head);
    size_t bytes = input.size - head, values_size = bytes / 2;
    uint8_t *values = malloc(values_size + 1), *keys = malloc(bytes - values_size + 1);
    REQUIRE(values != NULL && keys != NULL);
    memcpy(values + 1, input.frames + head, values_size);
    memcpy(keys + 1, input.frames + head + values_size, bytes - values_size);
    for (size_t row = 0; row < ROWS_MOST; row++) {
        keyed[row] = input.bytes[2 + row % 4] >> row % 8 & 1;
        types[row] = input.bytes[6 + row % 4] % 3u;
        timestamps[row] = (int64_t)row - input.bytes[10];
    }
    cl_stage_rows rows = {.values = values + 1,
                          .value_offsets = offsets[0],
                          .values_size = values_size,
                          .keys = keys + 1,
                          .key_offsets = input.bytes[1] & 1 ? offsets[1] : NULL,
                          .keys_size = bytes - values_size,
                          .keyed = keyed,
                          .types = input.bytes[1] & 2 ? types : NULL,
                          .timestamps_ns = input.bytes[1] & 4 ? timestamps : NULL,
                          .timestamp_ns = 7,
                          .count = count};
    uint64_t size_of_segment = CL_SEGMENT_HEADER + choice16(&input, 11) / 8u * 8u;
    fuzz_input nothing = {.frames = data, .size = 0};
    cl_segment segment = segment_of(&nothing, 1);
    segment.size = segment.extent = size_of_segment;
    free(segment.map);
    segment.map = segment.bytes = calloc(1, size_of_segment);
    REQUIRE(segment.map != NULL);
    uint64_t offset = CL_SEGMENT_HEADER;
    size_t done = 0;
    cl_tally tally = {.end = CL_SEGMENT_HEADER};
    int code = cl_stage_lay(&segment, &offset, size_of_segment, &rows, &done, &tally);
    REQUIRE(done <= count && (code != CL_OK || done == count));
    REQUIRE(code == CL_OK || code == CL_E_FULL || code == CL_E_TOO_LARGE || code == CL_E_DAMAGE);
    cl_scan scan;
    cl_segment_scan(&segment, 0, offset, &scan);
    REQUIRE(scan.code == CL_OK && scan.offset == offset && scan.tally.records == done);
    REQUIRE(memcmp(&scan.tally, &tally, sizeof tally) == 0);
    free(segment.map);
    free(values);
    free(keys);
    return 0;
}
