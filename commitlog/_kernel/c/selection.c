#include "selection.h"

#include <string.h>

void cl_selection_list(cl_selection *selection, const uint32_t *offsets, size_t count,
                       uint64_t listed) {
    selection->offsets = offsets;
    selection->count = count;
    selection->listed = listed;
    selection->at = 0;
    selection->here = 0;
}

static bool has_type(const cl_selection *selection, uint32_t type) {
    for (size_t at = 0; at < selection->type_count; at++) {
        if (selection->types[at] == type) {
            return true;
        }
    }
    return selection->types == NULL;
}

bool cl_selection_wants(const cl_selection *selection, const cl_record *record) {
    if (!has_type(selection, record->type)) {
        return false;
    }
    return selection->key == NULL ||
           (record->key != NULL && record->key_length == selection->key_length &&
            memcmp(record->key, selection->key, selection->key_length) == 0);
}

static bool meets(const cl_selection *selection, const cl_record *record) {
    return cl_selection_wants(selection, record) ||
           (selection->notes && record->type == selection->noted_type);
}

/* The number of listed offsets below an offset. */
static size_t listed_below(const cl_selection *selection, uint64_t offset) {
    size_t low = 0;
    size_t high = selection->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (selection->offsets[middle] < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Moves a reader whose next listed record is at `offset`, and not visible yet, to the end of what
 * is visible, which is where a wait has to look. */
static void keep_visible(cl_reader *reader, uint64_t offset) {
    if (reader->watermark != NULL) {
        uint64_t visible = cl_load(reader->watermark), base = reader->segment->base;
        if (visible > base + reader->offset && visible - base <= offset) {
            reader->offset = visible - base;
        }
    }
}

/* Reads the record at a listed offset; false if there is none. */
static bool read_listed(cl_reader *reader, uint32_t offset, cl_record *record) {
    reader->offset = offset;
    return cl_reader_next(reader, record) == CL_OK &&
           record->position == reader->segment->base + offset;
}

/* Moves to the next listed record and reads it. CL_E_ABSENT: the list has no more, or is dropped,
 * and the reader goes on by scanning. */
static int next_listed(cl_selection *selection, cl_reader *reader, cl_record *record) {
    const uint64_t before = reader->offset;
    size_t at = selection->here == before ? selection->at : listed_below(selection, before);
    uint64_t offset = at < selection->count ? selection->offsets[at] : selection->listed;
    if (offset >= cl_reader_limit(reader)) {
        keep_visible(reader, offset);
        return CL_E_END;
    }
    if (at == selection->count) {
        reader->offset = offset;
        return CL_E_ABSENT;
    }
    if (!read_listed(reader, (uint32_t)offset, record)) {
        reader->offset = before;
        selection->listed = 0;
        return CL_E_ABSENT;
    }
    cl_assert(reader->offset, >, before);
    selection->at = at + 1;
    selection->here = reader->offset;
    return CL_OK;
}

int cl_selection_next(cl_selection *selection, cl_reader *reader, cl_record *record, size_t most) {
    for (size_t passed = 0; passed < most; passed++) {
        int code = CL_E_ABSENT;
        if (reader->offset < selection->listed) {
            code = next_listed(selection, reader, record);
        }
        if (code == CL_E_ABSENT) {
            code = cl_reader_next(reader, record);
        }
        if (code != CL_OK || meets(selection, record)) {
            return code;
        }
    }
    return CL_E_FULL;
}

static int previous_listed(cl_selection *selection, cl_reader *reader, cl_record *record) {
    const uint64_t before = reader->offset;
    size_t at = listed_below(selection, before);
    if (at == 0) {
        reader->offset = CL_SEGMENT_HEADER;
        return CL_E_ROLL;
    }
    if (!read_listed(reader, selection->offsets[at - 1], record)) {
        reader->offset = before;
        selection->listed = 0;
        return CL_E_ABSENT;
    }
    reader->offset = selection->offsets[at - 1];
    return CL_OK;
}

int cl_selection_previous(cl_selection *selection, cl_reader *reader, cl_backward_scan *scan,
                          cl_record *record, size_t most) {
    for (size_t passed = 0; passed < most; passed++) {
        int code = CL_E_ABSENT;
        if (reader->offset <= selection->listed) {
            code = previous_listed(selection, reader, record);
        }
        if (code == CL_E_ABSENT) {
            code = cl_backward_scan_previous(reader, scan, record);
        }
        if (code != CL_OK || meets(selection, record)) {
            return code;
        }
    }
    return CL_E_FULL;
}
