/* Reads the records of a log forward, either with each record's CRC checked before any field is
 * used, or by the frame headers alone. */
#ifndef CL_READER_H
#define CL_READER_H

#include "frame_cursor.h"
#include "log.h"

typedef struct {
    cl_log *log;
    cl_segment *segment; /* the caller of cl_reader_enter holds a reference */
    uint64_t offset;     /* of the next frame in it */
    bool from_buffer; /* reads where claims live (a pool buffer) instead of the file; requires the
                         interpreter's lock */
    bool flushed_only;
    bool careful; /* checks a frame's CRC before stepping over it, also when stepping by headers */
    uint64_t limit; /* the position at which the reader stops */
    uint64_t passed; /* below this offset the unpublished cells are known to be dead, and the reader
                        steps over them */
    cl_watch *watch; /* NULL: the reader stops at any other unpublished cell, dead or not */
    uint32_t streak; /* records read since this reader's last wait */
    uint32_t gap; /* number of pauses before the next wait's first poll */
    uint32_t calm; /* number of waits before the reader pauses again */
} cl_reader;

/* Initializes a reader without a segment, and resets the watch if there is one. */
void cl_reader_init(cl_reader *reader, cl_log *log, cl_watch *watch);
void cl_reader_enter(cl_reader *reader, cl_segment *segment, uint64_t offset);

/* Reads the next record. Its pointers point into the segment and are valid while the reader is in
 * it. CL_E_ROLL: the segment is at its end, the caller enters the next one. CL_E_END, CL_E_BUSY:
 * nothing yet. CL_E_DAMAGE: the bytes at the reader's offset are not a valid frame. */
int cl_reader_next(cl_reader *reader, cl_record *record);

/* Steps over the next record below offset `limit` by its header alone, and ignores the reader's own
 * limit; *at is its cursor. CL_E_ROLL: the limit is reached. Other codes as for cl_reader_next. A
 * damaged length may skip records or end inside one: the caller must detect that from the final
 * offset, and then read again with CRC checks. */
int cl_reader_step(cl_reader *reader, uint64_t limit, cl_frame_cursor *at);

/* As cl_reader_step, but steps past damage too. Records lost to damage have no ordinal. */
int cl_reader_step_past_damage(cl_reader *reader, uint64_t limit, cl_frame_cursor *at);

/* Steps over at most `most` published records, notes their offsets if `offsets` is not NULL, and
 * returns their number. Stops at any other cell, including an uncommitted one, and leaves it to
 * cl_reader_step. */
size_t cl_reader_step_run(cl_reader *reader, uint64_t limit, uint32_t *offsets, size_t most);

/* Steps over `most` records or up to `limit`, past damage. *count is the number of records
 * passed. */
int cl_reader_step_over(cl_reader *reader, uint64_t limit, uint64_t most, uint64_t *count);

/* Reads the frame at `offset` and checks its CRC. Codes as for cl_frame_read, and CL_E_DAMAGE. */
int cl_record_read(const cl_segment *segment, const uint8_t *bytes, uint64_t offset,
                   cl_record *record, uint64_t *step);

/* How a reader that has caught up waits for more. */
typedef enum { CL_IDLE_SPIN, CL_IDLE_YIELD, CL_IDLE_BACKOFF, CL_IDLE_BLOCK } cl_idle;
#define CL_BACKOFF_SPINS 100u
#define CL_BACKOFF_YIELDS 200u
#define CL_NAP_FIRST_NS 10000ll
#define CL_NAP_LONGEST_NS 1000000ll
/* Polls of a claim before the reader probes whether its owner lives, and polls at the start of a
 * wait: about 1 and 6 us. */
#define CL_READER_LOOKS 16u
#define CL_SPIN_LOOKS 128u

/* Polls the cell at the reader's offset, and no other memory, up to CL_SPIN_LOOKS times. Returns
 * true if a read may find a record. A reader as fast as its writer would take each record's cache
 * line from the writer that is about to write it. While records arrive in a stream, the reader
 * therefore pauses first, until there are several. */
bool cl_reader_spin(cl_reader *reader);

/* Waits until a read may find a record, at most budget_ns. At an unpublished claim or a gap it
 * waits about a millisecond at most, because only a read probes the owner and resolves it. Returns
 * whether a record was found; if not, the caller reads again. */
bool cl_reader_wait(cl_reader *reader, cl_idle idle, int64_t budget_ns);

/* For a thread that waits on behalf of other readers. Announces a sleeper and returns the previous
 * value of `append_signal`, the futex to sleep on. Every publish that the next poll does not see
 * raises it. */
uint32_t cl_sleeper_announce(cl_cursors *cursors);
/* Whether a read may find a record, or may resolve a claim or a gap. */
bool cl_reader_news(const cl_reader *reader);

/* A value or key as Arrow's binary view: 32 bits of length, then up to CL_VIEW_INLINE bytes in the
 * view itself; of a longer one, 32 bits each of its first bytes, its buffer (0) and its offset. */
typedef struct {
    uint64_t words[2];
} cl_view;
#define CL_VIEW_INLINE 12u

