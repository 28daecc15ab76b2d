/* What a reader returns for the frames of a segment: damage, SKIP frames, limits, batches, waiting.
 */
#include "kernel_test.h"

typedef struct {
    test_place place;
    test_handle handle;
    test_reader reader;
    cl_segment *segment;
} test_scene;

static void start(test_scene *scene, bool pooled) {
    make_place(&scene->place, SMALL);
    open_handle(&scene->place, &scene->handle, pooled);
    open_reader(&scene->reader, &scene->handle.log);
    scene->segment = scene->reader.held;
}

static void end(test_scene *scene) {
    close_reader(&scene->reader);
    close_handle(&scene->handle);
    drop_place(&scene->place);
}

static void rewind_to(test_scene *scene, uint64_t offset) {
    cl_reader_init(&scene->reader.reader, &scene->handle.log, &scene->reader.watch);
    cl_reader_enter(&scene->reader.reader, scene->segment, offset);
}

static void flipped_bit_of_a_frame_is_damage(void) {
    test_scene scene;
    cl_record record;
    start(&scene, false);
    cl_record_input input = {.value = "value",
                             .value_length = 5,
                             .key = "key",
                             .key_length = 3,
                             .type = 9,
                             .timestamp_ns = 1};
    append_input(&scene.handle, &input);
    append_value(&scene.handle, "next", 4);
    uint8_t *frame = scene.segment->map + CL_SEGMENT_HEADER;
    for (uint32_t bit = 0; bit < 32 * 8; bit++) {
        rewind_to(&scene, 0);
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        int code = read_on(&scene.reader, &record);
        /* Flipping the CLAIMED bit turns the frame into a claim of an owner that does not exist;
         * the reader rolls it back. */
        CHECK(code == CL_E_DAMAGE || code == CL_E_BUSY ||
              (code == CL_OK && record.value_length == 4 && bit == 28));
        if (bit == 28) {
            memcpy(frame, &(uint64_t){cl_frame_write(scene.segment, CL_SEGMENT_HEADER, &input)}, 8);
        } else {
            CHECK(code == CL_E_DAMAGE && scene.reader.reader.offset == CL_SEGMENT_HEADER);
            frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
    rewind_to(&scene, 0);
    CHECK(read_on(&scene.reader, &record) == CL_OK && record.key_length == 3 &&
          memcmp(record.value, "value", 5) == 0);
    end(&scene);
}

/* Words that no writer makes, each with a matching CRC: the reader refuses the word itself. */
static void impossible_words_are_damage(void) {
    static const uint32_t words[] = {
        1,
        8,
        15,
        CL_WORD_EXT | 16,
        CL_WORD_EXT | 23,
        CL_WORD_BATCH | 24,
        CL_WORD_LENGTH,
        SMALL,
        SMALL / 8 + 1,
        SMALL - CL_SEGMENT_HEADER + 8,
        CL_WORD_SKIP | 1,
        CL_WORD_SKIP | 7,
        CL_WORD_SKIP | CL_WORD_EXT | 16,
        CL_WORD_SKIP | CL_WORD_CLAIMED | 16,
        CL_WORD_SKIP | (SMALL - CL_SEGMENT_HEADER + 8),
        CL_WORD_CLAIMED,
        CL_WORD_CLAIMED | 8,
        CL_WORD_CLAIMED | CL_WORD_LENGTH,
    };
    test_scene scene;
    cl_record record;
    uint64_t step;
    start(&scene, false);
    append_value(&scene.handle, "x", 1);
    for (size_t at = 0; at < sizeof words / sizeof *words; at++) {
        uint32_t length = words[at] & CL_WORD_LENGTH;
        size_t covered =
            words[at] & CL_WORD_SKIP || length < 8 || length > SMALL - CL_SEGMENT_HEADER
                ? 0
                : length - 8;
        uint32_t crc = cl_frame_crc(scene.segment->seed, CL_SEGMENT_HEADER, words[at],
                                    scene.segment->map + CL_SEGMENT_HEADER + 8, covered);
        memcpy(scene.segment->map + CL_SEGMENT_HEADER, &(uint64_t){cl_cell(words[at], crc)}, 8);
        CHECK(cl_record_read(scene.segment, scene.segment->map, CL_SEGMENT_HEADER, &record,
                             &step) == CL_E_DAMAGE);
        rewind_to(&scene, 0);
        CHECK(read_on(&scene.reader, &record) == CL_E_DAMAGE);
    }
    /* A key that is longer than its frame, with a valid CRC. */
    cl_record_input input = {
        .value = "value", .value_length = 5, .key = "key", .key_length = 3, .timestamp_ns = 1};
    uint32_t key_length = 9;
    cl_frame_write(scene.segment, CL_SEGMENT_HEADER, &input);
    memcpy(scene.segment->map + CL_SEGMENT_HEADER + CL_FRAME_KEYLEN, &key_length,
           sizeof key_length);
    uint32_t word = CL_WORD_EXT | 32;
    uint32_t crc = cl_frame_crc(scene.segment->seed, CL_SEGMENT_HEADER, word,
                                scene.segment->map + CL_SEGMENT_HEADER + 8, 24);
    memcpy(scene.segment->map + CL_SEGMENT_HEADER, &(uint64_t){cl_cell(word, crc)}, 8);
    CHECK(cl_record_read(scene.segment, scene.segment->map, CL_SEGMENT_HEADER, &record, &step) ==
          CL_E_DAMAGE);
    end(&scene);
}

static void frame_copied_from_elsewhere_is_damage(void) {
    test_scene scene;
    cl_record record;
    start(&scene, false);
    append_value(&scene.handle, "moved", 5);
    append_value(&scene.handle, "moved", 5);
    memcpy(scene.segment->map + CL_SEGMENT_HEADER + 24, scene.segment->map + CL_SEGMENT_HEADER, 24);
    CHECK(read_on(&scene.reader, &record) == CL_OK &&
          read_on(&scene.reader, &record) == CL_E_DAMAGE);
    cl_segment recycled = *scene.segment;
    recycled.seed = cl_crc32c_seed(recycled.id + 1);
    uint64_t step;
    CHECK(cl_record_read(&recycled, recycled.map, CL_SEGMENT_HEADER, &record, &step) ==
          CL_E_DAMAGE);
    end(&scene);
}

static void skip_frames_of_every_length_are_passed(void) {
    test_scene scene;
    cl_record record;
    start(&scene, false);
    static const uint32_t lengths[] = {8, 9, 15, 16, 100, 4096};
    for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        uint32_t offset =
            cl_tail_offset(cl_add(scene.handle.log.tail, cl_frame_aligned(lengths[at])));
        /* A zombie may still write the body of its SKIP. */
        memset(scene.segment->map + offset, 0xEE, lengths[at]);
        uint64_t cell = cl_skip_cell(scene.segment, offset, lengths[at]);
        memcpy(scene.segment->map + offset, &cell, sizeof cell);
        append_value(&scene.handle, &lengths[at], 4);
    }
    for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        CHECK(read_on(&scene.reader, &record) == CL_OK &&
              memcmp(record.value, &lengths[at], 4) == 0);
    }
    CHECK(read_on(&scene.reader, &record) == CL_E_END);
    uint64_t skip = scene.reader.reader.offset;
    CHECK(cl_writer_close_segment(&scene.handle.writer, CL_SEGMENT_CURRENT) == CL_OK);
    CHECK(cl_reader_next(&scene.reader.reader, &record) == CL_E_ROLL);
    scene.segment->map[skip + 4] ^= 1; /* the CRC of a SKIP is checked, too */
    rewind_to(&scene, skip);
    CHECK(read_on(&scene.reader, &record) == CL_E_DAMAGE);
    end(&scene);
}

