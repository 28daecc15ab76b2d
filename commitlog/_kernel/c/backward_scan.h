/* Reading backward. Frames have no pointer to the one before, so a stretch of them is gone over
 * forward from an index entry, and then read from its end. */
#ifndef CL_BACKWARD_SCAN_H
#define CL_BACKWARD_SCAN_H

#include "reader.h"

typedef struct {
    uint32_t *offsets; /* a ring of those still to be read; an odd one is where damage begins */
    uint32_t room;
    uint32_t first;
    uint32_t count;
    uint64_t number;   /* of the segment */
    bool careful; /* damage was met in it: from then on every frame's CRC is checked on the way */
    uint64_t here; /* the offset at which its last frame ends: the stretch is good for a reader that
                      stands there */
    uint64_t damage; /* offset of the damage that CL_E_DAMAGE was about */
} cl_backward_scan;

/* The record before the reader's place, which moves there. CL_E_ROLL: there is none in this
 * segment. CL_E_ABSENT: the stretch does not end here, fill it. CL_E_DAMAGE: at scan->damage; the
 * reader stays where it is. */
int cl_backward_scan_previous(cl_reader *reader, cl_backward_scan *scan, cl_record *record);

/* Fills the stretch with what stands in [from, the reader's place), of which the last frames are
 * kept. Where the end of what the reader may see comes first, its place moves there. CL_E_BUSY: a
 * claim in between is not resolved yet. */
int cl_backward_scan_fill(cl_reader *reader, cl_backward_scan *scan, uint64_t from);

/* Steps over the damage that was reported. */
void cl_backward_scan_pass_damage(cl_reader *reader, cl_backward_scan *scan);

/* Reads back into the batch until it is full (CL_E_FULL) or nothing more comes (the code of
 * cl_backward_scan_previous). */
int cl_backward_scan_batch(cl_reader *reader, cl_backward_scan *scan, cl_batch *batch);

#endif
