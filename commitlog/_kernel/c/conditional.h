/* Appends on a condition: that the log ends at a sequence. */
#ifndef CL_CONDITIONAL_H
#define CL_CONDITIONAL_H

#include "frame_writer.h"
#include "headers.h"
#include "writer.h"

/* Lives as long as one append, through all of its attempts; all but `expect` is 0 at first. */
typedef struct {
    uint64_t expect; /* the sequence that the first record is to get */
    uint64_t place; /* of records: the tail (packed) at which they are to begin; 0: any */
    uint64_t goal; /* the tail up to which the append counts */
    int64_t deadline_ns; /* the caller's: until when it waits for open claims */
    uint32_t attempts;
    uint32_t recounts; /* how often the caller has counted */
} cl_condition;

/* Records that `sequence` records are below `position`, where a frame begins or may begin. */
void cl_counted_set(cl_writer *writer, uint64_t position, uint64_t sequence);

/* Appends one record if `expect` records are below the tail. A timestamp below 0 is the clock's;
 * CL_E_CYCLE: the cycle may have ended. CL_E_CONFLICT: there are as many as
 * `counted` says. CL_E_UNCOUNTED: the caller calls cl_counted_set, and tries again.
 * CL_E_UNRESOLVED: the claim at `counted` is open; the caller tries again later. Other codes as for
 * cl_writer_append. */
int cl_append_expected(cl_writer *writer, const cl_record_input *input, cl_condition *condition,
                       uint64_t *position);

/* Appends records as one claim on the same condition. They take `length` bytes with their headers,
 * which are as for cl_batch_append; that may be at most the size of the largest frame. CL_E_MOVED:
 * the log ends at `expect`, but not at `place`. */
int cl_append_records_expected(cl_writer *writer, const cl_record_input *records,
                               const cl_headers *headers, size_t count, uint64_t length,
                               cl_condition *condition, int64_t *positions);

/* Appends records as one claim at the tail `packed`. CL_E_MOVED: the tail is elsewhere, and
 * CL_E_ROLLED_BACK: another handle turned the claim into a SKIP. Other codes as for
 * cl_writer_append. */
int cl_append_records_at(cl_writer *writer, uint64_t packed, const cl_record_input *records,
                         const cl_headers *headers, size_t count, uint64_t length,
                         int64_t *positions);

#endif