static void reader_stops_at_its_limit_and_at_flushed(void) {
    test_scene scene;
    cl_record record;
    start(&scene, false);
    for (int index = 0; index < 4; index++) {
        append_value(&scene.handle, "12345678", 8);
    }
    scene.reader.reader.limit = CL_SEGMENT_HEADER + 48;
    CHECK(read_on(&scene.reader, &record) == CL_OK && read_on(&scene.reader, &record) == CL_OK);
    CHECK(read_on(&scene.reader, &record) == CL_E_END);
    rewind_to(&scene, 0);
    scene.reader.reader.watermark = &scene.place.cursors->flushed.value;
    CHECK(read_on(&scene.reader, &record) == CL_E_END);
    scene.place.cursors->flushed.value = CL_SEGMENT_HEADER + 24;
    CHECK(read_on(&scene.reader, &record) == CL_OK && read_on(&scene.reader, &record) == CL_E_END);
    end(&scene);
}

static void damaged_frame_above_uncertain_from_is_the_end(void) {
    test_scene scene;
    cl_record record;
    start(&scene, false);
    append_value(&scene.handle, "1", 1);
    uint64_t torn = append_value(&scene.handle, "2", 1);
    scene.segment->map[torn + 16] ^= 1;
    scene.handle.log.uncertain_from = torn;
    CHECK(read_on(&scene.reader, &record) == CL_OK && read_on(&scene.reader, &record) == CL_E_END);
    scene.handle.log.uncertain_from = torn + 8;
    CHECK(read_on(&scene.reader, &record) == CL_E_DAMAGE);
    end(&scene);
}

