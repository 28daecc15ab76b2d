/* threads */
/* Commit: which bytes reach the file, at which call, and in which chunks. */
#include "scene.h"

#include <sys/syscall.h>

#define RECORD 1000u

/* The most bytes that one call writes; the linker prefers this function. */
static size_t wrote_most = SIZE_MAX;

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    return syscall(SYS_pwrite64, fd, bytes, size < wrote_most ? size : wrote_most, at);
}

static void short_writes_are_continued(void) {
    test_scene scene;
    uint8_t value[RECORD];
    start(&scene, true, 0);
    memset(value, 'v', sizeof value);
    for (int index = 0; index < 5; index++) {
        append_value(&scene.handle, value, sizeof value);
    }
    wrote_most = 700;
    CHECK(cl_commit(&scene.handle.log, tail_position(&scene)) == CL_OK);
    wrote_most = SIZE_MAX;
    CHECK(memcmp(scene.segment->map + CL_SEGMENT_HEADER, scene.buffer + CL_SEGMENT_HEADER,
                 SMALL - CL_SEGMENT_HEADER) == 0);
    end(&scene);
}

/* Both ways, by copy and by write: before the commit the file holds zeros, after it the bytes of
 * the buffer. */
static void commit_copies_the_buffer_to_the_file(uint32_t copy_limit) {
    test_scene scene;
    uint8_t value[RECORD];
    start(&scene, true, copy_limit);
    memset(value, 'v', sizeof value);
    for (int round = 0; round < 5; round++) {
        uint64_t before = cl_load(&scene.place.cursors->committed.value);
        before = before < CL_SEGMENT_HEADER ? CL_SEGMENT_HEADER : before;
        for (int index = 0; index < 10; index++) {
            append_value(&scene.handle, value, (uint32_t)(round * 10 + index));
        }
        CHECK(cl_segment_nonzero(scene.segment, before, SMALL) == SMALL);
        CHECK(cl_commit(&scene.handle.log, tail_position(&scene)) == CL_OK);
        CHECK(scene.place.cursors->committed.value == tail_position(&scene));
        CHECK(scene.place.cursors->appended.value == tail_position(&scene) &&
              scene.place.cursors->flushed.value == 0);
        CHECK(memcmp(scene.segment->map + CL_SEGMENT_HEADER, scene.buffer + CL_SEGMENT_HEADER,
                     SMALL - CL_SEGMENT_HEADER) == 0);
    }
    CHECK(scan_log(&scene.handle) == 50 && scene.segment->drained == 0);
    end(&scene);
}

/* The first cell of a range makes it visible, so the write must leave it out. */
static void commit_stores_the_first_cell_through_the_mapping(void) {
    test_scene scene;
    start(&scene, true, 0);
    append_value(&scene.handle, "first", 5);
    append_value(&scene.handle, "second", 6);
    int fd = scene.segment->fd;
    /* The write goes to this file; the mapping shows only what was stored through it. */
    scene.segment->fd = memfd_create("elsewhere", MFD_CLOEXEC);
    CHECK(scene.segment->fd >= 0 && cl_commit(&scene.handle.log, UINT64_MAX) == CL_OK);
    uint8_t written[48];
    CHECK(pread(scene.segment->fd, written, sizeof written, CL_SEGMENT_HEADER) ==
          (ssize_t)sizeof written);
    CHECK(memcmp(written, &(uint64_t){0}, 8) == 0 &&
          memcmp(written + 8, scene.buffer + CL_SEGMENT_HEADER + 8, 40) == 0);
    CHECK(memcmp(scene.segment->map + CL_SEGMENT_HEADER, scene.buffer + CL_SEGMENT_HEADER, 8) == 0);
    CHECK(cl_segment_nonzero(scene.segment, CL_SEGMENT_HEADER + 8, SMALL) == SMALL);
    close(scene.segment->fd);
    scene.segment->fd = fd;
    end(&scene);
}

