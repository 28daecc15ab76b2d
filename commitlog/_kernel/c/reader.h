/* Reads the records of a log forward, either with each record's CRC checked before any field is
 * used, or by the frame headers alone. */
#ifndef CL_READER_H
#define CL_READER_H

#include "batch.h"
#include "log.h"

typedef struct {
    cl_log *log;
    cl_segment *segment; /* the caller of cl_reader_enter holds a reference */
    uint64_t offset;     /* of the next frame in it */
    bool from_buffer; /* reads where claims live (a pool buffer) instead of the file; requires the
                         interpreter's lock */
    const uint64_t *watermark; /* the reader stays below it; NULL: it reads all committed records */
    uint32_t *watermark_signal; /* futex: raised when the watermark moves */
    bool careful; /* checks a frame's CRC before stepping over it, also when stepping by headers */
    uint64_t limit; /* the position at which the reader stops */
    uint64_t short_below; /* cl_reader_next_short reads frames that end below this offset, or there;
                             0: none */
    uint64_t passed; /* below this offset the unpublished cells are known to be dead, and the reader
                        steps over them */
    cl_watch *watch; /* NULL: the reader stops at any other unpublished cell, dead or not */
    uint64_t far_from; /* CL_READER_FAR bytes behind the frame for which this reader waited last:
                          there it begins to fetch ahead */
    uint32_t gap; /* number of pauses before the next wait's first poll */
    uint32_t calm; /* number of waits before the reader pauses again */
    uint64_t rested; /* position at which the last wait backed off for its whole time; 0: none */
    bool announces; /* writers see that this reader sleeps, and wake it */
} cl_reader;

/* Initializes a reader without a segment, and resets the watch if there is one. */
void cl_reader_init(cl_reader *reader, cl_log *log, cl_watch *watch);
void cl_reader_enter(cl_reader *reader, cl_segment *segment, uint64_t offset);
void cl_reader_leave(cl_reader *reader);
/* Sets `short_below`, after a change of what it depends on: segment, limit, sources. */
void cl_reader_plan(cl_reader *reader);

/* The offset in the segment at which the reader must stop for now. */
static inline uint64_t cl_reader_limit(const cl_reader *reader) {
    uint64_t visible = reader->watermark != NULL ? cl_load(reader->watermark) : UINT64_MAX;
    uint64_t limit = visible < reader->limit ? visible : reader->limit;
    return limit > reader->segment->base ? limit - reader->segment->base : 0;
}

/* Reads the next record. Its pointers point into the segment and are valid while the reader is in
 * it. CL_E_ROLL: the segment is at its end, the caller enters the next one. CL_E_END, CL_E_BUSY:
 * nothing yet. CL_E_DAMAGE: the bytes at the reader's offset are not a valid frame. */
int cl_reader_next(cl_reader *reader, cl_record *record);

/* Reads the next record if it is published, whole, short and without key and type, with the CRC's
 * instructions inline. Otherwise returns false, changes nothing but *record, and leaves the cell to
 * cl_reader_next, which classifies it. */
bool cl_reader_next_short(cl_reader *reader, cl_record *record);

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
/* Bytes without a wait. A reader that is closer behind a writer must not take the cache lines that
 * the writer uses next. */
#define CL_READER_FAR (16u << 10)
/* Polls of a claim before the reader probes whether its owner lives, and polls at the start of a
 * wait: about 1 and 6 us. */
#define CL_READER_LOOKS 16u
#define CL_SPIN_LOOKS 128u

/* Polls the cell at the reader's offset, and no other memory, up to CL_SPIN_LOOKS times. Returns
 * true if a read may find a record. A reader as fast as its writer would take each record's cache
 * line from the writer that is about to write it. While records arrive in a stream, the reader
 * therefore pauses first, until there are several. */
bool cl_reader_spin(cl_reader *reader);

/* Waits until a read may find a record, at most budget_ns. A reader that announces itself sleeps on
 * the futex in the end, and so does one that backs off, after some 2 ms; its next wait for the same
 * record begins there. At an unpublished claim or a gap it
 * waits about a millisecond at most, because only a read probes the owner and resolves it. Returns
 * whether a record was found; if not, the caller reads again. */
bool cl_reader_wait(cl_reader *reader, cl_idle idle, int64_t budget_ns);

/* For a thread that waits on behalf of other readers. Announces a sleeper and returns the previous
 * value of `append_signal`, the futex to sleep on. Every publish that the next poll does not see
 * raises it. */
uint32_t cl_sleeper_announce(cl_cursors *cursors);
/* Sleeps on `append_signal` until it differs from `seen`. An appender wakes one sleeper, which
 * wakes the others: the appender's time does not depend on their number. */
void cl_sleeper_wait(cl_cursors *cursors, uint32_t seen, int64_t timeout_ns);
/* Whether a read may find a record, or may resolve a claim or a gap. */
bool cl_reader_news(const cl_reader *reader);

/* Reads into the batch while the records below offset `limit` are published and whole. Leaves any
 * other cell, including one whose CRC does not match, to cl_reader_next or cl_reader_step, which
 * classify it. */
void cl_reader_batch_whole(cl_reader *reader, uint64_t limit, cl_batch *batch);

/* Reads into the batch until it is full (CL_E_FULL) or no further record is readable (the code of
 * cl_reader_next). */
int cl_reader_batch(cl_reader *reader, cl_batch *batch);

#endif
