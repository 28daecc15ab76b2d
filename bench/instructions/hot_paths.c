/* The kernel's hot paths, each alone, for a tool that counts instructions: hot_paths PATH COUNT, in
 * a directory of its own, prints which CRC it used and how many nanoseconds an operation took.
 * Without arguments it prints the names of the paths. Only what runs below `measured` is to be
 * counted and timed; the rest prepares and checks. */
#include "scene.h"

#include "backward_scan.h"
#include "claim.h"
#include "frame_decoder.h"
#include "index.h"
#include "native.h"
#include "rows.h"

#define SEGMENT_SIZE (16u << 20)
#define PAGE 4096u
#define VALUE_SIZE 40u
#define VARIED_LARGEST 255u
#define COPY_LIMIT (16u << 10)
#define MOST 100000u /* records: what a segment has room for, whichever the path */

#if defined(__x86_64__)
#define CRC32C                                                                                     \
    "sse42" /* counting tools run it as it is, everywhere; what multiplies without carries they    \
               may not */
#else
#define CRC32C "armv8"
#endif

typedef struct {
    test_scene scene;
    test_reader reader;
    cl_batch batch;
    uint8_t value[PAGE];
    uint64_t walked;
    uint64_t records; /* that were appended to be read */
    uint32_t *sizes; /* of values whose lengths vary */
    const cl_record_input *inputs;
    cl_index index;
    cl_backward_scan backward;
    cl_rows_out rows;
} measurement;

/* One hot path: `prepare` once, then rounds of at most `round` operations, before each of which
 * `before` is called. */
typedef struct {
    const char *name;
    bool pooled;
    uint32_t round;
    void (*prepare)(measurement *, uint32_t count);
    void (*before)(measurement *);
    void (*run)(measurement *, uint32_t count);
} hot_path;

/* Memory whose pages are there: the first touch of a page takes longer than what is timed. */
static void *filled(size_t count, size_t size) {
    void *made = malloc(count * size);
    CHECK(made != NULL);
    return memset(made, 0xff, count * size);
}

static void append(measurement *at, uint32_t count) {
    uint64_t position;
    for (uint32_t index = 0; index < count; index++) {
        CHECK(cl_writer_append_value(&at->scene.handle.writer, at->value, VALUE_SIZE, &position) ==
              CL_OK);
    }
}

/* Through the C API, in the way of examples/native/ticks.c. */
static void append_native(measurement *at, uint32_t count) {
    cl_native_writer native;
    cl_record_input input = record_of(at->value, VALUE_SIZE);
    uint64_t position;
    input.timestamp_ns = -1;
    cl_native_init(&native, &at->scene.handle.writer);
    for (uint32_t index = 0; index < count; index++) {
        CHECK(cl_native_append(&native, &input, &position) == CL_OK);
    }
}

/* Lengths without a pattern: a processor that predicts branches must not learn them. */
static void vary(measurement *at, uint32_t count) {
    at->sizes = filled(count, sizeof *at->sizes);
    for (uint32_t index = 0; index < count; index++) {
        uint32_t mixed = (index + 1) * 0x9E3779B9u;
        mixed = (mixed ^ mixed >> 15) * 0x85EBCA6Bu;
        at->sizes[index] = 8 + (mixed >> 16) % (VARIED_LARGEST - 7);
    }
}

static void append_varied(measurement *at, uint32_t count) {
    uint64_t position;
    for (uint32_t index = 0; index < count; index++) {
        CHECK(cl_writer_append_value(&at->scene.handle.writer, at->value, at->sizes[index],
                                     &position) == CL_OK);
    }
}

static void make_positions(measurement *at, uint32_t count) {
    at->batch.positions = filled(count, sizeof(int64_t));
}

static void append_rows(measurement *at, uint32_t count) {
    cl_rows rows = {
        .data = at->value, .count = count, .stride = 0, .length = VALUE_SIZE, .timestamp_ns = 1};
    size_t done = 0;
    CHECK(cl_writer_append_rows(&at->scene.handle.writer, &rows, &done, at->batch.positions) ==
              CL_OK &&
          done == count);
}

static void make_records(measurement *at, uint32_t count) {
    static cl_record_input records[MOST];
    for (uint32_t index = 0; index < count; index++) {
        records[index] = record_of(at->value, VALUE_SIZE);
        records[index].timestamp_ns = -1;
    }
    at->inputs = records;
    make_positions(at, count);
}