/* The segment file of a pooled log in another process: frames above `committed` may be incomplete.
 */
static void uncommitted_frame_of_a_pooled_log_is_the_end(void) {
    test_scene scene;
    cl_record record;
    start(&scene, true);
    append_value(&scene.handle, "1", 1);
    append_value(&scene.handle, "2", 1);
    scene.segment->map[CL_SEGMENT_HEADER + 16] ^= 1;
    scene.reader.reader.log->tail = NULL;
    CHECK(read_on(&scene.reader, &record) == CL_E_END);
    scene.place.cursors->committed.value = CL_SEGMENT_HEADER + 24;
    CHECK(read_on(&scene.reader, &record) == CL_E_DAMAGE);
    scene.segment->map[CL_SEGMENT_HEADER + 16] ^= 1;
    uint64_t claimed = cl_cell(CL_WORD_CLAIMED | 24, 1024);
    memcpy(scene.segment->map + CL_SEGMENT_HEADER + 24, &claimed, sizeof claimed);
    CHECK(read_on(&scene.reader, &record) == CL_OK && read_on(&scene.reader, &record) == CL_E_END);
    /* A committed frame is never a claim. */
    scene.place.cursors->committed.value = CL_SEGMENT_HEADER + 48;
    CHECK(read_on(&scene.reader, &record) == CL_E_DAMAGE);
    scene.handle.log.tail = &scene.handle.log.private_tail;
    end(&scene);
}

/* Zeros below the watermark are lost bytes, not the claim of a dead writer: the reader must not
 * roll them back. */
static void zeros_below_appended_are_damage(void) {
    test_scene scene;
    cl_record record;
    uint64_t appended;
    start(&scene, false);
    append_value(&scene.handle, "1", 1);
    append_value(&scene.handle, "2", 1);
    memset(scene.segment->map + CL_SEGMENT_HEADER, 0, 24);
    /* Rolls the hole back, because `appended` is still below it. */
    CHECK(cl_log_appended(&scene.handle.log, &appended) == CL_OK);
    CHECK(read_on(&scene.reader, &record) == CL_OK && record.position == CL_SEGMENT_HEADER + 24);
    memset(scene.segment->map + CL_SEGMENT_HEADER, 0, 24);
    rewind_to(&scene, 0);
    CHECK(read_on(&scene.reader, &record) == CL_E_DAMAGE &&
          cell_at(&scene.handle, CL_SEGMENT_HEADER) == 0);
    end(&scene);
}

