/* The appender: claim, write, publish. */
#ifndef CL_WRITER_H
#define CL_WRITER_H

#include "futex.h"
#include "log.h"

typedef struct {
    uint64_t appends; /* claims published: a batch counts once */
    uint64_t records;
    uint64_t bytes;   /* of frames, padding included */
    uint64_t refused; /* this handle's claims that another handle rolled back before they were
                         published */
    uint64_t rolls;
} cl_writer_counters;

/* How many records the log has below a position, up to which every claim is resolved. */
typedef struct {
    uint64_t packed; /* the position, in the form of the tail; 0: nothing is counted yet */
    uint64_t sequence;
    cl_watch watch; /* of the open claim there */
} cl_counted;

/* Guarded by the lock that guards the slot: in Python, the interpreter's lock. */
typedef struct {
    cl_log *log;
    uint64_t *tail;
    cl_slot *slot;
    cl_segment *segment; /* the segment of the last claim; the writer holds a reference */
    uint64_t overshot; /* the number of the segment whose end this handle's add has passed; it does
                          not add there again */
    int64_t cycle_end_ns; /* from then on the tail's cycle may have ended; INT64_MAX: the log rolls
                             by size alone */
    uint64_t fast_below; /* a short frame that ends below this tail (packed) is appended without
                            further checks: there is room, and nothing else is due; or 0 */
    uint64_t wake_tail; /* the tail at which the next publish calls `see_to` */
    uint64_t limit_tail; /* the tail beyond which an append first checks the required tailers */
    uint64_t required_seen; /* the value of the cell `required` when limit_tail was set */
    uint64_t wanted; /* the end (packed) of the last claim that needed more blocks */
    uint32_t wake_bytes;
    uint32_t largest; /* of a frame, padding included */
    uint32_t fast_length; /* a value that is shorter may be appended below `fast_below`; 0 while
                             there is no such tail, or while `largest` is 0 */
    uint32_t room; /* the offset up to which claims may reach in the segment in use: its size, or
                      one cell less than its blocks, so that it can be closed */
    uint32_t add_limit; /* larger frames claim by compare-and-swap, so that they never overshoot:
                           all of them while the segment in use has not all of its blocks */
    bool plain; /* plain stores instead of swaps: one process, one lock around every append */
    clockid_t clock; /* of timestamps */
    bool segment_missing; /* the segment of the last claim could not be opened; the writer opens it
                             before the next add */
    bool roll_due; /* the last claim ended exactly at the segment's end: this handle rolls now,
                      because no other handle would notice as soon */
    cl_writer_counters counters;
    uint64_t vain_since; /* `appends` when the current run of rolled-back claims began */
    uint32_t in_vain; /* the length of that run */
    cl_counted counted;
} cl_writer;

typedef struct {
    cl_segment *segment;
    uint32_t offset;
    uint32_t length; /* before padding */
} cl_claim;

/* The input of a frame. */
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
/* Sets the largest frame of appends that do not name one; 0 while the C API uses the writer. */
void cl_writer_set_largest(cl_writer *writer, uint32_t largest);
/* Lets appends go up to limit_tail (packed). Beyond it they fail with CL_E_LAG, as they do if
 * `required` has changed, which the writer checks after wake_bytes at the latest. Clears an earlier
 * CL_E_LAG refusal. */
void cl_writer_limit(cl_writer *writer, uint64_t limit_tail, uint64_t required_seen);
/* Writes all of a frame but its cell at `offset`, and returns the cell that publishes it. */
uint64_t cl_frame_write(const cl_segment *segment, uint32_t offset, const cl_record_input *input);

/* Appends one record. A timestamp below 0 is the clock's. CL_E_ROLL: the caller rolls to the next
 * segment and calls again. CL_E_CYCLE: the cycle may have ended; the caller closes the segment, and
 * calls again. CL_E_GROW: the caller gets blocks allocated up to one cell past `wanted`, and calls
 * again. */
int cl_writer_append(cl_writer *writer, const cl_record_input *input, uint64_t *position);
/* The same with frames of up to `largest` bytes. */
int cl_writer_append_upto(cl_writer *writer, uint32_t largest, const cl_record_input *input,
                          uint64_t *position);

