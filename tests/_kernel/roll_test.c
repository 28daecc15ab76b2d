/* Rolls that need nothing but the kernel, and the call for what the next one needs. */
#include "stage.h"

static int64_t opened_ns(test_handle *handle, uint64_t number) {
    cl_segment *segment;
    cl_header_opened opened;
    CHECK(cl_table_acquire(&handle->log.table, number, &segment) == CL_OK);
    bool whole = cl_header_opened_read(segment->map, segment->id, &opened);
    cl_segment_release(segment);
    return whole ? opened.opened_ns : 0;
}

static void close_tail(test_handle *handle) {
    CHECK(cl_writer_close_segment(&handle->writer, CL_SEGMENT_CURRENT) == CL_OK);
}

static void a_roll_goes_as_far_as_segments_are_ready(bool plain) {
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, plain);
    make_segment(&place, 1, 0);
    make_segment(&place, 2, 0);
    int64_t before_ns = cl_clock_precise_ns();
    close_tail(&handle);
    CHECK(cl_writer_roll_ahead(&handle.writer, 0) == CL_E_ABSENT);
    handle.log.ready_below = 2;
    CHECK(cl_writer_roll_ahead(&handle.writer, 0) == CL_OK);
    CHECK(*handle.log.tail == cl_tail_pack(1, CL_SEGMENT_HEADER));
    CHECK(handle.writer.counters.rolls == 1);
    CHECK(opened_ns(&handle, 1) >= before_ns && opened_ns(&handle, 1) <= cl_clock_precise_ns());
    CHECK(append_value(&handle, noise, 100) == SMALL + CL_SEGMENT_HEADER);
    CHECK(cl_writer_roll_ahead(&handle.writer, 0) == CL_OK); /* the tail has moved */
    CHECK(handle.writer.counters.rolls == 1);
    close_tail(&handle);
    CHECK(cl_writer_roll_ahead(&handle.writer, 1) == CL_E_ABSENT);
    CHECK(*handle.log.tail == cl_tail_pack(1, SMALL) && opened_ns(&handle, 2) == 0);
    end(&place, &handle);
}

static void a_segment_that_is_missing_keeps_the_tail(void) {
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, false);
    close_tail(&handle);
    handle.log.ready_below = 2;
    CHECK(cl_writer_roll_ahead(&handle.writer, 0) == CL_E_ABSENT);
    CHECK(*handle.log.tail == cl_tail_pack(0, SMALL));
    end(&place, &handle);
}

static void a_log_with_cycles_rolls_step_by_step(void) {
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, false);
    make_segment(&place, 1, 0);
    close_tail(&handle);
    handle.log.ready_below = 2;
    handle.writer.cycle_end_ns = INT64_MAX - 1;
    CHECK(cl_writer_roll_ahead(&handle.writer, 0) == CL_E_ABSENT);
    CHECK(*handle.log.tail == cl_tail_pack(0, SMALL) && opened_ns(&handle, 1) == 0);
    end(&place, &handle);
}

/* A clock that was set back does not make a segment older than the one before it. */
static void a_segment_is_not_opened_before_its_predecessor(void) {
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, false);
    int64_t later_ns = cl_clock_precise_ns() + 3600 * 1000000000ll;
    make_segment(&place, 1, 0);
    make_segment(&place, 2, 0);
    close_tail(&handle);
    CHECK(cl_writer_roll(&handle.writer, 0, later_ns, 0) == CL_OK);
    close_tail(&handle);
    handle.log.ready_below = 3;
    CHECK(cl_writer_roll_ahead(&handle.writer, 1) == CL_OK);
    CHECK(opened_ns(&handle, 2) == later_ns);
    end(&place, &handle);
}

/* Appends up to the given offset; whether the allocation service was called. */
static bool calls_before(test_handle *handle, uint32_t offset) {
    uint32_t event = handle->log.event;
    while (cl_tail_offset(*handle->log.tail) < offset) {
        append_value(handle, noise, 1000);
    }
    return handle->log.event != event;
}

static void the_second_half_of_a_segment_calls_for_the_next(bool pooled) {
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, pooled);
    handle.writer.wake_bytes = SMALL / 8;
    append_value(&handle, noise, 1); /* enters the segment, which is an event, too */
    CHECK(!calls_before(&handle, SMALL / 2 - 2000));
    CHECK(calls_before(&handle, SMALL / 2 + SMALL / 8 + 2000));
    CHECK(calls_before(&handle, SMALL - 2000) == pooled); /* a mapped log calls once */
    end(&place, &handle);
    start(&place, &handle, SMALL, pooled);
    handle.writer.wake_bytes = SMALL / 8;
    append_value(&handle, noise, 1);
    handle.log.ready_below = 2;
    CHECK(!calls_before(&handle, SMALL - 2000));
    end(&place, &handle);
}

/* The append that enters a segment calls the service only if no thread sees that by itself. */
static void a_roll_calls_nobody_who_looks_by_himself(bool pooled, bool looks) {
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, pooled);
    make_segment(&place, 1, 0);
    append_value(&handle, noise, 1);
    handle.log.service_polls = !pooled && looks;
    handle.log.commit_rests = !looks;
    close_tail(&handle);
    handle.log.ready_below = 2;
    CHECK(cl_writer_roll_ahead(&handle.writer, 0) == CL_OK);
    uint32_t event = handle.log.event;
    append_value(&handle, noise, 1);
    CHECK((handle.log.event == event) == looks);
    end(&place, &handle);
}

typedef struct {
    test_handle handle;
    pthread_t thread;
} test_commits;

static void *commit_all(void *given) {
    const cl_pace pace = {.interval_ns = 1000000, .thorough_ns = 1000000, .least_bytes = 1};
    CHECK(cl_commit_loop(&((test_commits *)given)->handle.log, &pace) == CL_OK);
    return NULL;
}

static void the_commit_loop_calls_the_service_after_a_roll(void) {
    test_place place;
    test_commits commits;
    cl_log *log = &commits.handle.log;
    start(&place, &commits.handle, SMALL, true);
    make_segment(&place, 1, 0);
    close_tail(&commits.handle);
    log->ready_below = 2;
    CHECK(pthread_create(&commits.thread, NULL, commit_all, &commits) == 0);
    /* The loop has noted the segment that the tail is in once it has committed it. */
    while (cl_load(&log->cursors->committed.value) < SMALL) {
        cl_sleep_ns(100000);
    }
    uint32_t event = cl_load32(&log->event);
    CHECK(cl_writer_roll_ahead(&commits.handle.writer, 0) == CL_OK);
    CHECK(cl_futex_wait(&log->event, event, 10000000000) == CL_OK);
    cl_log_stop(log);
    CHECK(pthread_join(commits.thread, NULL) == 0);
    end(&place, &commits.handle);
}

int main(void) {
    fill_noise();
    for (int plain = 0; plain < 2; plain++) {
        a_roll_goes_as_far_as_segments_are_ready(plain);
        the_second_half_of_a_segment_calls_for_the_next(plain);
        a_roll_calls_nobody_who_looks_by_himself(plain, true);
        a_roll_calls_nobody_who_looks_by_himself(plain, false);
    }
    a_segment_that_is_missing_keeps_the_tail();
    a_log_with_cycles_rolls_step_by_step();
    a_segment_is_not_opened_before_its_predecessor();
    the_commit_loop_calls_the_service_after_a_roll();
    return 0;
}
