/* A log with one segment, and in a pooled log a buffer for it. Shared by the tests of commit and
 * flush, and by the instruction counts of bench/. */
#ifndef SCENE_H
#define SCENE_H

#include "kernel_test.h"

typedef struct {
    test_place place;
    test_handle handle;
    cl_segment *segment;
    uint8_t *buffer;
} test_scene;

static UNUSED void attach_buffer(test_scene *scene) {
    scene->buffer = calloc(1, scene->place.size);
    CHECK(scene->buffer != NULL);
    scene->segment->bytes = scene->buffer;
}

static UNUSED void start_sized(test_scene *scene, uint64_t size, bool pooled, uint32_t copy_limit) {
    memset(scene, 0, sizeof *scene);
    make_place(&scene->place, size);
    open_handle(&scene->place, &scene->handle, pooled);
    scene->handle.log.copy_limit = copy_limit;
    CHECK(cl_table_acquire(&scene->handle.log.table, 0, &scene->segment) == CL_OK);
    if (pooled) {
        attach_buffer(scene);
    }
}

static UNUSED void start(test_scene *scene, bool pooled, uint32_t copy_limit) {
    start_sized(scene, SMALL, pooled, copy_limit);
}

static UNUSED void end(test_scene *scene) {
    cl_segment_release(scene->segment);
    close_handle(&scene->handle);
    drop_place(&scene->place);
    free(scene->buffer);
}

static UNUSED int64_t deadline(int64_t wait_ns) { return cl_clock_monotonic_ns() + wait_ns; }

static UNUSED uint64_t tail_position(const test_scene *scene) {
    return cl_log_position(&scene->handle.log, cl_load(scene->handle.log.tail));
}

static UNUSED int flush_all(test_scene *scene) {
    return cl_flush(&scene->handle.log, tail_position(scene), deadline(PATIENCE_NS));
}

#endif
