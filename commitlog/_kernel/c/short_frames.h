/* Short frames without key and type, many in one loop that has the steps of their CRC in line: to
 * call a function for each of them takes as long as the frame itself. Long values, and processors
 * without CRC instructions, are left to those who take one frame at a time. */
#ifndef CL_SHORT_FRAMES_H
#define CL_SHORT_FRAMES_H

#include "reader.h"
#include "writer.h"

/* Writes `count` rows from row `first` on as frames from `offset` on, all but the cell of the
 * first, which is to publish them. False, and nothing is written, where that is left to others. */
bool cl_short_frames_write(const cl_segment *segment, uint32_t offset, const cl_rows *rows,
                           size_t first, size_t count, int64_t timestamp_ns, uint64_t *first_cell,
                           int64_t *positions);

/* What a batch has so far, and where it goes on. */
typedef struct {
    size_t count;
    size_t data_size;
    uint64_t offset;
} cl_progress;

/* Goes on with a batch, as cl_batch_copy does frame by frame, as long as short frames stand below
 * `end` and have room. */
void cl_short_frames_read(const cl_batch *columns, cl_progress *progress, const cl_segment *segment,
                          const uint8_t *source, uint64_t end);

/* The same the other way, of the `most` frames at these offsets, which ascend: from the last one
 * down. How many were taken; an offset that is no frame's ends it. */
size_t cl_short_frames_read_back(const cl_batch *columns, cl_progress *progress,
                                 const cl_segment *segment, const uint8_t *source,
                                 const uint32_t *offsets, size_t most);

/* Takes the record at the reader's place, if it is a short one and there to be read; false, and
 * changes nothing, leaves it to cl_reader_next, which alone knows what to make of anything else. */
bool cl_short_frame_next(cl_reader *reader, cl_record *record);

#endif