static void resume_finds_the_next_valid_frame(void) {
    test_scene scene;
    start(&scene, false);
    uint64_t damaged = append_value(&scene.handle, "damaged, and longer than the others", 35);
    uint64_t next = append_value(&scene.handle, "whole", 5);
    scene.segment->map[damaged] ^= 0x40;
    CHECK(cl_segment_resume(scene.segment, damaged) == next &&
          cl_segment_resume(scene.segment, next) == SMALL);
    /* A damaged SKIP may be one cell: the next frame begins right behind it. */
    CHECK(cl_segment_resume(scene.segment, next - CL_FRAME_SMALLEST) == next);
    CHECK(cl_segment_resume(scene.segment, damaged + 3) == next);
    cl_scan scan;
    cl_segment_scan(scene.segment, 0, SMALL, &scan);
    CHECK(scan.code == CL_E_DAMAGE && scan.offset == damaged && scan.tally.records == 0);
    cl_segment_scan(scene.segment, next, SMALL, &scan);
    CHECK(scan.code == CL_E_END && scan.tally.records == 1 && scan.tally.end == next + 24);
    CHECK(cl_segment_nonzero(scene.segment, next + 24, SMALL) == SMALL);
    scene.segment->map[SMALL - 1] = 1;
    CHECK(cl_segment_nonzero(scene.segment, next + 24, SMALL) == SMALL - 1);
    scene.segment->map[SMALL - 1] = 0;
    end(&scene);
}

static void landing_is_the_end_of_the_frame_that_has_the_offset(void) {
    test_scene scene;
    start(&scene, false);
    uint64_t first =
        append_value(&scene.handle, "a record of some length, in which an offset can lie", 51);
    uint64_t second = append_value(&scene.handle, "whole", 5);
    uint64_t end_at = second + 24;
    CHECK(cl_segment_landing(scene.segment, first) == first &&
          cl_segment_landing(scene.segment, second) == second);
    CHECK(cl_segment_landing(scene.segment, first + 8) == second &&
          cl_segment_landing(scene.segment, end_at) == end_at);
    /* No frame is there to pass. */
    CHECK(cl_segment_landing(scene.segment, end_at + 8) == end_at + 8);
    scene.segment->map[first] ^= 0x40;
    CHECK(cl_segment_landing(scene.segment, end_at) == end_at);
    uint64_t cell = cl_skip_cell(scene.segment, (uint32_t)end_at, 0);
    memcpy(scene.segment->map + end_at, &cell, sizeof cell);
    CHECK(cl_segment_landing(scene.segment, end_at) == end_at &&
          cl_segment_landing(scene.segment, end_at + 8) == SMALL);
    memset(scene.segment->map + end_at, 0, sizeof cell);
    end(&scene);
}

static void seal_is_written_once_after_the_last_commit(void) {
    test_scene scene;
    cl_header_seal seal;
    start(&scene, false);
    for (int64_t stamp = 5; stamp > 2; stamp--) {
        cl_record_input input = record_of("x", 1);
        input.timestamp_ns = stamp;
        append_input(&scene.handle, &input);
    }
    CHECK(cl_segment_seal(scene.segment, 100, NULL) == CL_E_BUSY &&
          cl_segment_sealed(scene.segment, &seal) == CL_E_ABSENT);
    CHECK(cl_writer_close_segment(&scene.handle.writer, CL_SEGMENT_CURRENT) == CL_OK);
    CHECK(cl_segment_seal(scene.segment, 100, NULL) == CL_OK &&
          cl_segment_seal(scene.segment, 999, NULL) == CL_OK);
    CHECK(cl_segment_sealed(scene.segment, &seal) == CL_OK && seal.first_sequence == 100 &&
          seal.record_count == 3);
    CHECK(seal.first_timestamp_ns == 5 && seal.last_timestamp_ns == 3 &&
          seal.largest_timestamp_ns == 5);
    CHECK(seal.end == CL_SEGMENT_HEADER + 72);
    scene.segment->map[CL_HEADER_SEAL_AT + 8] ^= 1;
    CHECK(cl_segment_sealed(scene.segment, &seal) == CL_E_ABSENT);
    end(&scene);
}

