/* Appending from one thread, with plain stores and with compare-and-swap: exact fits, frames across
 * the segment's end, overshoots, rolls, size limits. */
#include "stage.h"

#define ROOM (SMALL - CL_SEGMENT_HEADER)

static void every_value_length_reads_back(bool plain) {
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, plain);
    uint32_t most = LARGEST - CL_FRAME_HEADER;
    uint64_t before = 0;
    for (uint32_t length = 0; length <= most; length += length < 64 ? 1 : length / 7) {
        uint64_t position = append_value(&handle, noise + length, length);
        CHECK(position % CL_FRAME_ALIGN == 0 && position > before);
        before = position;
    }
    test_reader reader;
    cl_record record;
    open_reader(&reader, &handle.log);
    for (uint32_t length = 0; length <= most; length += length < 64 ? 1 : length / 7) {
        CHECK(read_on(&reader, &record) == CL_OK);
        CHECK(record.value_length == length && memcmp(record.value, noise + length, length) == 0);
        CHECK(record.key == NULL && record.type == 0 && record.timestamp_ns == 77);
    }
    CHECK(read_on(&reader, &record) == CL_E_END);
    close_reader(&reader);
    scan_log(&handle);
    end(&place, &handle);
}

static void padding_behind_a_value_is_zero(bool plain) {
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, plain);
    for (uint32_t length = 0; length < 300; length++) {
        uint64_t position = append_value(&handle, noise + length, length);
        const uint8_t *value = handle.writer.segment->bytes + position + CL_FRAME_HEADER;
        CHECK(memcmp(value, noise + length, length) == 0);
        for (uint32_t at = length; at < cl_frame_aligned(length); at++) {
            CHECK(value[at] == 0);
        }
        CHECK(handle.writer.counters.records == length + 1);
    }
    CHECK(scan_log(&handle) == 300);
    end(&place, &handle);
}

/* Each of them acts on the next append, although the appends before it found nothing due. */
static void what_stops_an_append_stops_the_next_one(bool plain) {
    test_place place;
    test_handle handle;
    uint64_t position;
    cl_record_input input = record_of(noise, 24);
    start(&place, &handle, SMALL, plain);
    cl_writer *writer = &handle.writer;
    uint64_t last = append_value(&handle, noise, 24);
    CHECK(writer->fast_below > *handle.log.tail);
    cl_writer_limit(writer, *handle.log.tail, 0); /* the append that passes the limit is the last */
    CHECK(append_value(&handle, noise, 24) > last);
    CHECK(cl_writer_append(writer, &input, &position) == CL_E_LAG);
    cl_writer_limit(writer, UINT64_MAX, 0);
    writer->cycle_end_ns = 0;
    CHECK(cl_writer_append_value(writer, noise, 24, &position) == CL_E_CYCLE);
    writer->cycle_end_ns = INT64_MAX;
    cl_writer_set_largest(writer, 0);
    CHECK(cl_writer_append(writer, &input, &position) == CL_E_TOO_LARGE);
    CHECK(cl_writer_append_value(writer, noise, 24, &position) == CL_E_TOO_LARGE);
    cl_writer_set_largest(writer, LARGEST);
    cl_writer_clear(writer);
    CHECK(writer->fast_below == 0 && append_value(&handle, noise, 24) > last);
    CHECK(cl_writer_close_segment(writer, CL_SEGMENT_CURRENT) == CL_OK);
    CHECK(cl_writer_append(writer, &input, &position) == CL_E_ROLL);
    CHECK(append_value(&handle, noise, 24) == SMALL + CL_SEGMENT_HEADER && scan_log(&handle) == 4);
    end(&place, &handle);
}

