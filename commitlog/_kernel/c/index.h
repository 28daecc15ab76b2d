/* Finding records with a sparse index. */
#ifndef CL_INDEX_H
#define CL_INDEX_H

#include "reader.h"

/* Extends the index from index->offset up to `limit`, and returns the code that ended the walk:
 * CL_E_ROLL at the limit. */
int cl_index_extend(cl_index *index, cl_reader *reader, uint64_t limit);

/* The number of the last entry at or below `offset`; SIZE_MAX if there is none. */
size_t cl_index_below(const cl_index *index, uint64_t offset);

/* The offset of a record by its ordinal in the segment. Codes as for cl_reader_step, with
 * index->offset as the limit. */
int cl_index_find(const cl_index *index, cl_reader *reader, uint64_t ordinal, uint64_t *at);

/* The offset of the first record whose timestamp is not smaller. */
int cl_index_since(const cl_index *index, cl_reader *reader, int64_t timestamp_ns, uint64_t *at);

/* How many records begin below `offset`; reader->offset is `offset` where a frame begins or ends
 * there, else larger. */
int cl_index_ordinal(const cl_index *index, cl_reader *reader, uint64_t offset, uint64_t *ordinal);

#endif