typedef struct {
    int64_t positions[64], stamps[64], value_ends[64], key_ends[64];
    uint32_t types[64];
    uint8_t keyed[64], data[256 + CL_VIEW_INLINE], keys[64];
} test_columns;

static cl_batch batch_of(test_columns *columns, size_t most, size_t data_room, size_t keys_room) {
    return (cl_batch){.positions = columns->positions,
                      .timestamps_ns = columns->stamps,
                      .types = columns->types,
                      .keyed = columns->keyed,
                      .value_ends = columns->value_ends,
                      .key_ends = columns->key_ends,
                      .data = columns->data,
                      .keys = columns->keys,
                      .data_room = data_room,
                      .keys_room = keys_room,
                      .most = most};
}

static void full_batch_resumes_where_it_stopped(void) {
    static const struct {
        size_t most, data_room, keys_room;
    } rooms[] = {{64, 256, 64}, {1, 256, 64}, {5, 256, 64},
                 {64, 19, 64},  {64, 256, 5}, {64, 19, 5}};
    for (size_t at = 0; at < sizeof rooms / sizeof *rooms; at++) {
        test_scene scene;
        test_columns columns;
        start(&scene, false);
        for (uint32_t index = 0; index < 20; index++) {
            cl_record_input input = {.value = "0123456789abcdefghi",
                                     .value_length = index,
                                     .key = "abcde",
                                     .timestamp_ns = index,
                                     .key_length = index % 3 == 0 ? index % 6 : CL_KEYLEN_NONE,
                                     .type = index % 2};
            append_input(&scene.handle, &input);
        }
        uint32_t seen = 0;
        int code = CL_E_FULL;
        while (code == CL_E_FULL) {
            cl_batch batch =
                batch_of(&columns, rooms[at].most, rooms[at].data_room, rooms[at].keys_room);
            code = cl_reader_batch(&scene.reader.reader, &batch);
            CHECK(batch.count > 0 || code == CL_E_END);
            for (size_t row = 0; row < batch.count; row++, seen++) {
                int64_t from = row == 0 ? 0 : columns.value_ends[row - 1];
                int64_t key_from = row == 0 ? 0 : columns.key_ends[row - 1];
                CHECK(columns.value_ends[row] - from == (int64_t)seen &&
                      columns.stamps[row] == (int64_t)seen);
                CHECK(memcmp(columns.data + from, "0123456789abcdefghi", seen) == 0);
                CHECK(columns.keyed[row] == (seen % 3 == 0) && columns.types[row] == seen % 2);
                CHECK(columns.key_ends[row] - key_from ==
                      (seen % 3 == 0 ? (int64_t)(seen % 6) : 0));
            }
        }
        CHECK(code == CL_E_END && seen == 20);
        end(&scene);
    }
}

static size_t batch_from_start(test_scene *scene, int *code) {
    test_columns columns;
    cl_batch batch = batch_of(&columns, 64, 256, 0);
    cl_reader_enter(&scene->reader.reader, scene->segment, 0);
    *code = cl_reader_batch(&scene->reader.reader, &batch);
    for (size_t row = 0; row < batch.count; row++) {
        CHECK(memcmp(columns.data + row * 8, "12345678", 8) == 0 &&
              columns.value_ends[row] == (int64_t)(row + 1) * 8);
    }
    return batch.count;
}

