/* The appender: claim, write, publish (DESIGN section 4). */
#ifndef CL_WRITER_H
#define CL_WRITER_H

#include "log.h"

typedef struct {
    uint64_t appends; /* claims published: a batch counts once */
    uint64_t records;
    uint64_t bytes;   /* of frames, padding included */
    uint64_t refused; /* own claims that others rolled back before they were published */
    uint64_t rolls;
} cl_writer_counters;

/* Guarded by whoever guards the slot: under Python the interpreter's lock. */
typedef struct {
    cl_log *log;
    uint64_t *tail;
    cl_slot *slot;
    cl_segment *segment; /* the one the last claim fell into; a reference is held */
    uint64_t overshot; /* the segment number in which this handle has added past the end; it does
                          not add there again */
    int64_t cycle_end_ns; /* from then on the tail's cycle may be over; INT64_MAX: the log rolls by
                             size alone */
    uint64_t wake_tail; /* the tail's place at which there is something to see to: see `see_to` */
    uint64_t limit_tail; /* how far appends may go before a required tailer is looked at */
    uint64_t required_seen; /* the cell `required` when that was found out */
    uint32_t wake_bytes;
    uint32_t largest; /* of a frame, padding included */
    bool plain; /* plain stores instead of swaps: one process, one lock around every append */
    bool precise; /* timestamps from the precise clock */
    bool segment_missing; /* the segment of the last claim could not be opened: it is opened before
                   the next add */
    bool roll_due; /* the last claim met the segment's end exactly: roll now, nobody else will
                      notice so soon */
    cl_writer_counters counters;
    uint64_t vain_since; /* `appends` when the claims in a row began that others rolled back */
    uint32_t in_vain; /* how many those are */
} cl_writer;

typedef struct {
    cl_segment *segment;
    uint32_t offset;
    uint32_t length; /* before padding */
} cl_claim;

/* What a frame is made of. */
typedef struct {
    const void *value;
    const void *key;
    uint32_t value_length;
    uint32_t key_length; /* CL_KEYLEN_NONE: not keyed */
    uint32_t type;
    int64_t timestamp_ns;
} cl_record_input;

static inline bool cl_input_extended(const cl_record_input *input) {
    return input->type != 0 || input->key_length != CL_KEYLEN_NONE;
}

/* Frame length before padding. 64-bit, so that no sum of lengths can wrap. */
static inline uint64_t cl_input_length(const cl_record_input *input) {
    uint64_t header = cl_input_extended(input) ? CL_FRAME_EXTENDED : CL_FRAME_HEADER;
    return header + (input->key_length == CL_KEYLEN_NONE ? 0 : input->key_length) +
           input->value_length;
}

void cl_writer_init(cl_writer *writer, cl_log *log, bool plain, bool precise, uint32_t wake_bytes);
void cl_writer_clear(cl_writer *writer);
/* Appends may go up to a packed, and are refused beyond with CL_E_LAG; or when `required` is not
 * what it was, at the next look, which is after wake_bytes at the latest. Lets appends through
 * again that were refused so. */
void cl_writer_limit(cl_writer *writer, uint64_t limit_tail, uint64_t required_seen);
int64_t cl_writer_now(const cl_writer *writer);

/* Writes all of a frame but its cell at `offset`, and returns the cell that publishes it. */
uint64_t cl_frame_write(const cl_segment *segment, uint32_t offset, const cl_record_input *input);

/* Appends one record. CL_E_ROLL: the caller rolls to the next segment and calls again. */
int cl_writer_append(cl_writer *writer, const cl_record_input *input, uint64_t *position);

/* The same of a value without key and type, now. CL_E_CYCLE: the cycle may be over by now. */
int cl_writer_append_value(cl_writer *writer, const void *value, uint32_t length,
                           uint64_t *position);

/* Claims `length` bytes with swaps, in either kind of log. */
int cl_writer_claim(cl_writer *writer, uint32_t length, cl_claim *claim);
/* Publishes with the given cell. CL_E_ROLLED_BACK: somebody turned the claim into a SKIP; nobody
 * saw the record. */
int cl_writer_publish(cl_writer *writer, const cl_claim *claim, uint64_t cell, uint32_t records);
void cl_writer_abandon(cl_writer *writer, const cl_claim *claim);

/* Room for one batch of `length` bytes, all multiples of 8: frames are written into it with
 * cl_frame_write, the first one's cell last of all through cl_batch_publish. */
int cl_batch_claim(cl_writer *writer, uint32_t length, cl_claim *claim);
int cl_batch_publish(cl_writer *writer, const cl_claim *claim, uint64_t first_cell,
                     uint32_t records);

/* Equal rows of bytes, each a record. */
typedef struct {
    const uint8_t *data;
    size_t count;
    size_t stride;
    uint32_t length;
    int64_t timestamp_ns; /* below 0: the clock's at each batch */
} cl_rows;

/* Appends rows from *done on in batches, and moves *done along. CL_E_ROLL, CL_E_CYCLE: roll, close,
 * then call again. */
int cl_writer_append_rows(cl_writer *writer, const cl_rows *rows, size_t *done, int64_t *positions);

/* Closes a segment early, if the tail stands in it: the tail goes to its end, what is left becomes
 * a SKIP. CL_SEGMENT_CURRENT: the one that the tail stands in. */
#define CL_SEGMENT_CURRENT UINT64_MAX
int cl_writer_close_segment(cl_writer *writer, uint64_t number);
/* Notes in the header of segment `number` when the log rolled into it. The first note stands: that
 * is *opened_ns. */
int cl_writer_open_segment(cl_writer *writer, uint64_t number, int64_t now_ns, int64_t *opened_ns);
/* Moves the tail from the end of segment `number` to the next one, whose file must be in place.
 * Idempotent. Where a log has cycles, now_ns is what the segment was opened with, and the cycle the
 * one that this time lies in, so that all who roll write the same. */
int cl_writer_roll(cl_writer *writer, uint64_t number, int64_t now_ns, int64_t cycle);
/* The segment number to roll from, or UINT64_MAX when the tail stands inside a segment. */
uint64_t cl_writer_rolls_from(const cl_writer *writer);

#endif
