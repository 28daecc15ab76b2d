/* sources: append.c claim.c crc32c.c cursors.c flush_queue.c frame_cursor.c futex.c index.c log.c
 * memory.c reader.c resolve.c roll.c rows.c scan.c segment.c segment_table.c wait.c walk.c
 * writer.c */
/* Batches whose claims another process rolls back each time: the append ends with an error after a
 * bounded number of attempts, across all segments that it rolls through. */
#include "stage.h"

#include "short_frames.h"

static int tries;

/* Replaces the kernel's function: rolls the claim back before the batch is published. */
bool cl_short_frames_write(const cl_segment *segment, uint32_t offset, const cl_rows *rows,
                           size_t first, size_t count, int64_t timestamp_ns, uint64_t *first_cell,
                           int64_t *positions) {
    (void)first, (void)count, (void)timestamp_ns, (void)positions;
    uint64_t *cell = (uint64_t *)(segment->bytes + offset);
    CHECK(cl_roll_back((cl_segment *)segment, offset, cl_load(cell)));
    *first_cell = cl_cell(CL_FRAME_HEADER + rows->length, 0);
    tries++;
    return true;
}

void cl_short_frames_read(const cl_batch *columns, cl_progress *progress, const cl_segment *segment,
                          const uint8_t *source, uint64_t end) {
    /* The reader decodes one frame at a time instead. */
    (void)columns, (void)progress, (void)segment, (void)source, (void)end;
}

static int append_rows(test_handle *handle, size_t *done) {
    static int64_t positions[100];
    cl_rows rows = {.data = noise, .count = 100, .stride = 40, .length = 40, .timestamp_ns = 5};
    int code;
    while ((code = cl_writer_append_rows(&handle->writer, &rows, done, positions)) == CL_E_ROLL) {
        roll_on(handle);
    }
    return code;
}

int main(void) {
    test_place place;
    test_handle handle;
    fill_noise();
    start(&place, &handle, SMALL, false);
    for (int round = 1; round <= 2; round++) {
        size_t done = 0;
        CHECK(append_rows(&handle, &done) == CL_E_BUSY && done == 0 && tries == round * 1000);
    }
    CHECK(scan_log(&handle) == 0);
    end(&place, &handle);
    return 0;
}