static void append_records(measurement *at, uint32_t count) {
    size_t done = 0;
    CHECK(cl_writer_append_records(&at->scene.handle.writer, at->inputs, count, &done,
                                   at->batch.positions) == CL_OK &&
          done == count);
}

/* A record of VALUE_SIZE bytes with one header of 20. */
static void append_headed(measurement *at, uint32_t count) {
    static const uint8_t encoded[] = "\4\20\0namethe value it has";
    const cl_headers headers = {.bytes = encoded, .length = CL_HEADER_FIXED + 4 + 16};
    const cl_record_input input = record_of(at->value, VALUE_SIZE);
    cl_writer *writer = &at->scene.handle.writer;
    uint32_t length =
        cl_headers_size(&headers) + cl_frame_aligned((uint32_t)cl_input_length(&input));
    int64_t position;
    for (uint32_t index = 0; index < count; index++) {
        int64_t now_ns = -1;
        cl_claim claim;
        CHECK(cl_batch_claim(writer, length, &now_ns, &claim) == CL_OK);
        CHECK(cl_batch_append(writer, &claim, &input, &headers, 1, now_ns, &position) == CL_OK);
    }
}

static void find_headers(measurement *at, uint32_t count) {
    cl_headers found;
    cl_frame_cursor cursor = cl_frame_cursor_at(at->reader.held, at->reader.held->map,
                                                CL_SEGMENT_HEADER, at->reader.held->size);
    for (uint32_t index = 0; index < count; index++) {
        CHECK(cl_frame_read(&cursor) == CL_E_ROLLED_BACK);
        cl_frame_next(&cursor);
        CHECK(cl_headers_find(cursor.segment, cursor.bytes, cursor.offset, &found) == CL_OK &&
              found.length != 0);
        CHECK(cl_frame_read(&cursor) == CL_OK);
        cl_frame_next(&cursor);
    }
}

static void claim_and_publish(measurement *at, uint32_t count) {
    cl_record_input input = record_of(at->value, VALUE_SIZE);
    cl_writer *writer = &at->scene.handle.writer;
    cl_claim claim;
    for (uint32_t index = 0; index < count; index++) {
        CHECK(cl_writer_claim(writer, writer->largest, &input, &claim) == CL_OK);
        CHECK(cl_writer_publish(writer, &claim, cl_frame_write(claim.segment, claim.offset, &input),
                                1) == CL_OK);
    }
}

static void open_to_read(measurement *at, uint32_t count) {
    at->records = count;
    open_reader(&at->reader, &at->scene.handle.log);
}

static void append_what_is_read(measurement *at, uint32_t count) {
    append(at, count);
    open_to_read(at, count);
}

static void append_headed_to_read(measurement *at, uint32_t count) {
    append_headed(at, count);
    open_to_read(at, count);
}

static void append_varied_to_read(measurement *at, uint32_t count) {
    vary(at, count);
    append_varied(at, count);
    open_to_read(at, count);
}

static void read_each(measurement *at, uint32_t count) {
    cl_record record;
    for (uint32_t index = 0; index < count; index++) {
        CHECK(cl_reader_next_short(&at->reader.reader, &record));
    }
}

static void fill_columns(measurement *at, uint32_t count, uint32_t largest) {
    at->batch = (cl_batch){.positions = filled(count, sizeof(int64_t)),
                           .timestamps_ns = filled(count, sizeof(int64_t)),
                           .types = filled(count, sizeof(uint32_t)),
                           .keyed = filled(count, 1),
                           .value_ends = filled(count, sizeof(int64_t)),
                           .key_ends = filled(count, sizeof(int64_t)),
                           .data = filled(count + 1, largest),
                           .keys = filled(count, 1),
                           .data_room = (size_t)count * largest,
                           .keys_room = count};
}

static void make_columns(measurement *at, uint32_t count) {
    append_what_is_read(at, count);
    fill_columns(at, count, VALUE_SIZE);
}

static void make_varied_columns(measurement *at, uint32_t count) {
    append_varied_to_read(at, count);
    fill_columns(at, count, VARIED_LARGEST);
}

static void read_batch(measurement *at, uint32_t count) {
    at->batch.count = at->batch.data_size = at->batch.keys_size = 0;
    at->batch.most = count;
    int code = cl_reader_batch(&at->reader.reader, &at->batch);
    CHECK((code == CL_OK || code == CL_E_FULL) && at->batch.count == count);
}

static void append_what_is_walked(measurement *at, uint32_t count) {
    append(at, count);
    at->walked = CL_SEGMENT_HEADER;
}

