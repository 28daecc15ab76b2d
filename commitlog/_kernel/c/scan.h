/* Scans whole segments: for recovery, verification, seals. */
#ifndef CL_SCAN_H
#define CL_SCAN_H

#include "log.h"

typedef struct {
    uint64_t offset; /* where the scan stopped */
    int code;        /* CL_OK at `to` or the segment's end; CL_E_END zero cell, CL_E_BUSY claim,
                        CL_E_DAMAGE */
    uint64_t skipped; /* bytes in SKIP frames */
    cl_tally tally;
} cl_scan;

/* Checks every frame in [from, to) of what `segment` maps. */
void cl_segment_scan(const cl_segment *segment, uint64_t from, uint64_t to, cl_scan *scan);

/* Copies the frames that are valid and whole in [from, to) of what `segment` maps; `copy` has room
 * for all, at an address aligned as frames are. Sets *end to where the copied frames end, and *crc
 * to the CRC of the copy. Returns CL_OK at `to`, CL_E_ABSENT if a frame ends behind it, else what
 * is there. */
int cl_segment_copy(const cl_segment *segment, uint64_t from, uint64_t to, uint8_t *copy,
                    uint64_t *end, uint32_t *crc);
/* Returns `to`, or the end of the frame at `from` if that ends behind it. */
uint64_t cl_first_frame_end(const cl_segment *segment, uint64_t from, uint64_t to);

/* Adds the cells of the frames that are whole in [from, to) to *digest, and returns where these
 * frames end. Does not check CRCs: the cell of a record has the CRC of its content. The rest of a
 * SKIP is left out, because its late owner may still write there. Two digests that began as one
 * value and once differ never become equal again by equal cells. */
uint64_t cl_segment_digest(const cl_segment *segment, uint64_t from, uint64_t to, uint64_t *digest);

/* Offset of the first byte in [from, to) that is not zero, or `to`. */
uint64_t cl_segment_nonzero(const cl_segment *segment, uint64_t from, uint64_t to);

/* The offset of the next frame with a valid CRC after `offset`, or the segment's size. */
uint64_t cl_segment_resume(const cl_segment *segment, uint64_t offset);
/* The same for a segment that may still be written; searches only its allocated blocks. */
uint64_t cl_log_resume(const cl_log *log, const cl_segment *segment, uint64_t offset);

/* The first offset at or after `offset` that a reader from the segment's start reaches: `offset`
 * itself, unless it lies inside a frame. Passes damage as readers do. */
uint64_t cl_segment_landing(const cl_segment *segment, uint64_t offset);

/* The end of the last frame with a valid CRC at or after `offset`, or `offset` if there is none.
 * `bytes` holds the segment's bytes: the mapping, or a buffer. */
uint64_t cl_segment_certain_end(const cl_segment *segment, const uint8_t *bytes, uint64_t offset);

/* Turns zero cells from `from` on into SKIP frames of one cell each, up to `to` or to the first
 * byte that is not zero. Returns where it stopped. For recovery, under the exclusive lock. */
uint64_t cl_segment_mark_gap(cl_segment *segment, uint64_t from, uint64_t to);

/* Copies the frames from `*offset` of a buffer on into the file: valid ones unchanged, claims as
 * SKIP frames of the same length. On return, *offset is the end of the copied frames. Returns how
 * many claims there were. For recovery, under the exclusive lock. */
uint64_t cl_segment_take_over(cl_segment *segment, const uint8_t *source, uint64_t *offset);

/* Writes the seal of a fully committed segment, once. Reads the records that this handle's
 * commits did not count, and checks each CRC. CL_E_BUSY when the segment is not fully committed
 * yet. Fills an empty `index`, if not NULL, with the records of a segment that was not sealed
 * before; leaves it empty if only the counts were available. */
int cl_segment_seal(cl_segment *segment, uint64_t first_sequence, cl_index *index);
/* Reads the seal. CL_E_ABSENT: the segment has no valid seal. */
int cl_segment_sealed(const cl_segment *segment, cl_header_seal *seal);

#endif
