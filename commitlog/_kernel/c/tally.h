/* Data that commits collect about a segment's records: counts for its seal, and a sparse index. */
#ifndef CL_TALLY_H
#define CL_TALLY_H

#include "frame.h"

/* The part of a seal that describes a segment's records. */
typedef struct {
    uint64_t records;
    uint64_t end; /* offset past the last of them */
    int64_t first_timestamp_ns;
    int64_t last_timestamp_ns;
    int64_t largest_timestamp_ns;
} cl_tally;

static inline void cl_tally_add(cl_tally *tally, int64_t timestamp_ns, uint64_t end) {
    if (tally->records == 0) {
        tally->first_timestamp_ns = tally->largest_timestamp_ns = timestamp_ns;
    }
    tally->records++;
    tally->end = end;
    tally->last_timestamp_ns = timestamp_ns;
    tally->largest_timestamp_ns =
        timestamp_ns > tally->largest_timestamp_ns ? timestamp_ns : tally->largest_timestamp_ns;
}

/* The offset of every spacing-th record, and the largest timestamp before it. */
typedef struct {
    uint64_t offset;
    int64_t earlier_ns; /* the largest timestamp of any record before this one in its segment;
                           INT64_MIN where there is none */
} cl_index_entry;

_Static_assert(sizeof(cl_index_entry) == 16, "an index file holds entries as they are here");

typedef struct {
    cl_index_entry *entries;
    size_t count;
    size_t room;
    uint32_t spacing;
    uint64_t due;        /* the ordinal of the record that the next entry is for */
    uint64_t offset;     /* end of the last indexed frame */
    uint64_t records;    /* number of records below `offset` */
    int64_t largest_ns;  /* largest timestamp of those records; INT64_MIN if there are none */
} cl_index;

/* The maximum number of entries for a segment of that size. */
static inline size_t cl_index_room(uint64_t segment_size, uint32_t spacing) {
    return (size_t)((segment_size - CL_SEGMENT_HEADER) / ((uint64_t)CL_FRAME_HEADER * spacing) + 1);
}

/* Adds the index entry that is due for the record after the first `records`, whose largest
 * timestamp is largest_ns. */
static inline void cl_index_mark(cl_index *index, uint64_t at, uint64_t records,
                                 int64_t largest_ns) {
    if (CL_UNLIKELY(records == index->due) && index->count < index->room) {
        index->entries[index->count++] =
            (cl_index_entry){.offset = at, .earlier_ns = records == 0 ? INT64_MIN : largest_ns};
        index->due += index->spacing;
    }
}

/* Adds the next record. */
static inline void cl_index_add(cl_index *index, uint64_t at, int64_t timestamp_ns) {
    cl_index_mark(index, at, index->records, index->largest_ns);
    index->records++;
    index->largest_ns = timestamp_ns > index->largest_ns ? timestamp_ns : index->largest_ns;
}

#endif
