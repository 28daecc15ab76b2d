/* Reads and writes many short frames without key and type in one loop with inlined CRC steps: a
 * function call for each takes as long as the frame itself. Long values, and processors without CRC
 * instructions, are left to the functions that take one frame at a time. */
#ifndef CL_SHORT_FRAMES_H
#define CL_SHORT_FRAMES_H

#include "reader.h"
#include "writer.h"

/* Writes `count` rows from row `first` on as frames from `offset` on, except the cell of the first
 * frame, which the caller writes last to publish them all. Returns false and writes nothing if it
 * leaves the rows to the frame-by-frame path. */
bool cl_short_frames_write(const cl_segment *segment, uint32_t offset, const cl_rows *rows,
                           size_t first, size_t count, int64_t timestamp_ns, uint64_t *first_cell,
                           int64_t *positions);

/* What a batch holds so far, and the offset at which it continues. */
typedef struct {
    size_t count;
    size_t data_size;
    uint64_t offset;
} cl_progress;

/* Continues a batch, as cl_batch_copy does frame by frame, while the next frame is short and below
 * `end`, and the batch has room for it. */
void cl_short_frames_read(const cl_batch *columns, cl_progress *progress, const cl_segment *segment,
                          const uint8_t *source, uint64_t end);

/* As cl_short_frames_read, but backward: reads the `most` frames at these ascending offsets from
 * the last down. Returns how many it read; stops at an offset at which no frame begins. */
size_t cl_short_frames_read_back(const cl_batch *columns, cl_progress *progress,
                                 const cl_segment *segment, const uint8_t *source,
                                 const uint32_t *offsets, size_t most);

/* Reads the record at the reader's offset if it is a published short one. Otherwise returns false,
 * changes nothing but *record, and leaves the cell to cl_reader_next, which classifies it. */
bool cl_short_frame_next(cl_reader *reader, cl_record *record);

#endif