static void batch_ends_where_single_reads_would(void) {
    enum { FRAME = 24, RECORDS = 6 };
    test_scene scene;
    int code;
    start(&scene, false);
    cl_reader *reader = &scene.reader.reader;
    for (int index = 0; index < RECORDS; index++) {
        append_value(&scene.handle, "12345678", 8);
    }
    CHECK(batch_from_start(&scene, &code) == RECORDS && code == CL_E_END);
    for (uint64_t seen = 0; seen < RECORDS; seen++) {
        uint64_t stop = CL_SEGMENT_HEADER + seen * FRAME;
        reader->limit = stop;
        CHECK(batch_from_start(&scene, &code) == seen && code == CL_E_END);
        reader->limit = UINT64_MAX;
        reader->watermark = &scene.place.cursors->flushed.value;
        scene.place.cursors->flushed.value = stop;
        CHECK(batch_from_start(&scene, &code) == seen && code == CL_E_END);
        reader->watermark = NULL;
        scene.segment->map[stop + CL_FRAME_HEADER] ^= 1;
        CHECK(batch_from_start(&scene, &code) == seen && code == CL_E_DAMAGE &&
              reader->offset == stop);
        reader->log->uncertain_from = stop;
        CHECK(batch_from_start(&scene, &code) == seen && code == CL_E_END);
        reader->log->uncertain_from = UINT64_MAX;
        scene.segment->map[stop + CL_FRAME_HEADER] ^= 1;
    }
    uint64_t skip = cl_skip_cell(scene.segment, CL_SEGMENT_HEADER + FRAME, FRAME);
    memcpy(scene.segment->map + CL_SEGMENT_HEADER + FRAME, &skip, sizeof skip);
    CHECK(batch_from_start(&scene, &code) == RECORDS - 1 && code == CL_E_END);
    CHECK(cl_writer_close_segment(&scene.handle.writer, CL_SEGMENT_CURRENT) == CL_OK);
    CHECK(batch_from_start(&scene, &code) == RECORDS - 1 && code == CL_E_ROLL);
    end(&scene);
}

/* The buffer holds nothing of what was committed before it was attached. */
static void batch_reads_the_file_then_the_buffer(void) {
    static uint8_t buffer[SMALL];
    test_scene scene;
    int code;
    start(&scene, true);
    append_value(&scene.handle, "12345678", 8);
    append_value(&scene.handle, "12345678", 8);
    CHECK(cl_commit(&scene.handle.log, UINT64_MAX) == CL_OK);
    scene.segment->bytes = buffer;
    append_value(&scene.handle, "12345678", 8);
    scene.reader.reader.from_buffer = true;
    CHECK(batch_from_start(&scene, &code) == 3 && code == CL_E_END);
    scene.segment->bytes = scene.segment->map;
    end(&scene);
}

static void record_larger_than_the_batch_is_left_for_read(void) {
    test_scene scene;
    test_columns columns;
    cl_record record;
    start(&scene, false);
    append_value(&scene.handle, columns.data, 200);
    cl_batch batch = batch_of(&columns, 64, 199, 0);
    CHECK(cl_reader_batch(&scene.reader.reader, &batch) == CL_E_FULL && batch.count == 0);
    CHECK(read_on(&scene.reader, &record) == CL_OK && record.value_length == 200);
    end(&scene);
}

static void *append_soon(void *argument) {
    test_handle *handle = argument;
    cl_sleep_ns(2 * MILLISECOND);
    append_value(handle, "news", 4);
    return NULL;
}

static void every_idle_strategy_wakes_up_for_an_append(void) {
    for (int idle = CL_IDLE_SPIN; idle <= CL_IDLE_BLOCK; idle++) {
        test_scene scene;
        test_handle appender;
        pthread_t thread;
        cl_record record;
        start(&scene, false);
        open_handle(&scene.place, &appender, false);
        scene.reader.reader.announces = true;
        CHECK(!cl_reader_wait(&scene.reader.reader, (cl_idle)idle, MILLISECOND) &&
              read_on(&scene.reader, &record) == CL_E_END);
        CHECK(pthread_create(&thread, NULL, append_soon, &appender) == 0);
        int64_t began_ns = cl_clock_monotonic_ns();
        while (!cl_reader_wait(&scene.reader.reader, (cl_idle)idle, PATIENCE_NS)) {
        }
        CHECK(cl_clock_monotonic_ns() - began_ns < PATIENCE_NS / 2);
        CHECK(read_on(&scene.reader, &record) == CL_OK && record.value_length == 4);
        pthread_join(thread, NULL);
        close_handle(&appender);
        end(&scene);
    }
}