static void walk(measurement *at, uint32_t count) {
    cl_watch watch = {.position = UINT64_MAX};
    uint64_t limit = at->walked + (uint64_t)count * (CL_FRAME_HEADER + VALUE_SIZE);
    CHECK(cl_walk(&at->scene.handle.log, at->scene.segment, &at->walked, limit, &watch) == CL_OK &&
          at->walked == limit);
}

#define FRAME_STEP (CL_FRAME_HEADER + VALUE_SIZE)
#define INDEX_SPACING 256u

static void append_keyed(measurement *at, uint32_t count) {
    cl_record_input input = record_of(at->value, VALUE_SIZE);
    input.key = "key";
    input.key_length = 3;
    for (uint32_t index = 0; index < count; index++) {
        append_input(&at->scene.handle, &input);
    }
}

static void append_keyed_to_read(measurement *at, uint32_t count) {
    append_keyed(at, count);
    open_to_read(at, count);
}

static void read_native(measurement *at, uint32_t count) {
    cl_native_reader native;
    cl_record record;
    cl_native_reader_init(&native, &at->reader.reader, NULL);
    for (uint32_t index = 0; index < count; index++) {
        CHECK(cl_native_next(&native, &record) == CL_OK);
    }
}

static void read_general(measurement *at, uint32_t count) {
    cl_record record;
    for (uint32_t index = 0; index < count; index++) {
        CHECK(cl_reader_next(&at->reader.reader, &record) == CL_OK);
    }
}

static void make_keyed_columns(measurement *at, uint32_t count) {
    make_columns(at, count);
    memset(at->scene.segment->map + CL_SEGMENT_HEADER, 0, (size_t)count * FRAME_STEP);
    cl_store(&at->scene.handle.place->cursors->tail.value, cl_tail_pack(0, CL_SEGMENT_HEADER));
    append_keyed(at, count);
    free(at->batch.keys);
    at->batch.keys = filled(count, 3);
    at->batch.keys_room = (size_t)count * 3;
}

static void scan(measurement *at, uint32_t count) {
    cl_scan found;
    uint64_t limit = at->walked + (uint64_t)count * FRAME_STEP;
    cl_segment_scan(at->scene.segment, at->walked, limit, &found);
    CHECK(found.code == CL_OK && found.tally.records == count);
    at->walked = limit;
}

/* The buffer of a dead pool, which ends after `count` frames. */
static void take_over(measurement *at, uint32_t count) {
    uint64_t *behind = (uint64_t *)(at->scene.buffer + at->walked + (uint64_t)count * FRAME_STEP);
    uint64_t cell = *behind, start = at->walked;
    *behind = 0;
    CHECK(cl_segment_take_over(at->scene.segment, at->scene.buffer, &at->walked) == 0);
    CHECK(at->walked == start + (uint64_t)count * FRAME_STEP);
    *behind = cell;
}

static cl_reader stepper(measurement *at, bool careful) {
    cl_reader reader;
    cl_reader_init(&reader, &at->scene.handle.log, NULL);
    cl_reader_enter(&reader, at->scene.segment, at->walked);
    reader.careful = careful;
    return reader;
}

static void step_over(measurement *at, uint32_t count) {
    cl_reader reader = stepper(at, false);
    uint64_t passed;
    CHECK(cl_reader_step_over(&reader, at->scene.segment->size, count, &passed) == CL_OK &&
          passed == count);
    at->walked = reader.offset;
}

static void append_what_is_indexed(measurement *at, uint32_t count) {
    append_what_is_walked(at, count);
    size_t room = cl_index_room(SEGMENT_SIZE, INDEX_SPACING);
    static cl_index_entry entries[SEGMENT_SIZE / CL_FRAME_HEADER / INDEX_SPACING + 1];
    at->index = (cl_index){.entries = entries,
                           .room = room,
                           .spacing = INDEX_SPACING,
                           .offset = CL_SEGMENT_HEADER,
                           .largest_ns = INT64_MIN};
}

static void make_index(measurement *at, uint32_t count) {
    cl_reader reader = stepper(at, true);
    uint64_t limit = at->index.offset + (uint64_t)count * FRAME_STEP;
    CHECK(cl_index_extend(&at->index, &reader, limit) == CL_E_ROLL && at->index.offset == limit);
}

