/* Reading backward. Frames have no pointer to the one before, so a stretch of them is gone over
 * forward from an index entry, and then read from its end. */
#ifndef CL_STRETCH_H
#define CL_STRETCH_H

#include "hop.h"

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
} cl_stretch;

/* The record before the reader's place, which moves there. CL_E_ROLL: there is none in this
 * segment. CL_E_ABSENT: the stretch does not end here, fill it. CL_E_DAMAGE: at stretch->damage;
 * the reader stays where it is. */
int cl_reader_previous(cl_reader *reader, cl_stretch *stretch, cl_record *record);

/* Fills the stretch with what stands in [from, the reader's place), of which the last frames are
 * kept. Where the end of what the reader may see comes first, its place moves there. CL_E_BUSY: a
 * claim in between is not resolved yet. */
int cl_stretch_fill(cl_reader *reader, cl_stretch *stretch, uint64_t from);

/* Steps over the damage that was reported. */
void cl_stretch_pass(cl_reader *reader, cl_stretch *stretch);

/* Reads back into the batch until it is full (CL_E_FULL) or nothing more comes (the code of
 * cl_reader_previous). */
int cl_stretch_batch(cl_reader *reader, cl_stretch *stretch, cl_batch *batch);

#endif
