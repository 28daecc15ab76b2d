/* Reads only the records of some types or of a key: in a segment that has posting lists, those at
 * the listed offsets; in any other one, by a scan. A list may name a record too many, because two
 * keys may have one hash, but it lacks none. */
#ifndef CL_SELECTION_H
#define CL_SELECTION_H

#include "backward_scan.h"

typedef struct {
    const uint32_t *types; /* NULL: every type */
    size_t type_count;
    uint32_t noted_type; /* with `notes`: records of this type are returned, too, with any
                            key: the caller learns types from them */
    bool notes;
    const uint8_t *key; /* NULL: every record, with a key or without */
    size_t key_length;
    const uint32_t *offsets; /* listed, ascending; of one segment */
    size_t count;
    uint64_t listed; /* `offsets` has every wanted record below this offset; 0: it has none */
    size_t at; /* if the reader is at `here`, its next listed offset is offsets[at] */
    uint64_t here;
} cl_selection;

/* Begins with a segment: its list, and up to which offset that is complete. */
void cl_selection_list(cl_selection *selection, const uint32_t *offsets, size_t count,
                       uint64_t listed);

/* Whether a record has the types and the key, without the ones that are only noted. */
bool cl_selection_wants(const cl_selection *selection, const cl_record *record);

/* Reads the next wanted or noted record. Looks at `most` records at most, then CL_E_FULL. Other
 * codes as for cl_reader_next. If a listed record cannot be read, the selection drops the list and
 * scans, so that damage is met as by any reader. */
int cl_selection_next(cl_selection *selection, cl_reader *reader, cl_record *record, size_t most);

/* The same backward, with the codes of cl_backward_scan_previous. */
int cl_selection_previous(cl_selection *selection, cl_reader *reader, cl_backward_scan *scan,
                          cl_record *record, size_t most);

#endif