/* A commit takes everything before an open claim, and neither the claim nor anything behind it. */
static void commit_stops_before_an_open_claim(void) {
    test_scene scene;
    cl_claim claim;
    start(&scene, true, 0);
    append_value(&scene.handle, "before", 6);
    uint64_t stands = tail_position(&scene);
    CHECK(claim_bytes(&scene.handle.writer, 40, &claim) == CL_OK);
    append_value(&scene.handle, "behind", 6);
    CHECK(cl_commit(&scene.handle.log, tail_position(&scene)) == CL_E_BUSY &&
          cl_commit(&scene.handle.log, stands) == CL_OK);
    CHECK(scene.place.cursors->committed.value == stands &&
          cl_segment_nonzero(scene.segment, stands, SMALL) == SMALL);
    CHECK(cl_flush(&scene.handle.log, stands, deadline(PATIENCE_NS)) == CL_OK);
    CHECK(cl_flush(&scene.handle.log, tail_position(&scene), deadline(5 * MILLISECOND)) ==
          CL_E_TIMEOUT);
    cl_writer_abandon(&scene.handle.writer, &claim);
    CHECK(flush_all(&scene) == CL_OK && scan_log(&scene.handle) == 2);
    end(&scene);
}

/* The log is larger than one commit chunk and its frames have many sizes. A buffer that is fully
 * committed is marked as drained. */
/* A program that ruins a frame of the open log must not make the watermarks pass the tail. */
static void commit_ends_at_a_length_beyond_the_tail(bool pooled) {
    test_scene scene;
    uint64_t appended;
    start(&scene, pooled, 0);
    append_value(&scene.handle, "sound", 5);
    uint64_t ruined = append_value(&scene.handle, "ruined", 6);
    uint64_t *cell = (uint64_t *)(scene.segment->bytes + ruined % SMALL);
    *cell = (*cell & ~(uint64_t)CL_WORD_LENGTH) | 1000u;
    CHECK(cl_commit(&scene.handle.log, tail_position(&scene)) == CL_E_DAMAGE);
    CHECK(cl_load(&scene.place.cursors->committed.value) == ruined);
    CHECK(cl_log_appended(&scene.handle.log, &appended) == CL_E_DAMAGE && appended == ruined);
    CHECK(cl_load32(&scene.segment->tallied) < ruined % SMALL);
    append_value(&scene.handle, "goes on", 7);
    end(&scene);
}

static void commit_of_several_segments_drains_each_buffer(uint32_t copy_limit) {
    enum { SIZE = 8u << 20, COUNT = 3 };
    test_place place;
    test_handle handle;
    static uint8_t value[SIZE / 8];
    uint8_t *buffers[COUNT];
    cl_segment *segments[COUNT];
    make_place(&place, SIZE);
    open_handle(&place, &handle, true);
    handle.log.copy_limit = copy_limit;
    for (uint64_t number = 0; number < COUNT; number++) {
        make_segment(&place, number, 0);
        CHECK(cl_table_acquire(&handle.log.table, number, &segments[number]) == CL_OK);
        segments[number]->bytes = buffers[number] = calloc(1, SIZE);
    }
    uint64_t state = 7;
    uint64_t records = 0;
    while (cl_tail_number(handle.log.private_tail) < COUNT - 1) {
        uint32_t length = (uint32_t)(next_random(&state) %
                                     (records % 16 == 0 ? SIZE / 8 - CL_FRAME_HEADER : 3000));
        memset(value, (int)records, length);
        append_value(&handle, value, length);
        records++;
    }
    uint32_t event = handle.log.event;
    CHECK(cl_commit(&handle.log, UINT64_MAX) == CL_OK);
    CHECK(segments[0]->drained == 1 && segments[1]->drained == 1 && segments[2]->drained == 0 &&
          handle.log.event >= event + 2);
    CHECK(scan_log(&handle) == records);
    CHECK(handle.log.counters.committed_bytes <= COUNT * (uint64_t)SIZE);
    for (int number = 0; number < COUNT; number++) {
        cl_segment_release(segments[number]);
    }
    close_handle(&handle);
    drop_place(&place);
    for (int number = 0; number < COUNT; number++) {
        free(buffers[number]);
    }
}

/* The counts for the seal are complete after the last commit. Only a handle that did not commit the
 * whole segment reads it again. */