static void stand_at_the_end(measurement *at, uint32_t count) {
    static uint32_t offsets[MOST];
    memset(offsets, 0xff, sizeof offsets);
    make_columns(at, count);
    at->backward = (cl_backward_scan){.offsets = offsets, .room = MOST};
    at->reader.reader.offset = CL_SEGMENT_HEADER + (uint64_t)count * FRAME_STEP;
}

static void scan_back(measurement *at, uint32_t count) {
    uint64_t from = at->reader.reader.offset - (uint64_t)count * FRAME_STEP;
    CHECK(cl_backward_scan_fill(&at->reader.reader, &at->backward, from) == CL_OK &&
          at->backward.count == count);
}

static void read_back(measurement *at, uint32_t count) {
    cl_record record;
    scan_back(at, count);
    for (uint32_t index = 0; index < count; index++) {
        CHECK(cl_backward_scan_previous(&at->reader.reader, &at->backward, &record) == CL_OK);
    }
}

static void read_back_batch(measurement *at, uint32_t count) {
    scan_back(at, count);
    at->batch.count = at->batch.data_size = at->batch.keys_size = 0;
    at->batch.most = count;
    CHECK(cl_backward_scan_batch(&at->reader.reader, &at->backward, &at->batch) == CL_E_FULL &&
          at->batch.count == count);
}

static void make_rows(measurement *at, uint32_t count) {
    static int64_t columns[2][MOST];
    static int32_t ends[MOST];
    static uint8_t values[MOST * VALUE_SIZE];
    memset(columns, 0xff, sizeof columns);
    memset(ends, 0xff, sizeof ends);
    memset(values, 0xff, sizeof values);
    append_what_is_walked(at, count);
    at->rows = (cl_rows_out){.positions = columns[0],
                             .timestamps_us = columns[1],
                             .value_ends = ends,
                             .values = values,
                             .values_room = sizeof values};
}

static void decode(measurement *at, uint32_t count) {
    cl_segment *segment = at->scene.segment;
    uint64_t limit = at->walked + (uint64_t)count * FRAME_STEP;
    cl_frame_cursor cursor = cl_frame_cursor_at(segment, segment->map, at->walked, limit);
    at->rows.count = at->rows.values_size = 0;
    at->rows.most = count + 1;
    CHECK(cl_frames_decode(&cursor, 0, limit, &at->rows) == CL_E_ROLL && at->rows.count == count);
    at->walked = cursor.offset;
}

/* Timestamps that never look like a frame's cell. */
static void append_what_is_old(measurement *at, uint32_t count) {
    for (uint32_t index = 0; index < count; index++) {
        append_value(&at->scene.handle, at->value, VALUE_SIZE);
    }
    at->walked = CL_SEGMENT_HEADER;
}

/* Over frames of which none has its CRC. */
static void resume(measurement *at, uint32_t count) {
    cl_segment damaged = *at->scene.segment;
    damaged.seed ^= 1;
    damaged.size = at->walked + (uint64_t)count * FRAME_STEP;
    CHECK(cl_segment_resume(&damaged, at->walked) == damaged.size);
    at->walked = damaged.size;
}

static void land(measurement *at, uint32_t count) {
    uint64_t to = CL_SEGMENT_HEADER + (uint64_t)count * FRAME_STEP;
    CHECK(cl_segment_landing(at->scene.segment, to) == to);
}

static void append_a_page(measurement *at) {
    append_value(&at->scene.handle, at->value, PAGE - CL_FRAME_HEADER);
}

static void commit(measurement *at, uint32_t count) {
    CHECK(count == 1 && cl_commit(&at->scene.handle.log, UINT64_MAX) == CL_OK);
}

