/* Reads backward. A frame has no pointer to the one before it, so a scan walks a range of frames
 * forward from an index entry, and the reader then reads the range from its end. */
#ifndef CL_BACKWARD_SCAN_H
#define CL_BACKWARD_SCAN_H

#include "reader.h"

typedef struct {
    uint32_t
        *offsets; /* a ring of the frames still to read; an odd offset is where damage begins */
    uint32_t room;
    uint32_t first;
    uint32_t count;
    uint64_t number; /* of the segment */
    bool careful; /* the scan met damage in it: from then on it checks every frame's CRC */
    uint64_t here; /* the offset at which its last frame ends: only a reader at this offset may use
                      the range */
    uint64_t damage; /* offset of the damage that CL_E_DAMAGE reported */
} cl_backward_scan;

/* Reads the record before the reader's offset, and moves the reader there. CL_E_ROLL: there is none
 * in this segment. CL_E_ABSENT: the range does not end here, the caller fills it. CL_E_DAMAGE: at
 * scan->damage; the reader does not move. */
int cl_backward_scan_previous(cl_reader *reader, cl_backward_scan *scan, cl_record *record);

/* Fills the range with the frames in [from, the reader's offset). If the ring is too small, it
 * keeps the last ones. If the readable range ends below the reader's offset, moves the reader to
 * that end. CL_E_BUSY: a claim in between is not resolved yet. */
int cl_backward_scan_fill(cl_reader *reader, cl_backward_scan *scan, uint64_t from);

/* Steps over the damage that was reported. */
void cl_backward_scan_pass_damage(cl_reader *reader, cl_backward_scan *scan);

/* Reads backward into the batch until it is full (CL_E_FULL) or no further record is readable (the
 * code of cl_backward_scan_previous). */
int cl_backward_scan_batch(cl_reader *reader, cl_backward_scan *scan, cl_batch *batch);

#endif
