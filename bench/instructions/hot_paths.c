/* The kernel's hot paths, each alone, for a tool that counts instructions: hot_paths PATH COUNT, in
 * a directory of its own, prints which CRC it used. Without arguments it prints the names of the
 * paths. Only what runs below `measured` is to be counted; the rest prepares and checks. */
#include "scene.h"
#include "short_frames.h"

#define SEGMENT_SIZE (16u << 20)
#define PAGE 4096u
#define VALUE_SIZE 40u
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

static void append(measurement *at, uint32_t count) {
    uint64_t position;
    for (uint32_t index = 0; index < count; index++) {
        CHECK(cl_writer_append_value(&at->scene.handle.writer, at->value, VALUE_SIZE, &position) ==
              CL_OK);
    }
}

static void append_rows(measurement *at, uint32_t count) {
    static int64_t positions[MOST];
    cl_rows rows = {
        .data = at->value, .count = count, .stride = 0, .length = VALUE_SIZE, .timestamp_ns = 1};
    size_t done = 0;
    CHECK(cl_writer_append_rows(&at->scene.handle.writer, &rows, &done, positions) == CL_OK &&
          done == count);
}

static void claim_and_publish(measurement *at, uint32_t count) {
    cl_record_input input = record_of(at->value, VALUE_SIZE);
    cl_writer *writer = &at->scene.handle.writer;
    cl_claim claim;
    for (uint32_t index = 0; index < count; index++) {
        CHECK(cl_writer_claim(writer, CL_FRAME_HEADER + VALUE_SIZE, &claim) == CL_OK);
        CHECK(cl_writer_publish(writer, &claim, cl_frame_write(claim.segment, claim.offset, &input),
                                1) == CL_OK);
    }
}

static void append_what_is_read(measurement *at, uint32_t count) {
    append(at, count);
    at->records = count;
    open_reader(&at->reader, &at->scene.handle.log);
}

static void read_each(measurement *at, uint32_t count) {
    cl_record record;
    for (uint32_t index = 0; index < count; index++) {
        CHECK(cl_short_frame_next(&at->reader.reader, &record));
    }
}

static void make_columns(measurement *at, uint32_t count) {
    append_what_is_read(at, count);
    at->batch = (cl_batch){.positions = calloc(count, sizeof(int64_t)),
                           .timestamps_ns = calloc(count, sizeof(int64_t)),
                           .types = calloc(count, sizeof(uint32_t)),
                           .keyed = calloc(count, 1),
                           .value_ends = calloc(count, sizeof(int64_t)),
                           .key_ends = calloc(count, sizeof(int64_t)),
                           .data = calloc(count, VALUE_SIZE),
                           .keys = calloc(count, 1),
                           .data_room = (size_t)count * VALUE_SIZE,
                           .keys_room = count};
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

static void append_a_page(measurement *at) {
    append_value(&at->scene.handle, at->value, PAGE - CL_FRAME_HEADER);
}

static void commit(measurement *at, uint32_t count) {
    CHECK(count == 1 && cl_commit(&at->scene.handle.log, UINT64_MAX) == CL_OK);
}

static const hot_path hot_paths[] = {
    {"append-pooled", true, MOST, NULL, NULL, append},
    {"append-mapped", false, MOST, NULL, NULL, append},
    {"append-rows", false, MOST, NULL, NULL, append_rows},
    {"claim-publish", false, MOST, NULL, NULL, claim_and_publish},
    {"read", false, MOST, append_what_is_read, NULL, read_each},
    {"read-batch", false, MOST, make_columns, NULL, read_batch},
    {"walk", false, MOST, append_what_is_walked, NULL, walk},
    {"commit-page", true, 1, NULL, append_a_page, commit},
};

/* What is counted is everything below this function, which therefore stays one. */
void measured(const hot_path *path, measurement *at, uint32_t count);
__attribute__((noinline)) void measured(const hot_path *path, measurement *at, uint32_t count) {
    path->run(at, count);
}

static void run_path(const hot_path *path, uint32_t count) {
    static measurement at;
    start_sized(&at.scene, SEGMENT_SIZE, path->pooled, COPY_LIMIT);
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
            measured(path, &at, round);
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
    void *columns[] = {at.batch.positions,  at.batch.timestamps_ns, at.batch.types, at.batch.keyed,
                       at.batch.value_ends, at.batch.key_ends,      at.batch.data,  at.batch.keys};
    for (size_t index = 0; index < sizeof columns / sizeof *columns; index++) {
        free(columns[index]);
    }
    end(&at.scene);
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
            run_path(&hot_paths[index], (uint32_t)count);
            puts(cl_crc32c_name());
            return 0;
        }
    }
    fprintf(stderr, "no hot path is called %s\n", argv[1]);
    return 2;
}
