/* Appends rows and records in batches. */
#ifndef CL_ROWS_H
#define CL_ROWS_H

#include "claim.h"
#include "headers.h"

/* Equal rows of bytes, each a record. */
typedef struct {
    const uint8_t *data;
    size_t count;
    size_t stride;
    uint32_t length;
    int64_t timestamp_ns; /* below 0: each batch takes the clock's time */
} cl_rows;

/* Appends rows from *done on in batches, and advances *done. CL_E_ROLL, CL_E_CYCLE: the caller
 * rolls, or closes the segment, and calls again. */
int cl_writer_append_rows(cl_writer *writer, const cl_rows *rows, size_t *done, int64_t *positions);
/* As cl_writer_append_rows, for records of any kind, none of which is larger than the largest
 * frame. A timestamp below 0 is the clock's at the record's batch. */
int cl_writer_append_records(cl_writer *writer, const cl_record_input *records, size_t count,
                             size_t *done, int64_t *positions);
/* Writes records into a batch's claim, which they fill, and publishes them as cl_batch_publish.
 * `headers` are as many as records; NULL: no record has any. */
int cl_batch_append(cl_writer *writer, const cl_claim *claim, const cl_record_input *records,
                    const cl_headers *headers, size_t count, int64_t now_ns, int64_t *positions);

#endif
