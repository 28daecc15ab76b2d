/* Appends one record. */
#ifndef CL_APPEND_H
#define CL_APPEND_H

#include "claim.h"

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

/* Appends one record at the tail `packed`. A timestamp below 0 is the clock's. CL_E_MOVED: the tail
 * is elsewhere. CL_E_ROLLED_BACK: another handle turned the claim into a SKIP. */
int cl_append_at(cl_writer *writer, uint64_t packed, const cl_record_input *input,
                 uint64_t *position);

#endif
