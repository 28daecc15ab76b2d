/* Looking over whole segments: for recovery, verification, seals. */
#ifndef CL_SCAN_H
#define CL_SCAN_H

#include "reader.h"

typedef struct {
    uint64_t offset; /* where the scan stopped */
    int code;        /* CL_OK at `to` or the segment's end; CL_E_END zero cell, CL_E_BUSY claim,
                        CL_E_DAMAGE */
    uint64_t skipped; /* bytes in SKIP frames */
    cl_tally tally;
} cl_scan;

/* Checks every frame in [from, to) of what `segment` maps. */
void cl_segment_scan(const cl_segment *segment, uint64_t from, uint64_t to, cl_scan *scan);

/* Offset of the first byte in [from, to) that is not zero, or `to`. */
uint64_t cl_segment_nonzero(const cl_segment *segment, uint64_t from, uint64_t to);

/* Whether a frame certainly stands at `offset` of what stands where the file's bytes would; *step
 * is its length, padding included. */
bool cl_segment_certain(const cl_segment *segment, const uint8_t *bytes, uint64_t offset,
                        uint64_t *step);

/* Where a certain frame (valid CRC) starts next after `offset`, or the segment's size. */
uint64_t cl_segment_resume(const cl_segment *segment, uint64_t offset);

/* Where a reader that comes from the segment's start goes on at or behind `offset`: the offset
 * itself, unless it lies inside a frame. Damage is passed as readers pass it. */
uint64_t cl_segment_landing(const cl_segment *segment, uint64_t offset);

/* Where the last certain frame at or behind `offset` ends, or `offset` when there is none. `bytes`
 * is what stands where the file's bytes would: the mapping, or a buffer. */
uint64_t cl_segment_certain_end(const cl_segment *segment, const uint8_t *bytes, uint64_t offset);

/* Turns zero cells from `from` on into SKIP frames of one cell each, up to `to` or to the first
 * byte that is not zero. Returns where it stopped. For recovery, under the exclusive lock. */
uint64_t cl_segment_mark_gap(cl_segment *segment, uint64_t from, uint64_t to);

/* Copies the frames that go on at `*offset` of a buffer into the file: valid ones as they are,
 * claims as SKIP frames of their length. *offset is where they end. Returns how many claims there
 * were. For recovery, under the exclusive lock. */
uint64_t cl_segment_take_over(cl_segment *segment, const uint8_t *source, uint64_t *offset);

/* Writes the seal, once, of a segment that is committed whole. What this handle did not count while
 * it committed is read, and each CRC checked. CL_E_BUSY when the segment is not whole yet. An empty
 * `index`, where it is not NULL, takes in what is in a segment that was not sealed before; it stays
 * empty where only the count was at hand. */
int cl_segment_seal(cl_segment *segment, uint64_t first_sequence, cl_index *index);
/* The seal, or CL_E_ABSENT when the segment has none that is valid. */
int cl_segment_sealed(const cl_segment *segment, cl_header_seal *seal);

#endif
