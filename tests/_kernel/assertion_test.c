/* A failed assertion aborts the process and prints its location, its expression and both values. */
#include "stage.h"

#include <signal.h>
#include <sys/wait.h>

static test_place place;
static test_handle handle;

/* Returns what a child printed before it was aborted: the child makes a log of one record and runs
 * `breach`, which breaks an invariant. */
static const char *output_of(void (*breach)(void)) {
    static char output[4096];
    int ends[2], status;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(dup2(ends[1], STDERR_FILENO) >= 0);
        start(&place, &handle, SMALL, false);
        append_value(&handle, noise, 24);
        breach();
        _exit(0);
    }
    close(ends[1]);
    ssize_t length = 0, got;
    while ((got = read(ends[0], output + length, sizeof output - 1 - (size_t)length)) > 0) {
        length += got;
    }
    output[length] = 0;
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return output;
}

static void release_twice(void) {
    cl_segment *segment;
    CHECK(cl_table_acquire(&handle.log.table, 0, &segment) == CL_OK);
    segment->references = 0;
    cl_segment_release(segment);
}

static void flush_uncommitted_bytes(void) {
    place.cursors->flushed.value = cl_tail_offset(place.cursors->tail.value);
    cl_commit(&handle.log, UINT64_MAX);
}

static void commit_past_the_tail(void) {
    place.cursors->appended.value = place.cursors->committed.value =
        cl_tail_offset(place.cursors->tail.value) + 8;
    cl_commit(&handle.log, UINT64_MAX);
}

static void publish_a_claim_as_a_claim(void) {
    cl_claim claim;
    CHECK(claim_bytes(&handle.writer, 40, &claim) == CL_OK);
    cl_writer_publish(&handle.writer, &claim, cl_cell(CL_WORD_CLAIMED | 40, handle.log.owner), 1);
}

static void publish_more_than_was_claimed(void) {
    cl_claim claim;
    CHECK(claim_bytes(&handle.writer, 40, &claim) == CL_OK);
    cl_writer_publish(&handle.writer, &claim, cl_cell(48, 1), 1);
}

static void enter_the_odd_window_twice(void) {
    handle.writer.slot->counter++;
    append_value(&handle, noise, 24);
}

static void write_a_frame_over_the_header(void) {
    const cl_record_input input = {
        .value = noise, .value_length = 24, .key_length = CL_KEYLEN_NONE, .timestamp_ns = 5};
    cl_frame_write(handle.writer.segment, 0, &input);
}

static void walk_behind_the_segment(void) {
    uint64_t position = handle.writer.segment->size + CL_SEGMENT_HEADER;
    cl_walk(&handle.log, handle.writer.segment, &position, UINT64_MAX, &handle.log.watch);
}

static void enter_the_segment_in_use(void) { cl_writer_switch(&handle.writer, 0); }

static void release_a_claim_twice(void) { cl_claim_release(&handle.log, handle.writer.segment); }

static void check_output(void (*breach)(void), const char *file, const char *statement,
                         const char *values) {
    const char *output = output_of(breach);
    CHECK(strstr(output, file) != NULL);
    CHECK(strstr(output, statement) != NULL);
    CHECK(strstr(output, values) != NULL);
}

int main(void) {
    fill_noise();
    check_output(release_twice, "segment.c:", "left != UINT32_MAX", ": 4294967295 and 4294967295");
    check_output(flush_uncommitted_bytes, "log.h:", "flushed <= committed", ": 4136 and 0");
    check_output(commit_past_the_tail, "log.h:", "appended <= ", ": 4144 and 4136");
    check_output(publish_a_claim_as_a_claim,
                 "claim.c:", "cl_cell_published(cell) == ", ": 0 and 1");
    check_output(publish_more_than_was_claimed, "claim.c:", " <= claim->length", ": 48 and 40");
    check_output(enter_the_odd_window_twice, "claim.h:", "slot->counter % 2 == 0", ": 1 and 0");
    check_output(write_a_frame_over_the_header, "frame_writer.c:", "offset >= ", ": 0 and 4096");
    check_output(walk_behind_the_segment, "walk.c:", "*position < ", ": 69632 and 65536");
    check_output(enter_the_segment_in_use,
                 "writer.c:", "cl_writer_at(writer, number) == ", "1 and 0");
    check_output(release_a_claim_twice, "claim.c:", "left != UINT32_MAX", ": 4294967295 and ");
    return 0;
}
