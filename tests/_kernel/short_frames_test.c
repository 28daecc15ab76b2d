/* Short frames with their CRC computed in line: the same result as the general code, and any other
 * frame is left to it. */
#include "stage.h"

#define MOST_VALUES 320u

/* Appends one record of each length, up to and beyond the limit of short frames. */
static void append_lengths(test_handle *handle) {
    for (uint32_t length = 0; length < MOST_VALUES; length++) {
        append_value(handle, (const char *)noise + length, length);
    }
}

static void each_length_reads_as_with_the_general_code(void) {
    test_place place;
    test_handle handle;
    test_reader reader, other;
    cl_record record, same;
    start(&place, &handle, 4 * SMALL, false);
    append_lengths(&handle);
    open_reader(&reader, &handle.log);
    open_reader(&other, &handle.log);
    uint32_t taken = 0;
    for (uint32_t length = 0; length < MOST_VALUES; length++) {
        CHECK(read_on(&other, &same) == CL_OK);
        if (cl_reader_next_short(&reader.reader, &record)) {
            taken++;
        } else {
            CHECK(!cl_crc32c_steps || length >= 256);
            CHECK(read_on(&reader, &record) == CL_OK);
        }
        CHECK(record.position == same.position && record.timestamp_ns == same.timestamp_ns &&
              record.type == 0 && record.key == NULL);
        CHECK(record.value == same.value && record.value_length == length &&
              memcmp(record.value, noise + length, length) == 0);
    }
    CHECK(taken == (cl_crc32c_steps ? 256 : 0) && !cl_reader_next_short(&reader.reader, &record) &&
          read_on(&reader, &record) == CL_E_END);
    close_reader(&other);
    close_reader(&reader);
    end(&place, &handle);
}

/* A log of one record of ten bytes, and a reader at that record. */
static void start_with_one(test_place *place, test_handle *handle, test_reader *reader) {
    start(place, handle, SMALL, false);
    append_value(handle, "0123456789", 10);
    open_reader(reader, &handle->log);
}

/* Checks that neither the single read nor the batch read takes the frame there. */
static void check_not_taken(test_reader *reader, uint64_t offset) {
    const cl_segment *segment = reader->reader.segment;
    cl_record record;
    cl_batch columns = {.positions = (int64_t[1]){-1}, .most = 1};
    cl_frame_cursor at = cl_frame_cursor_at(segment, segment->map, offset, segment->size);
    reader->reader.offset = offset;
    CHECK(!cl_reader_next_short(&reader->reader, &record) && reader->reader.offset == offset);
    cl_batch_read(&columns, &at);
    CHECK(columns.count == 0 && at.offset == offset && columns.positions[0] == -1);
}