static void keys_and_types_read_back(bool plain) {
    static const uint32_t key_lengths[] = {CL_KEYLEN_NONE, 0, 1, 7, 8, 300};
    static const uint32_t types[] = {0, 1, UINT32_MAX};
    static const uint32_t value_lengths[] = {0, 5, 800};
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, plain);
    for (int round = 0; round < 2; round++) {
        test_reader reader;
        cl_record record;
        if (round == 1) {
            open_reader(&reader, &handle.log);
        }
        for (size_t index = 0; index < 6 * 3 * 3; index++) {
            cl_record_input input = {.value = noise,
                                     .value_length = value_lengths[index % 3],
                                     .type = types[index / 3 % 3],
                                     .key = noise + 100,
                                     .key_length = key_lengths[index / 9],
                                     .timestamp_ns = (int64_t)index};
            if (round == 0) {
                append_input(&handle, &input);
                continue;
            }
            CHECK(read_on(&reader, &record) == CL_OK && record.timestamp_ns == (int64_t)index &&
                  record.type == input.type);
            CHECK(record.value_length == input.value_length &&
                  memcmp(record.value, noise, record.value_length) == 0);
            CHECK((record.key == NULL) == (input.key_length == CL_KEYLEN_NONE));
            CHECK(record.key == NULL || (record.key_length == input.key_length &&
                                         memcmp(record.key, noise + 100, record.key_length) == 0));
        }
        if (round == 1) {
            CHECK(read_on(&reader, &record) == CL_E_END);
            close_reader(&reader);
        }
    }
    end(&place, &handle);
}

static void frame_above_the_largest_size_is_refused(bool plain) {
    test_place place;
    test_handle handle;
    uint64_t position;
    start(&place, &handle, SMALL, plain);
    CHECK(handle.writer.largest == LARGEST);
    cl_record_input input = record_of(noise, LARGEST - CL_FRAME_HEADER);
    append_input(&handle, &input);
    uint64_t tail = *handle.log.tail;
    input.value_length++;
    CHECK(cl_writer_append(&handle.writer, &input, &position) == CL_E_TOO_LARGE);
    input.value_length = UINT32_MAX;
    input.key_length = UINT32_MAX - 1;
    CHECK(cl_writer_append(&handle.writer, &input, &position) == CL_E_TOO_LARGE);
    cl_claim claim;
    CHECK(claim_bytes(&handle.writer, LARGEST + 1, &claim) == CL_E_TOO_LARGE);
    cl_rows rows = {.data = noise, .count = 1, .stride = 1, .length = UINT32_MAX};
    size_t done = 0;
    CHECK(cl_writer_append_rows(&handle.writer, &rows, &done, NULL) == CL_E_TOO_LARGE && done == 0);
    CHECK(*handle.log.tail == tail);
    end(&place, &handle);
}

/* The tail meets the segment's end exactly: no padding, a roll is due, and the next frame is the
 * first of the next segment. */
static void exact_fill_needs_no_padding(bool plain) {
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, plain);
    for (uint32_t left = ROOM; left != 0; left -= left < LARGEST ? left : LARGEST) {
        append_value(&handle, noise, (left < LARGEST ? left : LARGEST) - CL_FRAME_HEADER);
    }
    CHECK(*handle.log.tail == cl_tail_pack(0, SMALL) && handle.writer.roll_due == !plain);
    uint64_t position;
    cl_record_input input = record_of(noise, 1);
    CHECK(cl_writer_append(&handle.writer, &input, &position) == CL_E_ROLL);
    CHECK(append_value(&handle, noise, 1) == SMALL + CL_SEGMENT_HEADER);
    CHECK(scan_log(&handle) == (ROOM + LARGEST - 1) / LARGEST + 1);
    cl_segment *segment;
    cl_scan scan;
    CHECK(cl_table_acquire(&handle.log.table, 0, &segment) == CL_OK);
    cl_segment_scan(segment, 0, SMALL, &scan);
    CHECK(scan.skipped == 0 && scan.tally.end == SMALL);
    cl_segment_release(segment);
    end(&place, &handle);
}