static const hot_path hot_paths[] = {
    {"append-pooled", true, MOST, NULL, NULL, append},
    {"append-pooled-varied", true, MOST, vary, NULL, append_varied},
    {"append-mapped", false, MOST, NULL, NULL, append},
    {"append-native-pooled", true, MOST, NULL, NULL, append_native},
    {"append-native-mapped", false, MOST, NULL, NULL, append_native},
    {"append-rows", false, MOST, make_positions, NULL, append_rows},
    {"append-records", false, MOST, make_records, NULL, append_records},
    {"append-headers", false, MOST, NULL, NULL, append_headed},
    {"read-headers", false, MOST, append_headed_to_read, NULL, find_headers},
    {"claim-publish", false, MOST, NULL, NULL, claim_and_publish},
    {"read", false, MOST, append_what_is_read, NULL, read_each},
    {"read-varied", false, MOST, append_varied_to_read, NULL, read_each},
    {"read-native", false, MOST, append_what_is_read, NULL, read_native},
    {"read-general", false, MOST, append_what_is_read, NULL, read_general},
    {"read-keyed", false, MOST, append_keyed_to_read, NULL, read_general},
    {"read-batch", false, MOST, make_columns, NULL, read_batch},
    {"read-batch-varied", false, MOST, make_varied_columns, NULL, read_batch},
    {"read-batch-keyed", false, MOST, make_keyed_columns, NULL, read_batch},
    {"read-back", false, MOST, stand_at_the_end, NULL, read_back},
    {"read-back-batch", false, MOST, stand_at_the_end, NULL, read_back_batch},
    {"walk", false, MOST, append_what_is_walked, NULL, walk},
    {"step-over", false, MOST, append_what_is_walked, NULL, step_over},
    {"index", false, MOST, append_what_is_indexed, NULL, make_index},
    {"scan", false, MOST, append_what_is_walked, NULL, scan},
    {"take-over", true, MOST, append_what_is_walked, NULL, take_over},
    {"decode", false, MOST, make_rows, NULL, decode},
    {"resume", false, MOST, append_what_is_old, NULL, resume},
    {"landing", false, MOST, append_what_is_walked, NULL, land},
    {"commit-page", true, 1, NULL, append_a_page, commit},
};

/* What is counted is everything below this function, which therefore stays one. */
void measured(const hot_path *path, measurement *at, uint32_t count);
__attribute__((noinline)) void measured(const hot_path *path, measurement *at, uint32_t count) {
    path->run(at, count);
}

/* Returns the nanoseconds of an operation. */
static double run_path(const hot_path *path, uint32_t count) {
    static measurement at;
    int64_t elapsed_ns = 0;
    start_sized(&at.scene, SEGMENT_SIZE, path->pooled, COPY_LIMIT);
    memset(at.scene.segment->bytes + CL_SEGMENT_HEADER, 0, SEGMENT_SIZE - CL_SEGMENT_HEADER);
    memset(at.value, 'v', sizeof at.value);
    if (path->prepare != NULL) {
        path->prepare(&at, count + 1);
    }
    for (uint32_t done = 0;
         done <= count;) { /* the first operation finds everything cold, and is not counted */
        uint32_t round = done == 0                        ? 1
                         : count + 1 - done < path->round ? count + 1 - done
                                                          : path->round;
        if (path->before != NULL) {
            path->before(&at);
        }
        if (done == 0) {
            path->run(&at, round);
        } else {
            int64_t start_ns = cl_clock_monotonic_ns();
            measured(path, &at, round);
            elapsed_ns += cl_clock_monotonic_ns() - start_ns;
        }
        done += round;
    }
    uint64_t committed = at.scene.place.cursors->committed.value;
    CHECK(committed == (path->run == commit ? tail_position(&at.scene) : 0) &&
          tail_position(&at.scene) < SEGMENT_SIZE);
    CHECK(cl_commit(&at.scene.handle.log, UINT64_MAX) == CL_OK &&
          scan_log(&at.scene.handle) == count + 1);
    if (at.records != 0) {
        close_reader(&at.reader);
    }
    void *columns[] = {at.batch.positions, at.batch.timestamps_ns, at.batch.types,
                       at.batch.keyed,     at.batch.value_ends,    at.batch.key_ends,
                       at.batch.data,      at.batch.keys,          at.sizes};
    for (size_t index = 0; index < sizeof columns / sizeof *columns; index++) {
        free(columns[index]);
    }
    end(&at.scene);
    return (double)elapsed_ns / count;
}

int main(int argc, char **argv) {
    if (argc == 1) {
        for (size_t index = 0; index < sizeof hot_paths / sizeof *hot_paths; index++) {
            puts(hot_paths[index].name);
        }
        return 0;
    }
    CHECK(argc == 3 && cl_crc32c_choose(CRC32C) == CL_OK);
    long count = strtol(argv[2], NULL, 10);
    CHECK(count > 0 && count < (long)MOST);
    for (size_t index = 0; index < sizeof hot_paths / sizeof *hot_paths; index++) {
        if (strcmp(argv[1], hot_paths[index].name) == 0) {
            double elapsed_ns = run_path(&hot_paths[index], (uint32_t)count);
            printf("%s %.2f\n", cl_crc32c_name(), elapsed_ns);
            return 0;
        }
    }
    fprintf(stderr, "no hot path is called %s\n", argv[1]);
    return 2;
}
