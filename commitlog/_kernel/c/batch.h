/* Columns of many records, and the reading of plain records into them. */
#ifndef CL_BATCH_H
#define CL_BATCH_H

#include "frame_cursor.h"

/* A value or key as Arrow's binary view: 32 bits of length, then up to CL_VIEW_INLINE bytes in the
 * view itself; of a longer one, 32 bits each of its first bytes, its buffer (0) and its offset. */
typedef struct {
    uint64_t words[2];
} cl_view;
#define CL_VIEW_INLINE 12u

/* Columns of a batch; each array has room for `most` records (offset arrays for one more). The
 * caller may pass NULL for positions, timestamps, types, the key arrays (keyed, keys and their ends
 * or views) or the value arrays (data and its ends or views). Either value_ends or value_views
 * locates the values; the same holds for keys. `data` and `keys` have CL_VIEW_INLINE spare bytes
 * beyond their stated room. The CRC check covers omitted columns as well. Backward
 * batches have all columns, and no views. */
typedef struct {
    int64_t *positions;
    int64_t *timestamps_ns;
    uint32_t *types;
    uint8_t *keyed;
    int64_t *value_ends; /* [n] into data, after record n */
    int64_t *key_ends; /* [n] into keys */
    cl_view *value_views;
    cl_view *key_views;
    uint8_t *data;
    uint8_t *keys;
    size_t data_room;
    size_t keys_room;
    size_t most;
    size_t count;
    size_t data_size;
    size_t keys_size;
} cl_batch;

/* Adds a row. Returns false if there is no room for its bytes. */
bool cl_batch_add(cl_batch *batch, const cl_record *record);

/* Reads records without key and type below the cursor's limit while they are published and whole,
 * and moves the cursor behind them. The CRC is computed over the bytes that are copied. */
void cl_batch_read(cl_batch *batch, cl_frame_cursor *at);

/* The same with the `most` frames at these ascending offsets of a source, from the last one down.
 * Returns how many it read; stops at an offset at which no frame can begin. */
size_t cl_batch_read_back(cl_batch *batch, const cl_segment *segment, const uint8_t *source,
                          const uint32_t *offsets, size_t most);

#endif
