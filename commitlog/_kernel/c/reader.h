/* Reading forward: one record at a time, each CRC checked before anything of it is believed. */
#ifndef CL_READER_H
#define CL_READER_H

#include <string.h>

#include "atomics.h"
#include "crc32c.h"
#include "frame.h"
#include "log.h"

typedef struct {
    uint64_t position;
    int64_t timestamp_ns;
    const uint8_t *key; /* NULL: not keyed */
    const uint8_t *value;
    uint32_t key_length;
    uint32_t value_length;
    uint32_t type;
} cl_record;

typedef struct {
    cl_log *log;
    cl_segment *segment; /* a reference is held by whoever gave it */
    uint64_t offset;     /* of the next frame in it */
    bool from_buffer; /* reads where claims live (a pool buffer) instead of the file: only under the
                         interpreter's lock */
    bool flushed_only;
    uint64_t limit; /* positions from here on are not read */
    cl_watch watch;
    uint32_t streak; /* records read since this reader last had to wait */
    uint32_t gap; /* pauses before the next wait's first look */
    uint32_t calm; /* waits until another gap is tried */
} cl_reader;

void cl_reader_init(cl_reader *reader, cl_log *log);
void cl_reader_enter(cl_reader *reader, cl_segment *segment, uint64_t offset);

/* The next record. Its pointers lead into the segment and last as long as the reader stands in it.
 * CL_E_ROLL: the segment is at its end, the caller enters the next one. CL_E_END, CL_E_BUSY:
 * nothing yet. CL_E_DAMAGE: what stands at the reader's offset cannot be. */
int cl_reader_next(cl_reader *reader, cl_record *record);

/* Whether a whole, valid record stands at `offset`, and what it is. */
int cl_record_read(const cl_segment *segment, const uint8_t *bytes, uint64_t offset,
                   cl_record *record, uint64_t *step);

/* What a reader that has caught up does until there is more. */
typedef enum { CL_IDLE_SPIN, CL_IDLE_YIELD, CL_IDLE_BACKOFF, CL_IDLE_BLOCK } cl_idle;
#define CL_BACKOFF_SPINS 100u
#define CL_BACKOFF_YIELDS 200u
#define CL_NAP_FIRST_NS 10000ll
#define CL_NAP_LONGEST_NS 1000000ll
/* Looks at a claim before anybody asks who its owner is, and looks that a wait begins with: about 1
 * and 6 us. */
#define CL_READER_LOOKS 16u
#define CL_SPIN_LOOKS 128u

/* Looks at the reader's place, and nowhere else, up to CL_SPIN_LOOKS times; true when a look at the
 * record is worth while. A reader that is as fast as its writer would have every record's cache
 * line taken from the writer who is about to write it: while records come in a stream, the reader
 * first stays away until there are several. */
bool cl_reader_spin(cl_reader *reader);

/* Waits, at most budget_ns, until a look is worth while. Never sleeps longer than the budget, and
 * behind a claim or a gap about a millisecond: the reader itself is who resolves it. */
bool cl_reader_wait(cl_reader *reader, cl_idle idle, int64_t budget_ns);

/* For whoever waits on behalf of others. Says that somebody sleeps; the signal to sleep on,
 * `append_signal`, as it was before. Every publish that the next look does not see raises it. */
uint32_t cl_sleeper_announce(cl_cursors *cursors);
/* Whether a look is worth while, a claim or a gap that only looks resolve included. */
bool cl_reader_news(const cl_reader *reader);

/* Columns of a batch; each array has room for `most` records (offset arrays for one more). */
typedef struct {
    int64_t *positions;
    int64_t *timestamps_ns;
    uint32_t *types;
    uint8_t *keyed;
    int64_t *value_ends; /* [n] into data, after record n */
    int64_t *key_ends; /* [n] into keys */
    uint8_t *data;
    uint8_t *keys;
    size_t data_room;
    size_t keys_room;
    size_t most;
    size_t count;
    size_t data_size;
    size_t keys_size;
} cl_batch;

/* One more row; false where its bytes have no room. */
bool cl_batch_add(cl_batch *batch, const cl_record *record);

/* Copies what stands at `offset`, if it is a published record without key and type for which there
 * is room, into row `row`. The CRC is that of what was copied. Gives what the frame takes in the
 * segment; 0, and changes nothing, where anything else stands there. The columns that such records
 * have in common are filled in the end, by cl_batch_plain_rows. */
static inline uint32_t cl_batch_copy(const cl_batch *columns, size_t row, size_t *data_size,
                                     const cl_segment *segment, const uint8_t *source,
                                     uint64_t offset, uint32_t largest) {
    const uint8_t *at = source + offset;
    uint64_t cell = cl_load((const uint64_t *)at);
    uint32_t length = cl_cell_word(cell); /* with any flag in it, longer than the largest */
    uint32_t step = cl_frame_aligned(length);
    if (length < CL_FRAME_HEADER || length > largest || step > segment->size - offset ||
        length - CL_FRAME_HEADER > columns->data_room - *data_size) {
        return 0;
    }
    if (cl_frame_copy_crc(segment->seed, offset, length, at, CL_FRAME_HEADER,
                          columns->data + *data_size, at + CL_FRAME_HEADER) != cl_cell_high(cell)) {
        return 0;
    }
    *data_size += length - CL_FRAME_HEADER;
    columns->positions[row] = (int64_t)(segment->base + offset);
    memcpy(&columns->timestamps_ns[row], at + CL_FRAME_TIMESTAMP, sizeof *columns->timestamps_ns);
    columns->value_ends[row] = (int64_t)*data_size;
    return step;
}

/* That rows up to `count` were copied so. */
void cl_batch_plain_rows(cl_batch *batch, size_t count, size_t data_size);

/* Reads on into the batch until it is full (CL_E_FULL) or nothing more comes (the code of
 * cl_reader_next). */
int cl_reader_batch(cl_reader *reader, cl_batch *batch);

#endif
