/* What an assertion finds ends the process, and says where it stands, what it states and both
 * values. */
#include "stage.h"

#include <signal.h>
#include <sys/wait.h>

static test_place place;
static test_handle handle;

/* Breaks what the code guarantees, in a child with a log of one record; what the child said before
 * it was aborted. */
static const char *said_of(void (*breach)(void)) {
    static char said[4096];
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
    while ((got = read(ends[0], said + length, sizeof said - 1 - (size_t)length)) > 0) {
        length += got;
    }
    said[length] = 0;
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return said;
}

static void release_twice(void) {
    cl_segment *segment;
    CHECK(cl_table_acquire(&handle.log.table, 0, &segment) == CL_OK);
    segment->references = 0;
    cl_segment_release(segment);
}

static void flush_what_is_not_committed(void) {
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
    CHECK(cl_writer_claim(&handle.writer, 40, &claim) == CL_OK);
    cl_writer_publish(&handle.writer, &claim, cl_cell(CL_WORD_CLAIMED | 40, handle.log.owner), 1);
}

static void publish_more_than_was_claimed(void) {
    cl_claim claim;
    CHECK(cl_writer_claim(&handle.writer, 40, &claim) == CL_OK);
    cl_writer_publish(&handle.writer, &claim, cl_cell(48, 1), 1);
}

static void enter_the_odd_window_twice(void) {
    handle.writer.slot->counter++;
    append_value(&handle, noise, 24);
}

static void check_said(void (*breach)(void), const char *file, const char *statement,
                       const char *values) {
    const char *said = said_of(breach);
    CHECK(strstr(said, file) != NULL);
    CHECK(strstr(said, statement) != NULL);
    CHECK(strstr(said, values) != NULL);
}

int main(void) {
    fill_noise();
    check_said(release_twice, "segment.c:", "left != UINT32_MAX", ": 4294967295 and 4294967295");
    check_said(flush_what_is_not_committed, "log.h:", "flushed <= committed", ": 4136 and 0");
    check_said(commit_past_the_tail, "log.h:", "appended <= ", ": 4144 and 4136");
    check_said(publish_a_claim_as_a_claim, "writer.c:", "cl_cell_published(cell) == ", ": 0 and 1");
    check_said(publish_more_than_was_claimed, "writer.c:", " <= claim->length", ": 48 and 40");
    check_said(enter_the_odd_window_twice, "claim.h:", "slot->counter % 2 == 0", ": 1 and 0");
    return 0;
}