/* As cl_writer_append, for a value without key and type, at the current time. */
int cl_writer_append_value(cl_writer *writer, const void *value, uint32_t length,
                           uint64_t *position);

/* Claims room for a record with swaps, in either kind of log, and completes its timestamp. Codes as
 * for cl_writer_append_upto. */
int cl_writer_claim(cl_writer *writer, uint32_t largest, cl_record_input *input, cl_claim *claim);
/* Publishes the claim with the given cell. CL_E_ROLLED_BACK: another handle turned the claim into a
 * SKIP, so that no reader saw the record. */
int cl_writer_publish(cl_writer *writer, const cl_claim *claim, uint64_t cell, uint32_t records);
/* As cl_writer_publish, for a value that is already in the claim and may be shorter than it. */
int cl_claim_publish(cl_writer *writer, const cl_claim *claim, const cl_record_input *input);
/* A claim that stays open keeps its segment, and the segment's buffer, in place. The last release
 * wakes the allocation service, which may wait for the buffer. */
void cl_claim_hold(cl_segment *segment);
void cl_claim_release(cl_log *log, cl_segment *segment);
void cl_writer_abandon(cl_writer *writer, const cl_claim *claim);

/* Claims room for one batch of `length` bytes; `length` and each frame's size are multiples of 8.
 * A timestamp below 0 becomes the clock's. The caller writes frames into it with cl_frame_write,
 * and the first frame's cell last, with cl_batch_publish. */
int cl_batch_claim(cl_writer *writer, uint32_t length, int64_t *timestamp_ns, cl_claim *claim);
int cl_batch_publish(cl_writer *writer, const cl_claim *claim, uint64_t first_cell,
                     uint32_t records);

/* Equal rows of bytes, each a record. */
typedef struct {
    const uint8_t *data;
    size_t count;
    size_t stride;
    uint32_t length;
    int64_t timestamp_ns; /* below 0: each batch takes the clock's time */
} cl_rows;

/* Appends rows from *done on in batches, and advances *done. CL_E_ROLL, CL_E_CYCLE: the caller
 * rolls, or closes the segment, and calls again. */
int cl_writer_append_rows(cl_writer *writer, const cl_rows *rows, size_t *done, int64_t *positions);
/* As cl_writer_append_rows, for records of any kind, none of which is larger than the largest
 * frame. A timestamp below 0 is the clock's at the record's batch. */
int cl_writer_append_records(cl_writer *writer, const cl_record_input *records, size_t count,
                             size_t *done, int64_t *positions);
/* Writes records into a batch's claim, which they fill, and publishes them as cl_batch_publish. */
int cl_batch_append(cl_writer *writer, const cl_claim *claim, const cl_record_input *records,
                    size_t count, int64_t now_ns, int64_t *positions);

/* Closes a segment early, if the tail is in it: moves the tail to its end and turns the rest into a
 * SKIP. CL_SEGMENT_CURRENT: the segment that the tail is in. */
#define CL_SEGMENT_CURRENT UINT64_MAX
int cl_writer_close_segment(cl_writer *writer, uint64_t number);
/* Records in the header of segment `number` when the log rolled into it. Only the first call
 * writes; *opened_ns is what the first call wrote. */
int cl_writer_open_segment(cl_writer *writer, uint64_t number, int64_t now_ns, int64_t *opened_ns);
/* Moves the tail from the end of segment `number` to the next one, whose file must be in place.
 * Idempotent. If the log has cycles, now_ns is the time from cl_writer_open_segment and `cycle` the
 * cycle of that time, so that all handles that roll write the same header. */
int cl_writer_roll(cl_writer *writer, uint64_t number, int64_t now_ns, int64_t cycle);
/* Rolls from segment `number` without help, if the next one is ready: see `ready_below`. Any other
 * code than CL_OK: the caller makes the next segment ready and rolls with cl_writer_roll. */
int cl_writer_roll_ahead(cl_writer *writer, uint64_t number);
/* The segment number to roll from, or UINT64_MAX if the tail is inside a segment. */
uint64_t cl_writer_rolls_from(const cl_writer *writer);

#endif