static void reader_that_backs_off_sleeps_in_the_end(void) {
    test_scene scene;
    cl_record record;
    start(&scene, false);
    cl_line *waiters = &scene.place.cursors->waiters;
    cl_reader *reader = &scene.reader.reader;
    CHECK(read_on(&scene.reader, &record) == CL_E_END);
    CHECK(!cl_reader_wait(reader, CL_IDLE_BACKOFF, 20 * MILLISECOND) && waiters->value == 0);
    reader->announces = true; /* and its next wait for the same record does not begin anew */
    CHECK(!cl_reader_wait(reader, CL_IDLE_BACKOFF, MILLISECOND) && waiters->value == 1);
    waiters->value = 0;
    append_value(&scene.handle, "news", 4);
    CHECK(cl_reader_wait(reader, CL_IDLE_BACKOFF, MILLISECOND) && waiters->value == 0);
    end(&scene);
}

typedef struct {
    cl_cursors *cursors;
    uint32_t *asleep;
} sleeper;

static void *sleep_until_an_append(void *argument) {
    sleeper *task = argument;
    uint32_t seen = cl_sleeper_announce(task->cursors);
    cl_add32(task->asleep, 1);
    cl_sleeper_wait(task->cursors, seen, PATIENCE_NS);
    return NULL;
}

static void one_wake_up_reaches_all_sleepers(void) {
    enum { SLEEPERS = 8 };
    test_scene scene;
    pthread_t threads[SLEEPERS];
    uint32_t asleep = 0;
    start(&scene, false);
    sleeper task = {scene.place.cursors, &asleep};
    for (int each = 0; each < SLEEPERS; each++) {
        CHECK(pthread_create(&threads[each], NULL, sleep_until_an_append, &task) == 0);
    }
    while (cl_load32(&asleep) < SLEEPERS) {
        cl_sleep_ns(MILLISECOND);
    }
    int64_t began_ns = cl_clock_monotonic_ns();
    append_value(&scene.handle, "news", 4);
    for (int each = 0; each < SLEEPERS; each++) {
        pthread_join(threads[each], NULL);
    }
    CHECK(cl_clock_monotonic_ns() - began_ns < PATIENCE_NS / 2);
    end(&scene);
}

/* A reader behind an open claim must resolve it, and therefore polls instead of sleeping until the
 * timeout. */
static void reader_behind_a_claim_polls_again_soon(void) {
    for (int idle = CL_IDLE_SPIN; idle <= CL_IDLE_BLOCK; idle++) {
        test_scene scene;
        cl_claim claim;
        cl_record record;
        start(&scene, false);
        CHECK(claim_bytes(&scene.handle.writer, 40, &claim) == CL_OK);
        CHECK(read_on(&scene.reader, &record) == CL_E_BUSY);
        int64_t began_ns = cl_clock_monotonic_ns();
        CHECK(!cl_reader_wait(&scene.reader.reader, (cl_idle)idle, PATIENCE_NS));
        CHECK(cl_clock_monotonic_ns() - began_ns < PATIENCE_NS / 2);
        end(&scene);
    }
}

int main(void) {
    flipped_bit_of_a_frame_is_damage();
    impossible_words_are_damage();
    frame_copied_from_elsewhere_is_damage();
    skip_frames_of_every_length_are_passed();
    reader_stops_at_its_limit_and_at_flushed();
    damaged_frame_above_uncertain_from_is_the_end();
    uncommitted_frame_of_a_pooled_log_is_the_end();
    zeros_below_appended_are_damage();
    resume_finds_the_next_valid_frame();
    landing_is_the_end_of_the_frame_that_has_the_offset();
    seal_is_written_once_after_the_last_commit();
    full_batch_resumes_where_it_stopped();
    batch_ends_where_single_reads_would();
    batch_reads_the_file_then_the_buffer();
    record_larger_than_the_batch_is_left_for_read();
    every_idle_strategy_wakes_up_for_an_append();
    reader_that_backs_off_sleeps_in_the_end();
    one_wake_up_reaches_all_sleepers();
    reader_behind_a_claim_polls_again_soon();
    return 0;
}
