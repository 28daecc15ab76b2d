#include "index.h"

#define AT_ONCE 256u /* records: their columns stay in the nearest cache */

/* Adds published, whole records while there are any. */
static void add_whole(cl_index *index, cl_reader *reader, uint64_t limit) {
    int64_t positions[AT_ONCE], timestamps_ns[AT_ONCE];
    size_t count = AT_ONCE;
    while (count == AT_ONCE) {
        cl_batch batch = {.positions = positions, .timestamps_ns = timestamps_ns, .most = AT_ONCE};
        cl_reader_batch_whole(reader, limit, &batch);
        count = batch.count;
        for (size_t row = 0; row < count; row++) {
            cl_index_add(index, (uint64_t)positions[row] - reader->segment->base,
                         timestamps_ns[row]);
        }
    }
}

int cl_index_extend(cl_index *index, cl_reader *reader, uint64_t limit) {
    reader->offset = index->offset;
    for (;;) {
        add_whole(index, reader, limit);
        cl_frame_cursor at;
        int code = cl_reader_step_past_damage(reader, limit, &at);
        index->offset = reader->offset;
        if (code != CL_OK) {
            return code;
        }
        cl_index_add(index, at.offset, cl_frame_timestamp(&at));
    }
}

/* The number of entries whose offset, or else whose largest timestamp before, is below a bound.
 * Both only rise. */
static size_t entries_below(const cl_index *index, bool by_offset, int64_t bound) {
    size_t low = 0;
    size_t high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const cl_index_entry *entry = &index->entries[middle];
        if ((by_offset ? (int64_t)entry->offset : entry->earlier_ns) < bound) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

size_t cl_index_below(const cl_index *index, uint64_t offset) {
    size_t count = entries_below(index, true, (int64_t)offset + 1);
    return count == 0 ? SIZE_MAX : count - 1;
}

/* Moves the reader to an entry, or to the segment's first frame if there is none, and returns the
 * number of records before it. */
static uint64_t stand_at(const cl_index *index, cl_reader *reader, size_t entry) {
    reader->offset = entry < index->count ? index->entries[entry].offset : CL_SEGMENT_HEADER;
    return entry < index->count ? (uint64_t)entry * index->spacing : 0;
}

/* Whether the walk from an entry reaches the next after the expected number of records, which shows
 * that no length between them is damaged. */
static bool leads_on(const cl_index *index, cl_reader *reader, size_t entry) {
    uint64_t before = stand_at(index, reader, entry);
    uint64_t records =
        index->records - before < index->spacing ? index->records - before : index->spacing;
    cl_frame_cursor at;
    while (records > 0) {
        records -= cl_reader_step_run(reader, index->offset, NULL, records);
        if (records > 0 && cl_reader_step(reader, index->offset, &at) != CL_OK) {
            return false;
        }
        records -= records > 0;
    }
    return entry + 1 >= index->count || (cl_reader_step(reader, index->offset, &at) == CL_OK &&
                                         at.offset == index->entries[entry + 1].offset);
}

/* Moves the reader to an entry, and makes it careful if the range from there is damaged. */
static uint64_t stand_checked(const cl_index *index, cl_reader *reader, size_t entry) {
    reader->careful = false;
    reader->careful = !leads_on(index, reader, entry < index->count ? entry : 0);
    return stand_at(index, reader, entry);
}

int cl_index_find(const cl_index *index, cl_reader *reader, uint64_t ordinal, uint64_t *at) {
    uint64_t entry = ordinal / index->spacing;
    entry = entry < index->count ? entry : index->count - (index->count != 0);
    uint64_t before = stand_checked(index, reader, (size_t)entry);
    uint64_t passed;
    int code = cl_reader_step_over(reader, index->offset, ordinal - before, &passed);
    cl_frame_cursor frame = {0};
    code = code == CL_OK ? cl_reader_step_past_damage(reader, index->offset, &frame) : code;
    *at = frame.offset;
    return code;
}

int cl_index_since(const cl_index *index, cl_reader *reader, int64_t timestamp_ns, uint64_t *at) {
    /* From the last entry before which every record is older. */
    size_t entries = entries_below(index, false, timestamp_ns);
    stand_checked(index, reader, entries - (entries != 0));
    for (;;) {
        cl_frame_cursor frame;
        int code = cl_reader_step_past_damage(reader, index->offset, &frame);
        if (code != CL_OK || cl_frame_timestamp(&frame) >= timestamp_ns) {
            *at = frame.offset;
            return code;
        }
    }
}

int cl_index_ordinal(const cl_index *index, cl_reader *reader, uint64_t offset, uint64_t *ordinal) {
    uint64_t passed;
    *ordinal = stand_checked(index, reader, cl_index_below(index, offset));
    int code = cl_reader_step_over(reader, offset, UINT64_MAX, &passed);
    *ordinal += passed;
    return code == CL_E_ROLL ? CL_OK : code;
}
