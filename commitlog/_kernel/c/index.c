#include "index.h"

int cl_index_extend(cl_index *index, cl_hop *hop, uint64_t limit) {
    hop->offset = index->offset;
    for (;;) {
        uint64_t at;
        int code = cl_hop_whole(hop, limit, &at);
        index->offset = hop->offset;
        if (code != CL_OK) {
            return code;
        }
        cl_index_add(index, at, cl_hop_timestamp(hop, at));
    }
}

size_t cl_index_below(const cl_index *index, uint64_t offset) {
    size_t low = 0;
    size_t high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->entries[middle].offset <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? SIZE_MAX : low - 1;
}

/* Stands at an entry, or at the segment's first frame where there is none; how many records are
 * before it. */
static uint64_t stand_at(const cl_index *index, cl_hop *hop, size_t entry) {
    hop->offset = entry < index->count ? index->entries[entry].offset : CL_SEGMENT_HEADER;
    return entry < index->count ? (uint64_t)entry * index->spacing : 0;
}

/* Whether the way from an entry leads to the next with as many records as there should be: none has
 * been damaged since. */
static bool leads_on(const cl_index *index, cl_hop *hop, size_t entry) {
    uint64_t before = stand_at(index, hop, entry);
    uint64_t records =
        index->records - before < index->spacing ? index->records - before : index->spacing;
    uint64_t counted = 0;
    uint64_t at = 0;
    while (counted < records && cl_hop_next(hop, index->offset, &at) == CL_OK) {
        counted++;
    }
    if (counted < records || entry + 1 >= index->count) {
        return counted == records;
    }
    return cl_hop_next(hop, index->offset, &at) == CL_OK && at == index->entries[entry + 1].offset;
}

/* Stands at an entry, and goes on with care where the stretch from there has been damaged. */
static uint64_t stand_checked(const cl_index *index, cl_hop *hop, size_t entry) {
    hop->careful = false;
    hop->careful = !leads_on(index, hop, entry < index->count ? entry : 0);
    return stand_at(index, hop, entry);
}

int cl_index_find(const cl_index *index, cl_hop *hop, uint64_t ordinal, uint64_t *at) {
    uint64_t entry = ordinal / index->spacing;
    entry = entry < index->count ? entry : index->count - (index->count != 0);
    uint64_t before = stand_checked(index, hop, (size_t)entry);
    uint64_t passed;
    int code = cl_hop_over(hop, index->offset, ordinal - before, &passed);
    return code == CL_OK ? cl_hop_whole(hop, index->offset, at) : code;
}

/* The last entry before which every record is older; the entries' largest timestamps only rise. */
static size_t entry_before_time(const cl_index *index, int64_t timestamp_ns) {
    size_t low = 0;
    size_t high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->entries[middle].earlier_ns < timestamp_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? 0 : low - 1;
}

int cl_index_since(const cl_index *index, cl_hop *hop, int64_t timestamp_ns, uint64_t *at) {
    stand_checked(index, hop, entry_before_time(index, timestamp_ns));
    for (;;) {
        int code = cl_hop_whole(hop, index->offset, at);
        if (code != CL_OK || cl_hop_timestamp(hop, *at) >= timestamp_ns) {
            return code;
        }
    }
}

int cl_index_ordinal(const cl_index *index, cl_hop *hop, uint64_t offset, uint64_t *ordinal) {
    uint64_t passed;
    *ordinal = stand_checked(index, hop, cl_index_below(index, offset));
    int code = cl_hop_over(hop, offset, UINT64_MAX, &passed);
    *ordinal += passed;
    return code == CL_E_ROLL ? CL_OK : code;
}