static void frame_across_the_end_pads_and_enters_the_next_segment(bool plain) {
    for (uint32_t left = 8; left <= 40; left += 8) {
        test_place place;
        test_handle handle;
        start(&place, &handle, SMALL, plain);
        uint32_t offset = CL_SEGMENT_HEADER;
        while (offset + LARGEST + 64 < SMALL) {
            append_value(&handle, noise, LARGEST - CL_FRAME_HEADER);
            offset += LARGEST;
        }
        append_value(&handle, noise, SMALL - offset - left - CL_FRAME_HEADER);
        CHECK(*handle.log.tail == cl_tail_pack(0, SMALL - left));
        CHECK(append_value(&handle, noise, left - CL_FRAME_HEADER + 1 + 8) ==
              SMALL + CL_SEGMENT_HEADER);
        scan_log(&handle);
        cl_segment *segment;
        cl_scan scan;
        CHECK(cl_table_acquire(&handle.log.table, 0, &segment) == CL_OK);
        cl_segment_scan(segment, 0, SMALL, &scan);
        CHECK(scan.skipped == left && cl_load((uint64_t *)(segment->map + SMALL - left)) ==
                                          cl_skip_cell(segment, SMALL - left, 0));
        cl_segment_release(segment);
        end(&place, &handle);
    }
}

/* If the next segment cannot be created, every append fails, and each handle overshoots the tail at
 * most once. */
static void full_disk_overshoots_once_per_handle_and_segment(void) {
    enum { HANDLES = 3, ATTEMPTS = 1000 };
    test_place place;
    test_handle handles[HANDLES];
    make_place(&place, SMALL);
    for (int index = 0; index < HANDLES; index++) {
        open_handle(&place, &handles[index], false);
        append_value(&handles[index], noise, 5);
    }
    while (cl_writer_rolls_from(&handles[0].writer) == UINT64_MAX) {
        cl_record_input input = record_of(noise, 1000);
        uint64_t position;
        int code = cl_writer_append(&handles[0].writer, &input, &position);
        CHECK(code == CL_OK || code == CL_E_ROLL);
    }
    uint64_t overshot = 0;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        overshot = attempt == 1 ? *handles[0].log.tail : overshot;
        for (int index = 0; index < HANDLES; index++) {
            cl_record_input input = record_of(noise, attempt % 2 ? 5 : 5000);
            uint64_t position;
            CHECK(cl_writer_append(&handles[index].writer, &input, &position) == CL_E_ROLL);
            CHECK(cl_writer_roll(&handles[index].writer, 0, 1, 0) == CL_E_ABSENT);
        }
    }
    CHECK(cl_tail_number(*handles[0].log.tail) == 0 &&
          cl_tail_offset(*handles[0].log.tail) < SMALL + (HANDLES + 1) * LARGEST);
    uint64_t reached = *handles[0].log.tail;
    CHECK(reached == overshot);
    /* A handle opened now knows of the overshoot and adds none. */
    close_handle(&handles[2]);
    open_handle(&place, &handles[2], false);
    cl_record_input input = record_of(noise, 5);
    uint64_t position;
    CHECK(cl_writer_append(&handles[2].writer, &input, &position) == CL_E_ROLL &&
          *handles[0].log.tail == reached);
    /* Room again: one handle rolls, the others notice. */
    make_segment(&place, 1, 0);
    CHECK(cl_writer_roll(&handles[1].writer, 0, 1, 0) == CL_OK &&
          cl_writer_roll(&handles[1].writer, 0, 1, 0) == CL_OK);
    for (int index = 0; index < HANDLES; index++) {
        append_value(&handles[index], noise, 5);
    }
    scan_log(&handles[0]);
    for (int index = 0; index < HANDLES; index++) {
        close_handle(&handles[index]);
    }
    drop_place(&place);
}

static void header_part_of_the_opening_is_written_once(void) {
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, false);
    CHECK(cl_writer_close_segment(&handle.writer, CL_SEGMENT_CURRENT) == CL_OK);
    make_segment(&place, 1, 0);
    uint64_t full = *handle.log.tail;
    int64_t opened_ns = 0;
    CHECK(cl_writer_open_segment(&handle.writer, 1, 1111, &opened_ns) == CL_OK &&
          opened_ns == 1111);
    CHECK(cl_writer_open_segment(&handle.writer, 1, 3333, &opened_ns) == CL_OK &&
          opened_ns == 1111);
    CHECK(cl_writer_roll(&handle.writer, 0, opened_ns, -7) == CL_OK);
    *handle.log.tail = full; /* as a writer finds it that finishes a roll late */
    CHECK(cl_writer_open_segment(&handle.writer, 1, 2222, &opened_ns) == CL_OK &&
          opened_ns == 1111);
    CHECK(cl_writer_roll(&handle.writer, 0, opened_ns, -7) == CL_OK);
    cl_segment *segment;
    cl_header_opened opened;
    CHECK(cl_table_acquire(&handle.log.table, 1, &segment) == CL_OK);
    memcpy(&opened, segment->map + CL_HEADER_OPENED_AT, sizeof opened);
    CHECK(opened.opened_ns == 1111 && opened.cycle == -7 &&
          opened.crc == cl_header_opened_crc(segment->id, 1111, -7));
    cl_segment_release(segment);
    end(&place, &handle);
}

