/* An open segment, and the table of those that a handle has open. */
#ifndef CL_SEGMENT_H
#define CL_SEGMENT_H

#include <pthread.h>

#include "tally.h"

typedef struct {
    uint64_t number;
    uint64_t base;
    uint64_t size;
    uint64_t extent; /* cl_segment_measure sets it to the offset where the trailing hole began;
                        before that it is `size` */
    uint64_t id;
    uint32_t seed; /* CRC register after the id: see cl_frame_crc */
    int fd; /* for large commits of a pool buffer: the first commit opens it, the last closes it;
               else -1 */
    uint8_t *map; /* the file */
    uint8_t *bytes; /* where claims live: the pool buffer while one is attached, else the mapping */
    uint32_t references;
    uint32_t drained; /* 1: its buffer is fully committed and can return to the pool */
    uint32_t users; /* open claims whose views point into the buffer, which stays attached while
                       there are any */
    uint32_t tallied; /* the offset up to which this handle's commits counted the records from the
                         first on, or 0; under the commit mutex */
    cl_tally tally; /* final once it covers the whole segment */
    cl_index index; /* over the same records; room 0 if the log keeps no index */
} cl_segment;

typedef struct cl_table {
    int dir_fd;
    bool writable;
    uint8_t log_uuid[CL_UUID_SIZE];
    uint64_t segment_size;
    pthread_mutex_t mutex;
    cl_segment **entries; /* sorted by number; the table holds one reference to each */
    size_t count;
    size_t room;
    struct cl_table *next_table; /* of this process */
} cl_table;

#define CL_SEGMENT_NAME_SIZE 25 /* twenty digits, ".seg", zero byte */

void cl_segment_name(uint64_t base, char name[CL_SEGMENT_NAME_SIZE]);

/* Checks a header page against the caller's expectations; log_uuid NULL accepts any log. */
int cl_header_check(const void *page, const uint8_t *log_uuid, uint64_t base, uint64_t size);
uint32_t cl_header_opened_crc(uint64_t segment_id, int64_t opened_ns, int64_t cycle);
/* Copies the opened part of a header page. Returns false if no roll has written it completely. */
bool cl_header_opened_read(const void *page, uint64_t segment_id, cl_header_opened *opened);
uint32_t cl_header_durable_crc(uint64_t segment_id, uint64_t position);
/* Reads the position that was durable when the segment with this base was created; 0: unknown. */
uint64_t cl_header_durable_read(const void *page, uint64_t segment_id, uint64_t base);
uint32_t cl_header_seal_crc(uint64_t segment_id, const cl_header_seal *seal);
/* Whether a seal is written, whole and possible for a segment of `size` bytes. */
bool cl_header_seal_valid(uint64_t segment_id, uint64_t size, const cl_header_seal *seal);

/* Opens and maps segment `number`, with one reference for the caller. The mapping outlives the
 * descriptor, which is closed at once: a log may have more segments open than a process may have
 * descriptors. */
int cl_segment_open(int dir_fd, uint64_t number, uint64_t size, const uint8_t *log_uuid,
                    bool writable, cl_segment **out);
/* Finds the segment's extent, for a reader of a whole file that no handle writes. On tmpfs, a read
 * of a hole through the mapping allocates a block, and raises SIGBUS if the disk is full. */
void cl_segment_measure(int dir_fd, cl_segment *segment);
void cl_segment_hold(cl_segment *segment);
void cl_segment_release(cl_segment *segment); /* the last release unmaps */

/* Prefaults the file's pages, so that no appender takes a page fault. */
int cl_segment_prefault(cl_segment *segment, uint64_t start, uint64_t stop);
/* Unmaps the whole pages in [start, stop) from this process, if they are many. Their data stays in
 * the page cache, where readers find it. Before writeback of a mapped page the system
 * write-protects it and interrupts every processor that runs this process: page by page, which
 * costs a concurrent appender a sixth of its time. Writeback of an unmapped page needs neither. */
void cl_segment_let_go(const cl_segment *segment, uint64_t start, uint64_t stop);
/* Makes [start, stop) of the file durable. */
int cl_segment_flush(const cl_segment *segment, uint64_t start, uint64_t stop);

/* Turns the claim at `offset` into a SKIP of the same length. Returns false if its cell is not
 * `cell` any more. */
bool cl_roll_back(cl_segment *segment, uint32_t offset, uint64_t cell);
/* Returns the cell of a SKIP, its word and CRC; length 0 reaches to the segment's end. */
uint64_t cl_skip_cell(const cl_segment *segment, uint32_t offset, uint32_t length);

/* Opens the file of a segment for `fd`, if it is not open; false if that is not possible at
 * present. Under the commit mutex. */
bool cl_segment_reopen(int dir_fd, cl_segment *segment);
void cl_segment_close_file(cl_segment *segment);

/* A fork waits until no thread is changing a table. */
int cl_table_init(cl_table *table, int dir_fd, const uint8_t *log_uuid, uint64_t segment_size,
                  bool writable);
void cl_table_clear(cl_table *table);
void cl_table_after_fork(cl_table *table);
/* The segment with one more reference, opened if the table does not have it. */
int cl_table_acquire(cl_table *table, uint64_t number, cl_segment **out);
/* Forgets a segment: the next acquire opens the file anew. Returns the references that others still
 * hold. */
uint32_t cl_table_forget(cl_table *table, uint64_t number);
/* Forgets segments below `number` that only the table holds, oldest first, until `keep` entries are
 * left. */
void cl_table_trim(cl_table *table, uint64_t number, size_t keep);

#endif