static void frame_that_is_no_short_record_is_not_taken(void) {
    test_place place;
    test_handle handle;
    test_reader reader;
    cl_record record;
    start_with_one(&place, &handle, &reader);
    uint8_t *frame = reader.held->map + CL_SEGMENT_HEADER;
    uint64_t cell, kept;
    memcpy(&kept, frame, sizeof kept);
    for (uint32_t bit = 0; bit < 26 * 8; bit++) {
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        check_not_taken(&reader, CL_SEGMENT_HEADER);
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    static const uint64_t cells[] = {0,  CL_WORD_CLAIMED | 26, CL_WORD_SKIP | 32, CL_WORD_EXT | 32,
                                     15, CL_WORD_LENGTH,       UINT64_MAX};
    for (size_t index = 0; index < sizeof cells / sizeof *cells; index++) {
        cell = cells[index];
        memcpy(frame, &cell, sizeof cell);
        check_not_taken(&reader, CL_SEGMENT_HEADER);
    }
    memcpy(frame, &kept, sizeof kept);
    /* A frame past the segment's end; its CRC would be read from behind the mapping. */
    uint64_t last = SMALL - CL_FRAME_HEADER;
    cell = cl_cell(26, 0);
    memcpy(reader.held->map + last, &cell, sizeof cell);
    check_not_taken(&reader, last);
    check_not_taken(&reader, SMALL);
    reader.reader.offset = CL_SEGMENT_HEADER;
    CHECK(cl_reader_next_short(&reader.reader, &record) == cl_crc32c_steps);
    close_reader(&reader);
    end(&place, &handle);
}

static bool takes_next(cl_reader *reader) {
    cl_record record;
    cl_reader_plan(reader);
    return cl_reader_next_short(reader, &record);
}

static void frame_that_is_not_visible_is_not_taken(void) {
    test_place place;
    test_handle handle;
    test_reader reader;
    start_with_one(&place, &handle, &reader);
    cl_reader *of = &reader.reader;
    of->limit = CL_SEGMENT_HEADER;
    CHECK(!takes_next(of));
    of->limit = CL_SEGMENT_HEADER + 8; /* the general code reads a frame that begins below it */
    CHECK(!takes_next(of));
    of->limit = UINT64_MAX;
    of->watermark = &of->log->cursors->flushed.value;
    CHECK(!takes_next(of));
    of->watermark = NULL;
    of->from_buffer = true;
    CHECK(!takes_next(of));
    of->from_buffer = false;
    CHECK(takes_next(of) == cl_crc32c_steps);
    of->offset = CL_SEGMENT_HEADER;
    cl_reader_leave(of);
    CHECK(!takes_next(of));
    close_reader(&reader);
    end(&place, &handle);
}

/* Backward: the same records from the last one down. An odd offset ends the run. */
static void backward_batch_reads_the_frames_in_reverse(void) {
    enum { COUNT = 40 };
    test_place place;
    test_handle handle;
    test_reader reader;
    cl_record record;
    uint32_t offsets[COUNT + 1];
    int64_t positions[COUNT], timestamps[COUNT], ends[COUNT];
    uint8_t data[COUNT * COUNT + CL_VIEW_INLINE];
    start(&place, &handle, SMALL, false);
    for (uint32_t length = 0; length < COUNT; length++) {
        append_value(&handle, noise, length);
    }
    open_reader(&reader, &handle.log);
    for (uint32_t at = 0; at < COUNT; at++) {
        offsets[at] = (uint32_t)reader.reader.offset;
        CHECK(read_on(&reader, &record) == CL_OK);
    }
    for (uint32_t most = 1; most <= COUNT; most++) {
        cl_batch columns = {.positions = positions,
                            .timestamps_ns = timestamps,
                            .value_ends = ends,
                            .data = data,
                            .data_room = COUNT * COUNT,
                            .most = most};
        size_t took = cl_batch_read_back(&columns, reader.held, reader.held->map, offsets, COUNT);
        CHECK(took == most && columns.count == most);
        for (size_t row = 0; row < took; row++) {
            uint32_t length = COUNT - 1 - (uint32_t)row;
            CHECK(positions[row] == (int64_t)(reader.held->base + offsets[length]));
            CHECK(ends[row] - (row == 0 ? 0 : ends[row - 1]) == (int64_t)length &&
                  memcmp(data + ends[row] - length, noise, length) == 0);
        }
    }
    cl_batch columns = {.positions = positions,
                        .timestamps_ns = timestamps,
                        .value_ends = ends,
                        .data = data,
                        .data_room = 38 + 37,
                        .most = COUNT};
    offsets[COUNT] = offsets[COUNT - 1] | 1;
    CHECK(cl_batch_read_back(&columns, reader.held, reader.held->map, offsets, COUNT + 1) == 0);
    CHECK(cl_batch_read_back(&columns, reader.held, reader.held->map, offsets, COUNT - 1) == 2);
    close_reader(&reader);
    end(&place, &handle);
}

/* Frames of equal length with one of another length among them: which of them a batch takes, for
 * each limit on frames and on bytes, and with each of them damaged. */
enum { ALIKE = 70, OTHER = 50, ROOM = ALIKE * 256, GUARD = 0xA5 };

static uint32_t length_of(uint32_t row, uint32_t length) {
    return row == OTHER ? length ^ 1 : length;
}

static void check_batch(const cl_segment *segment, uint32_t length, uint32_t most, uint32_t room,
                        uint32_t expected) {
    static int64_t positions[ALIKE], timestamps[ALIKE], ends[ALIKE];
    static uint8_t data[ROOM + CL_VIEW_INLINE];
    memset(data, GUARD, sizeof data);
    cl_batch columns = {.positions = positions,
                        .timestamps_ns = timestamps,
                        .value_ends = ends,
                        .data = data,
                        .data_room = room,
                        .most = most};
    cl_frame_cursor at =
        cl_frame_cursor_at(segment, segment->map, CL_SEGMENT_HEADER, segment->size);
    cl_batch_read(&columns, &at);
    CHECK(columns.count == expected);
    uint32_t offset = CL_SEGMENT_HEADER, end = 0;
    for (uint32_t row = 0; row < expected; row++) {
        uint32_t value_length = length_of(row, length);
        CHECK(positions[row] == (int64_t)(segment->base + offset) &&
              timestamps[row] == (int64_t)row + 1);
        CHECK(memcmp(data + end, noise + row * 300, value_length) == 0);
        end += value_length;
        CHECK(ends[row] == (int64_t)end);
        offset += cl_frame_aligned(CL_FRAME_HEADER + value_length);
    }
    CHECK(at.offset == offset && columns.data_size == end);
    for (uint32_t byte = room + 8; byte < sizeof data; byte++) {
        CHECK(data[byte] == GUARD);
    }
}

static void batch_of_equal_frames_stops_at_limit_and_damage(void) {
    static const uint32_t damaged[] = {0, 1, 2, 3, 17, 18, 19, 34, 49, 50, 51, 69};
    test_place place;
    test_handle handle;
    test_reader reader;
    start(&place, &handle, SMALL, false);
    open_reader(&reader, &handle.log);
    for (uint32_t length = 0; length < 256; length++) {
        uint32_t offsets[ALIKE], offset = CL_SEGMENT_HEADER, size = 0;
        for (uint32_t row = 0; row < ALIKE; row++) {
            cl_record_input input = record_of(noise + row * 300, length_of(row, length));
            input.timestamp_ns = row + 1;
            offsets[row] = offset;
            uint64_t cell = cl_frame_write(reader.held, offset, &input);
            memcpy(reader.held->map + offset, &cell, sizeof cell);
            offset += cl_frame_aligned((uint32_t)cl_input_length(&input));
            size += length_of(row, length);
        }
        for (uint32_t most = 1; most <= ALIKE; most++) {
            check_batch(reader.held, length, most, ROOM, most);
        }
        for (uint32_t less = 0; less < 8 && less <= length; less++) {
            check_batch(reader.held, length, ALIKE, size - less, less == 0 ? ALIKE : ALIKE - 1);
        }
        for (size_t index = 0; index < sizeof damaged / sizeof *damaged; index++) {
            uint8_t *frame = reader.held->map + offsets[damaged[index]];
            /* The frame's length, a byte of its CRC, and the last byte of the value (of the
             * timestamp if the value is empty). */
            uint8_t *bytes[] = {frame, frame + 4,
                                frame + CL_FRAME_HEADER - 1 + length_of(damaged[index], length)};
            for (size_t which = 0; which < 3; which++) {
                *bytes[which] ^= 4;
                check_batch(reader.held, length, ALIKE, ROOM, damaged[index]);
                *bytes[which] ^= 4;
            }
        }
        memset(reader.held->map + CL_SEGMENT_HEADER, 0, offset - CL_SEGMENT_HEADER);
    }
    close_reader(&reader);
    end(&place, &handle);
}

static void rows_are_written_as_single_records(void) {
    test_place place;
    test_handle handle;
    test_reader reader;
    cl_record record;
    start(&place, &handle, 4 * SMALL, false);
    open_reader(&reader, &handle.log);
    for (uint32_t length = 0; length < MOST_VALUES; length++) {
        int64_t positions[3];
        size_t done = 0;
        cl_rows rows = {
            .data = noise, .count = 3, .stride = length + 1, .length = length, .timestamp_ns = 77};
        CHECK(cl_writer_append_rows(&handle.writer, &rows, &done, positions) == CL_OK && done == 3);
        for (uint32_t row = 0; row < 3; row++) {
            const uint8_t *value = noise + row * rows.stride;
            cl_record_input input = record_of(value, length);
            input.timestamp_ns = 77;
            uint64_t cell, offset = reader.reader.offset;
            memcpy(&cell, reader.held->map + offset, sizeof cell);
            CHECK(read_on(&reader, &record) == CL_OK && record.timestamp_ns == 77 &&
                  (int64_t)record.position == positions[row]);
            CHECK(record.value_length == length && memcmp(record.value, value, length) == 0);
            CHECK(cl_frame_write(reader.held, (uint32_t)offset, &input) == cell);
        }
    }
    close_reader(&reader);
    end(&place, &handle);
}

int main(void) {
    static const char *const names[] = {"portable", "sse42", "sse42-pclmul", "armv8",
                                        "armv8-pmull"};
    fill_noise();
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        if (cl_crc32c_choose(names[index]) == CL_OK) {
            CHECK(cl_crc32c_steps == (index != 0));
            each_length_reads_as_with_the_general_code();
            frame_that_is_no_short_record_is_not_taken();
            frame_that_is_not_visible_is_not_taken();
            backward_batch_reads_the_frames_in_reverse();
            batch_of_equal_frames_stops_at_limit_and_damage();
            rows_are_written_as_single_records();
        }
    }
    return 0;
}
