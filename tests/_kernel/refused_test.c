/* sources: append.c batch.c claim.c crc32c.c cursors.c flush_queue.c frame_cursor.c futex.c index.c
 * frame_writer.c headers.c mark.c marked.c log.c memory.c reader.c resolve.c roll.c scan.c
 * segment.c segment_table.c wait.c walk.c writer.c */
/* Batches whose claims another process rolls back each time: the append ends with an error after a
 * bounded number of attempts, across all segments that it rolls through. */
#include "stage.h"

static int tries;

/* Rolls the claim back before the batch is published. */
static int publish_late(cl_writer *writer, const cl_claim *claim, uint64_t first_cell,
                        uint32_t count) {
    const uint64_t *cell = (const uint64_t *)(claim->segment->bytes + claim->offset);
    CHECK(cl_roll_back(claim->segment, claim->offset, cl_load(cell)));
    tries++;
    return cl_batch_publish(writer, claim, first_cell, count);
}

#define cl_batch_publish publish_late
#include "rows.c"

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
