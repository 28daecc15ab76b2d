/* How the tail leaves a segment, and what a roll notes in the header of the next. */
#ifndef CL_ROLL_H
#define CL_ROLL_H

#include "writer.h"

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

#endif
