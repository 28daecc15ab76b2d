/* Records with what stands in front of them in the same claim: headers, and the mark of a producer.
 */
#ifndef CL_MARKED_H
#define CL_MARKED_H

#include "frame_writer.h"
#include "headers.h"
#include "mark.h"
#include "writer.h"

/* Writes headers, if there are any, the mark, if it is not NULL, and the record, one behind the
 * other, and returns the first cell, which is not written. */
uint64_t cl_marked_write(const cl_segment *segment, uint32_t offset, const cl_record_input *input,
                         const cl_headers *headers, const cl_mark *mark);

/* As cl_writer_append, with headers, if there are any, and the mark, if it is not NULL. */
int cl_append_marked(cl_writer *writer, const cl_record_input *input, const cl_headers *headers,
                     const cl_mark *mark, uint64_t *position);

#endif