/* Columns of a batch; each array has room for `most` records (offset arrays for one more). The
 * caller may pass NULL for positions, timestamps, types, the key arrays (keyed, keys and their ends
 * or views) or the value arrays (data and its ends or views). Either value_ends or value_views
 * locates the values; the same holds for keys. For views, `data` and `keys` have CL_VIEW_INLINE
 * spare bytes beyond their stated size. The CRC check covers omitted columns as well. Backward
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

/* The first `count` bytes of a word; the others are zero. */
static inline uint64_t cl_low_bytes(uint64_t word, uint32_t count) {
    return count >= sizeof word ? word : word & ((UINT64_C(1) << count * 8) - 1);
}

/* An inline view of `length` bytes: `first` has the first eight, `rest` the others. */
static inline cl_view cl_view_inline(uint64_t first, uint64_t rest, uint32_t length) {
    first = cl_low_bytes(first, length);
    rest = length > 8 ? cl_low_bytes(rest, length - 8) : 0;
    return (cl_view){.words = {length | first << 32, first >> 32 | rest << 32}};
}

static inline cl_view cl_view_of(const uint8_t *data, size_t start, uint32_t length) {
    uint64_t first;
    uint32_t rest;
    memcpy(&first, data + start, sizeof first);
    if (length > CL_VIEW_INLINE) {
        return (cl_view){.words = {length | first << 32, (uint64_t)start << 32}};
    }
    memcpy(&rest, data + start + sizeof first, sizeof rest);
    return cl_view_inline(first, rest, length);
}

/* The bytes of data that a value or key of `length` bytes takes. */
static inline uint32_t cl_data_size(uint32_t length, bool views) {
    return views && length <= CL_VIEW_INLINE ? 0 : length;
}

/* Stores the location of a row's value or key, whose bytes were copied to `start`, in `views`, or
 * in `ends` if `views` is NULL. Returns the new size of the data. */
static inline size_t cl_column_end(const uint8_t *data, int64_t *ends, cl_view *views, size_t row,
                                   size_t start, uint32_t length) {
    size_t end = start + cl_data_size(length, views != NULL);
    if (views != NULL) {
        views[row] = cl_view_of(data, start, length);
    } else {
        ends[row] = (int64_t)end;
    }
    return end;
}

static inline void cl_batch_note(const cl_batch *columns, size_t row, uint64_t position,
                                 int64_t timestamp_ns) {
    if (columns->positions != NULL) {
        columns->positions[row] = (int64_t)position;
    }
    if (columns->timestamps_ns != NULL) {
        columns->timestamps_ns[row] = timestamp_ns;
    }
}

/* Copies the frame at `offset` into row `row` if it is a published record without key and type and
 * the batch has room for it. Computes the CRC over the copied bytes. Returns the frame's size in
 * the segment, or 0 with nothing changed. cl_batch_plain_rows fills the columns that such records
 * have in common. */
static inline uint32_t cl_batch_copy(const cl_batch *columns, size_t row, size_t *data_size,
                                     const cl_segment *segment, const uint8_t *source,
                                     uint64_t offset, uint32_t largest) {
    const uint8_t *at = source + offset;
    uint64_t cell = cl_load((const uint64_t *)at);
    uint32_t length = cl_cell_word(cell);
    uint32_t step = cl_frame_aligned(length);
    if (!cl_frame_is_plain(length, largest) || step > segment->size - offset) {
        return 0;
    }
    uint32_t value_length = length - CL_FRAME_HEADER, crc;
    if (columns->data == NULL) {
        crc = cl_frame_crc(segment->seed, offset, length, at + CL_FRAME_TIMESTAMP,
                           length - CL_FRAME_TIMESTAMP);
    } else if (value_length > columns->data_room - *data_size) {
        return 0;
    } else {
        crc = cl_frame_copy_crc(segment->seed, offset, length, at, CL_FRAME_HEADER,
                                columns->data + *data_size, at + CL_FRAME_HEADER);
    }
    if (crc != cl_cell_high(cell)) {
        return 0;
    }
    int64_t timestamp_ns;
    memcpy(&timestamp_ns, at + CL_FRAME_TIMESTAMP, sizeof timestamp_ns);
    cl_batch_note(columns, row, segment->base + offset, timestamp_ns);
    if (columns->data != NULL) {
        *data_size = cl_column_end(columns->data, columns->value_ends, columns->value_views, row,
                                   *data_size, value_length);
    }
    return step;
}

/* Completes the rows up to `count` that cl_batch_copy has copied. */
void cl_batch_plain_rows(cl_batch *batch, size_t count, size_t data_size);

/* Reads into the batch while the records below offset `limit` are published and whole. Leaves any
 * other cell, including one whose CRC does not match, to cl_reader_next or cl_reader_step, which
 * classify it. */
void cl_reader_batch_whole(cl_reader *reader, uint64_t limit, cl_batch *batch);

/* Reads into the batch until it is full (CL_E_FULL) or no further record is readable (the code of
 * cl_reader_next). */
int cl_reader_batch(cl_reader *reader, cl_batch *batch);

#endif