static void segment_can_be_closed_early_at_any_tail(bool plain) {
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, plain);
    for (uint32_t records = 0; records < 5; records++) {
        for (uint32_t record = 0; record < records; record++) {
            append_value(&handle, noise, record * 100);
        }
        CHECK(cl_writer_close_segment(&handle.writer, records + 1) == CL_OK &&
              cl_tail_offset(*handle.log.tail) < SMALL);
        CHECK(cl_writer_close_segment(&handle.writer, CL_SEGMENT_CURRENT) == CL_OK);
        CHECK(cl_writer_close_segment(&handle.writer, records) == CL_OK);
        CHECK(*handle.log.tail == cl_tail_pack(records, SMALL));
        roll_on(&handle);
    }
    CHECK(scan_log(&handle) == 0 + 1 + 2 + 3 + 4);
    end(&place, &handle);
}

/* The smallest records, over many of the smallest segments, each removed after the next is reached.
 */
static void sixteen_byte_frames_roll_over_many_segments(bool plain) {
    enum { SEGMENTS = 300 };
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, plain);
    test_reader reader;
    cl_record record;
    open_reader(&reader, &handle.log);
    uint64_t expected = CL_SEGMENT_HEADER;
    for (uint64_t number = 0; number < SEGMENTS; number++) {
        for (uint32_t index = 0; index < ROOM / CL_FRAME_HEADER; index++) {
            CHECK(append_value(&handle, NULL, 0) == expected);
            expected += CL_FRAME_HEADER;
        }
        expected = (number + 1) * SMALL + CL_SEGMENT_HEADER;
        for (uint32_t index = 0; index < ROOM / CL_FRAME_HEADER; index++) {
            CHECK(read_on(&reader, &record) == CL_OK && record.value_length == 0);
        }
        CHECK(record.position == (number + 1) * SMALL - CL_FRAME_HEADER);
        if (number > 0) {
            cl_table_trim(&handle.log.table, number, 0);
            remove_segment(&place, number - 1);
        }
    }
    CHECK(read_on(&reader, &record) == CL_E_END &&
          handle.writer.counters.records == SEGMENTS * (ROOM / CL_FRAME_HEADER));
    close_reader(&reader);
    end(&place, &handle);
}

/* Frames above 64 KiB claim by compare-and-swap, so that they never push the tail past a segment's
 * end. */
static void frames_above_64_kib_never_overshoot(bool plain) {
    enum { SIZE = 4u << 20 };
    test_place place;
    test_handle handle;
    start(&place, &handle, SIZE, plain);
    uint64_t state = 42;
    uint64_t records = 0;
    while (cl_tail_number(*handle.log.tail) < 4) {
        uint32_t length =
            CL_FRAME_ADD_LIMIT +
            (uint32_t)(next_random(&state) % (SIZE / 8 - CL_FRAME_ADD_LIMIT - CL_FRAME_HEADER));
        cl_record_input input = record_of(noise, length);
        uint64_t position;
        int code = cl_writer_append(&handle.writer, &input, &position);
        CHECK(code == CL_OK || code == CL_E_ROLL);
        CHECK(cl_tail_offset(*handle.log.tail) <= SIZE);
        records += code == CL_OK;
        if (code == CL_E_ROLL) {
            CHECK(cl_tail_offset(*handle.log.tail) == SIZE);
            /* Repeating it does no harm. */
            CHECK(cl_writer_append(&handle.writer, &input, &position) == CL_E_ROLL);
            roll_on(&handle);
        }
    }
    CHECK(scan_log(&handle) == records);
    end(&place, &handle);
}