static void commit_counts_the_records_for_the_seal(bool pooled) {
    test_scene scene;
    cl_scan scan;
    cl_claim claim;
    cl_segment *later;
    start(&scene, pooled, 0);
    for (uint32_t index = 0; index < 40; index++) {
        cl_record_input input = record_of("value", index % 6);
        input.timestamp_ns = 1000 + index * 7 % 13;
        input.type = index % 2;
        append_input(&scene.handle, &input);
        CHECK(claim_bytes(&scene.handle.writer, 40, &claim) == CL_OK);
        cl_writer_abandon(&scene.handle.writer, &claim);
        CHECK(index % 9 != 0 || cl_commit(&scene.handle.log, UINT64_MAX) == CL_OK);
    }
    CHECK(cl_writer_close_segment(&scene.handle.writer, CL_SEGMENT_CURRENT) == CL_OK &&
          cl_commit(&scene.handle.log, UINT64_MAX) == CL_OK);
    cl_segment_scan(scene.segment, 0, SMALL, &scan);
    CHECK(scan.code == CL_OK && scan.tally.records == 40 && scene.segment->tallied == SMALL);
    CHECK(memcmp(&scan.tally, &scene.segment->tally, sizeof scan.tally) == 0);
    /* A handle that reads the segment again finds this damage. */
    scene.segment->map[CL_SEGMENT_HEADER + CL_FRAME_TIMESTAMP] ^= 1;
    CHECK(cl_segment_open(scene.place.dir_fd, 0, SMALL, NULL, true, &later) == CL_OK);
    CHECK(cl_segment_seal(later, 0, NULL) == CL_E_DAMAGE);
    CHECK(cl_segment_seal(scene.segment, 7, NULL) == CL_OK);
    cl_header_seal seal;
    CHECK(cl_segment_sealed(later, &seal) == CL_OK && seal.first_sequence == 7 &&
          seal.record_count == 40 && seal.end == scan.tally.end);
    CHECK(seal.first_timestamp_ns == 1000 && seal.last_timestamp_ns == 1000 &&
          seal.largest_timestamp_ns == 1012);
    cl_segment_release(later);
    end(&scene);
}

typedef struct {
    test_scene *scene;
    uint64_t seen;
    uint64_t stop;
} test_watcher;

/* Reads the file through a mapping of its own, as another process does. At every moment each frame
 * before the first zero cell is whole. */
static void *watch_file(void *argument) {
    test_watcher *watcher = argument;
    test_handle observer;
    test_reader reader;
    cl_record record;
    open_observer(&watcher->scene->place, &observer);
    observer.log.pooled = true;
    observer.log.tail = NULL;
    open_reader(&reader, &observer.log);
    while (watcher->seen < watcher->stop) {
        int code = read_on(&reader, &record);
        CHECK(code == CL_OK || code == CL_E_END);
        if (code == CL_OK) {
            CHECK(record.value_length == 8 + watcher->seen % 200 &&
                  memcmp(record.value, &watcher->seen, 8) == 0);
            watcher->seen++;
        }
    }
    close_reader(&reader);
    close_handle(&observer);
    return NULL;
}

static void other_process_reads_only_whole_frames(uint32_t copy_limit) {
    enum { RECORDS = 450 };
    test_scene scene;
    pthread_t thread;
    uint8_t value[256] = {0};
    start(&scene, true, copy_limit);
    test_watcher watcher = {.scene = &scene, .stop = RECORDS};
    CHECK(pthread_create(&thread, NULL, watch_file, &watcher) == 0);
    for (uint64_t index = 0; index < RECORDS; index++) {
        memcpy(value, &index, sizeof index);
        append_value(&scene.handle, value, (uint32_t)(8 + index % 200));
        if (index % 7 == 0) {
            CHECK(cl_commit(&scene.handle.log, 0) == CL_OK);
        }
    }
    CHECK(cl_commit(&scene.handle.log, 0) == CL_OK &&
          cl_tail_number(scene.handle.log.private_tail) == 0);
    pthread_join(thread, NULL);
    CHECK(watcher.seen == RECORDS);
    end(&scene);
}

int main(void) {
    static const uint32_t copy_limits[] = {0, 1000, SMALL, 16u << 20};
    for (size_t at = 0; at < sizeof copy_limits / sizeof *copy_limits; at++) {
        commit_copies_the_buffer_to_the_file(copy_limits[at]);
        other_process_reads_only_whole_frames(copy_limits[at]);
    }
    commit_stores_the_first_cell_through_the_mapping();
    short_writes_are_continued();
    commit_of_several_segments_drains_each_buffer(0);
    commit_of_several_segments_drains_each_buffer(UINT32_MAX);
    commit_stops_before_an_open_claim();
    commit_ends_at_a_length_beyond_the_tail(false);
    commit_ends_at_a_length_beyond_the_tail(true);
    commit_counts_the_records_for_the_seal(true);
    commit_counts_the_records_for_the_seal(false);
    return 0;
}
