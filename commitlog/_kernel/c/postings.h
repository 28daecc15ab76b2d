/* What the posting lists of a segment are made of: the hash and the offset of the type and of the
 * key of each record. */
#ifndef CL_POSTINGS_H
#define CL_POSTINGS_H

#include "reader.h"

/* Each pair is a hash in the upper half, an offset in the lower half. */
typedef struct {
    uint64_t *types; /* a pair a record */
    uint64_t *keys;  /* a pair a record with a key */
    size_t most;     /* room for records */
    size_t records;
    size_t keyed;
} cl_postings;

/* Adds records, with their CRCs checked, until there is no more room (CL_E_FULL) or no further
 * record (the code of cl_reader_next). The hash is the CRC-32C of the key, or of the type's four
 * bytes, which is another one for each type. */
int cl_postings_read(cl_reader *reader, cl_postings *postings);

#endif