static void abandoned_claim_is_passed(bool plain) {
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, plain);
    cl_claim claim;
    CHECK(claim_bytes(&handle.writer, 100, &claim) == CL_OK);
    uint64_t after = append_value(&handle, noise, 10);
    cl_writer_abandon(&handle.writer, &claim);
    cl_record_input input = record_of(noise, 84);
    CHECK(cl_writer_publish(&handle.writer, &claim,
                            cl_frame_write(claim.segment, claim.offset, &input),
                            1) == CL_E_ROLLED_BACK);
    test_reader reader;
    cl_record record;
    open_reader(&reader, &handle.log);
    CHECK(read_on(&reader, &record) == CL_OK && record.position == after &&
          read_on(&reader, &record) == CL_E_END);
    close_reader(&reader);
    CHECK(scan_log(&handle) == 1);
    end(&place, &handle);
}

static void refusal_or_failure_refuses_every_call(void) {
    test_place place;
    test_handle handle;
    cl_claim claim;
    uint64_t position;
    size_t done = 0;
    int64_t now_ns = -1;
    start(&place, &handle, SMALL, false);
    cl_record_input input =
        /* The refusal precedes any other check. */
        record_of(noise, UINT32_MAX);
    cl_rows rows = {.data = noise, .count = 1, .stride = 1, .length = UINT32_MAX};
    for (int round = 0; round < 2; round++) {
        int expected = round == 0 ? CL_E_READ_ONLY : CL_E_FAILED;
        handle.log.refusal = round == 0 ? (uint32_t)-CL_E_READ_ONLY : 0;
        if (round == 1) {
            CHECK(cl_log_fail(&handle.log, ENOSPC) == CL_E_FAILED &&
                  cl_log_fail(&handle.log, EIO) == CL_E_FAILED);
        }
        CHECK(cl_writer_append(&handle.writer, &input, &position) == expected);
        CHECK(claim_bytes(&handle.writer, UINT32_MAX / 2, &claim) == expected);
        CHECK(cl_batch_claim(&handle.writer, 16, &now_ns, &claim) == expected);
        CHECK(cl_writer_append_rows(&handle.writer, &rows, &done, NULL) == expected);
        CHECK(cl_writer_append_records(&handle.writer, &input, 1, &done, NULL) == expected);
        CHECK(cl_writer_close_segment(&handle.writer, CL_SEGMENT_CURRENT) == expected);
    }
    CHECK(place.cursors->failed.value == ENOSPC &&
          *handle.log.tail == cl_tail_pack(0, CL_SEGMENT_HEADER));
    end(&place, &handle);
}

/* A claim that is filled and then published shorter: its rest has bytes of the program's own. */
static void rest_of_a_longer_claim_is_passed(bool plain) {
    test_place place;
    test_handle handle;
    cl_claim claim;
    cl_record_input input = record_of(NULL, 100);
    start(&place, &handle, SMALL, plain);
    CHECK(cl_writer_claim(&handle.writer, handle.writer.largest, &input, &claim) == CL_OK);
    memset(claim.segment->bytes + claim.offset + CL_FRAME_HEADER, 0xFF, 100);
    input.value_length = 9;
    CHECK(cl_claim_publish(&handle.writer, &claim, &input) == CL_OK);
    append_value(&handle, "next", 4);
    CHECK(scan_log(&handle) == 2);
    end(&place, &handle);
}

int main(void) {
    fill_noise();
    for (int plain = 0; plain < 2; plain++) {
        every_value_length_reads_back(plain);
        keys_and_types_read_back(plain);
        padding_behind_a_value_is_zero(plain);
        what_stops_an_append_stops_the_next_one(plain);
        frame_above_the_largest_size_is_refused(plain);
        exact_fill_needs_no_padding(plain);
        frame_across_the_end_pads_and_enters_the_next_segment(plain);
        segment_can_be_closed_early_at_any_tail(plain);
        sixteen_byte_frames_roll_over_many_segments(plain);
        frames_above_64_kib_never_overshoot(plain);
        abandoned_claim_is_passed(plain);
        rest_of_a_longer_claim_is_passed(plain);
    }
    full_disk_overshoots_once_per_handle_and_segment();
    header_part_of_the_opening_is_written_once();
    refusal_or_failure_refuses_every_call();
    return 0;
}
