#include "batch.h"

#include <string.h>

#include "crc32c.h"
#include "crc32c_steps.h"

#define ALIKE 16u /* frames of one length that are read with one check of limits and room */

/* A batch while plain records are read into it; nothing points to it, so no store through a pointer
 * of its columns forces a reload. */
typedef struct {
    cl_batch columns;
    size_t count;
    size_t data_size;
} progress;

typedef enum { NO_VALUES, VALUE_ENDS, VALUE_VIEWS } value_form; /* a constant where inlined */

static inline value_form form_of(const cl_batch *columns) {
    return columns->data == NULL          ? NO_VALUES
           : columns->value_views != NULL ? VALUE_VIEWS
                                          : VALUE_ENDS;
}

/* The first `count` bytes of a word; the others are zero. */
static inline uint64_t low_bytes(uint64_t word, uint32_t count) {
    return count >= sizeof word ? word : word & ((UINT64_C(1) << count * 8) - 1);
}

/* An inline view of `length` bytes: `first` has the first eight, `rest` the others. */
static inline cl_view view_inline(uint64_t first, uint64_t rest, uint32_t length) {
    first = low_bytes(first, length);
    rest = length > 8 ? low_bytes(rest, length - 8) : 0;
    return (cl_view){.words = {length | first << 32, first >> 32 | rest << 32}};
}

static inline cl_view view_of(const uint8_t *data, size_t start, uint32_t length) {
    uint64_t first;
    uint32_t rest;
    memcpy(&first, data + start, sizeof first);
    if (length > CL_VIEW_INLINE) {
        return (cl_view){.words = {length | first << 32, (uint64_t)start << 32}};
    }
    memcpy(&rest, data + start + sizeof first, sizeof rest);
    return view_inline(first, rest, length);
}

/* The bytes of data that a value or key of `length` bytes takes. */
static inline uint32_t data_size(uint32_t length, bool views) {
    return views && length <= CL_VIEW_INLINE ? 0 : length;
}

/* Stores the location of a row's value or key, whose bytes were copied to `start`, in `views`, or
 * in `ends` if `views` is NULL. Returns the new size of the data. */
static inline size_t column_end(const uint8_t *data, int64_t *ends, cl_view *views, size_t row,
                                size_t start, uint32_t length) {
    size_t end = start + data_size(length, views != NULL);
    if (views != NULL) {
        views[row] = view_of(data, start, length);
    } else {
        ends[row] = (int64_t)end;
    }
    return end;
}

static inline void note(const cl_batch *columns, size_t row, uint64_t position,
                        int64_t timestamp_ns) {
    if (columns->positions != NULL) {
        columns->positions[row] = (int64_t)position;
    }
    if (columns->timestamps_ns != NULL) {
        columns->timestamps_ns[row] = timestamp_ns;
    }
}

bool cl_batch_add(cl_batch *batch, const cl_record *record) {
    const size_t at = batch->count;
    const uint32_t value_length = record->value_length, key_length = record->key_length;
    uint8_t *data = batch->data, *keys = batch->keys;
    cl_assert(at, <, batch->most);
    size_t data_end = batch->data_size, keys_end = batch->keys_size;
    if ((data != NULL && value_length > batch->data_room - data_end) ||
        (keys != NULL && key_length > batch->keys_room - keys_end)) {
        return false;
    }
    note(batch, at, record->position, record->timestamp_ns);
    if (batch->types != NULL) {
        batch->types[at] = record->type;
    }
    if (keys != NULL) {
        batch->keyed[at] = record->key != NULL;
        if (key_length != 0) { /* no memcpy from NULL */
            memcpy(keys + keys_end, record->key, key_length);
        }
        batch->keys_size =
            column_end(keys, batch->key_ends, batch->key_views, at, keys_end, key_length);
    }
    if (data != NULL) {
        memcpy(data + data_end, record->value, value_length);
        batch->data_size =
            column_end(data, batch->value_ends, batch->value_views, at, data_end, value_length);
    }
    cl_assert(batch->data_size, <=, batch->data_room);
    cl_assert(batch->keys_size, <=, batch->keys_room);
    batch->count = at + 1;
    return true;
}

/* Fills the columns that plain records have in common. */
static void end_plain(cl_batch *batch, const progress *now) {
    const cl_batch columns = now->columns;
    const size_t count = now->count;
    if (columns.types != NULL && columns.key_ends != NULL) {
        /* Apart from the general case, whose two loops take 4 instructions more for each record. */
        for (size_t at = columns.count; at < count; at++) {
            columns.types[at] = 0;
            columns.keyed[at] = false;
            columns.key_ends[at] = (int64_t)columns.keys_size;
        }
    } else {
        for (size_t at = columns.count; columns.types != NULL && at < count; at++) {
            columns.types[at] = 0;
        }
        for (size_t at = columns.count; columns.keys != NULL && at < count; at++) {
            columns.keyed[at] = false;
            column_end(columns.keys, columns.key_ends, columns.key_views, at, columns.keys_size, 0);
        }
    }
    cl_assert(count, >=, batch->count);
    cl_assert(count, <=, batch->most);
    cl_assert(columns.data == NULL || now->data_size <= columns.data_room, ==, true);
    batch->count = count;
    batch->data_size = now->data_size;
}

/* Notes `rows` more records of a value of `length` bytes each, whose timestamps and values are in
 * their places. Their frames begin at `position`. */
INLINED void add_rows(progress *now, size_t rows, uint64_t position, uint32_t length,
                      const value_form form) {
    const cl_batch *columns = &now->columns;
    const size_t first = now->count, start = now->data_size;
    const uint64_t step = cl_frame_aligned(CL_FRAME_HEADER + length);
    for (size_t row = 0; columns->positions != NULL && row < rows; row++) {
        columns->positions[first + row] = (int64_t)(position + row * step);
    }
    for (size_t row = 0; form == VALUE_ENDS && row < rows; row++) {
        columns->value_ends[first + row] = (int64_t)(start + (row + 1) * length);
    }
    for (size_t row = 0; form == VALUE_VIEWS && length > CL_VIEW_INLINE && row < rows; row++) {
        columns->value_views[first + row] = view_of(columns->data, start + row * length, length);
    }
    now->count += rows;
    now->data_size += form == NO_VALUES ? 0 : rows * data_size(length, form == VALUE_VIEWS);
}

/* Whether the batch has room for `times` frames of the word `length` at `offset` that end below
 * `end`, or there. */
static inline bool has_room(const progress *now, uint32_t length, size_t times, uint64_t offset,
                            uint64_t end) {
    const size_t size = times * (length - CL_FRAME_HEADER);
    return now->count + times <= now->columns.most &&
           offset + times * cl_frame_aligned(length) <= end &&
           (now->columns.data == NULL || size <= now->columns.data_room - now->data_size);
}

/* Reads the frame at `offset` if it is a published record without key and type and the batch has
 * room for it. Returns the frame's size in the segment, or 0 with nothing changed. */
static uint32_t read_plain(progress *now, const cl_segment *segment, const uint8_t *source,
                           uint64_t offset) {
    const cl_batch *columns = &now->columns;
    const value_form form = form_of(columns);
    const uint8_t *at = source + offset;
    uint64_t cell = cl_load((const uint64_t *)at);
    uint32_t length = cl_cell_word(cell), value_length = length - CL_FRAME_HEADER, crc;
    if (!cl_frame_is_plain(length, cl_frame_largest(segment->size)) ||
        !has_room(now, length, 1, offset, segment->size)) {
        return 0;
    }
    if (form == NO_VALUES) {
        crc = cl_frame_crc(segment->seed, offset, length, at + CL_FRAME_TIMESTAMP,
                           length - CL_FRAME_TIMESTAMP);
    } else {
        crc = cl_frame_copy_crc(segment->seed, offset, length, at, CL_FRAME_HEADER,
                                columns->data + now->data_size, at + CL_FRAME_HEADER);
    }
    if (crc != cl_cell_high(cell)) {
        return 0;
    }
    if (columns->timestamps_ns != NULL) {
        memcpy(&columns->timestamps_ns[now->count], at + CL_FRAME_TIMESTAMP, sizeof(int64_t));
    }
    if (form == VALUE_VIEWS && value_length <= CL_VIEW_INLINE) {
        columns->value_views[now->count] = view_of(columns->data, now->data_size, value_length);
    }
    add_rows(now, 1, segment->base + offset, value_length, form);
    return cl_frame_aligned(length);
}

#ifdef HAS_INSTRUCTIONS

/* Feeds a value that fits its view to the CRC, and makes the view from the same words: loading
 * bytes that were just stored takes as long as the whole frame. */
WITH_CRC INLINED uint64_t feed_inline(uint64_t state, cl_view *view, const uint8_t *from,
                                      uint32_t length) {
    const uint64_t first = length > 0 ? take_u64(from) : 0;
    const uint64_t rest = length > 8 ? take_u64(from + 8) : 0;
    const unsigned fed = 64 - length % 8 * 8;
    state = length >= 8 ? step_u64(state, first) : state;
    if (fed < 64) {
        state = step_last(state, (length > 8 ? rest : first) << fed, fed);
    }
    *view = view_inline(first, rest, length);
    return state;
}

/* Reads up to `times` frames of the word `length`, for which the batch has room. Returns how many
 * there are before one of another word or another CRC. A caller
 * asks for one frame where lengths may vary. */
WITH_CRC INLINED size_t read_run(progress *now, const cl_segment *segment, const uint8_t *source,
                                 uint64_t offset, uint32_t length, size_t times,
                                 const value_form form) {
    const cl_batch *columns = &now->columns;
    const uint32_t value_length = length - CL_FRAME_HEADER, seed = segment->seed;
    const uint64_t step = cl_frame_aligned(length), start = offset;
    const bool is_inline = form == VALUE_VIEWS && value_length <= CL_VIEW_INLINE;
    uint64_t spare[ALIKE];
    uint64_t *timestamp =
        columns->timestamps_ns != NULL ? (uint64_t *)columns->timestamps_ns + now->count : spare;
    uint8_t *to = form == NO_VALUES ? NULL : columns->data + now->data_size;
    size_t row = 0;
    for (; row < times; row++) {
        const uint8_t *at = source + offset;
        __builtin_prefetch(at + CL_AHEAD);
        const uint64_t cell = cl_load((const uint64_t *)at);
        if (cl_cell_word(cell) != length) {
            break;
        }
        timestamp[row] = take_u64(at + CL_FRAME_TIMESTAMP);
        uint64_t state = feed_plain_head(seed, offset, length, timestamp[row]);
        at += CL_FRAME_HEADER;
        if (is_inline) {
            state = feed_inline(state, &columns->value_views[now->count + row], at, value_length);
        } else if (times == 1) {
            state = feed_varied_from_frame(state, to, at, value_length, form != NO_VALUES);
        } else {
            state = feed_from_frame(state, to, at, value_length, form != NO_VALUES);
        }
        if ((uint32_t)~state != cl_cell_high(cell)) {
            break;
        }
        offset += step;
        to = form == NO_VALUES ? NULL : to + value_length;
    }
    add_rows(now, row, segment->base + start, value_length, form);
    return row;
}

/* Reads short frames from `offset` on, and returns where they end. */
WITH_CRC INLINED uint64_t read_frames(progress *now, const cl_segment *segment,
                                      const uint8_t *source, uint64_t offset, uint64_t end,
                                      const value_form form) {
    progress here = *now;
    uint32_t before = 0;
    for (size_t rows = 1; rows != 0 && offset < end;) {
        const uint32_t length = cl_cell_word(cl_load((const uint64_t *)(source + offset)));
        if (!cl_frame_is_plain(length, SHORT_LENGTH) || !has_room(&here, length, 1, offset, end)) {
            break;
        }
        bool alike = length == before && has_room(&here, length, ALIKE, offset, end);
        rows = alike ? read_run(&here, segment, source, offset, length, ALIKE, form)
                     : read_run(&here, segment, source, offset, length, 1, form);
        offset += rows * cl_frame_aligned(length);
        before = length;
    }
    *now = here;
    return offset;
}

WITH_CRC static uint64_t read_short_frames(progress *now, const cl_segment *segment,
                                           const uint8_t *source, uint64_t offset, uint64_t end) {
    switch (form_of(&now->columns)) {
    case NO_VALUES:
        return read_frames(now, segment, source, offset, end, NO_VALUES);
    case VALUE_ENDS:
        return read_frames(now, segment, source, offset, end, VALUE_ENDS);
    default:
        return read_frames(now, segment, source, offset, end, VALUE_VIEWS);
    }
}

WITH_CRC static size_t read_short_frames_back(progress *now, const cl_segment *segment,
                                              const uint8_t *source, const uint32_t *offsets,
                                              size_t most) {
    progress here = *now;
    size_t left = most;
    while (left > 0 && offsets[left - 1] % CL_FRAME_ALIGN == 0) {
        const uint32_t offset = offsets[left - 1];
        const uint32_t length = cl_cell_word(cl_load((const uint64_t *)(source + offset)));
        if (!cl_frame_is_plain(length, SHORT_LENGTH) ||
            !has_room(&here, length, 1, offset, segment->size) ||
            read_run(&here, segment, source, offset, length, 1, VALUE_ENDS) == 0) {
            break;
        }
        left--;
    }
    *now = here;
    return most - left;
}

#else

static uint64_t read_short_frames(progress *now, const cl_segment *segment, const uint8_t *source,
                                  uint64_t offset, uint64_t end) {
    return offset;
}

static size_t read_short_frames_back(progress *now, const cl_segment *segment,
                                     const uint8_t *source, const uint32_t *offsets, size_t most) {
    return 0;
}

#endif

void cl_batch_read(cl_batch *batch, cl_frame_cursor *cursor) {
    const cl_segment *segment = cursor->segment;
    const uint8_t *source = cursor->bytes;
    const uint64_t end = cursor->limit;
    uint64_t offset = cursor->offset;
    progress now = {.columns = *batch, .count = batch->count, .data_size = batch->data_size};
    for (uint32_t step = 1; step != 0; offset += step) {
        offset = cl_crc32c_steps ? read_short_frames(&now, segment, source, offset, end) : offset;
        step =
            now.count < batch->most && offset < end ? read_plain(&now, segment, source, offset) : 0;
    }
    end_plain(batch, &now);
    cl_assert(offset, >=, cursor->offset);
    cursor->offset = offset;
}

size_t cl_batch_read_back(cl_batch *batch, const cl_segment *segment, const uint8_t *source,
                          const uint32_t *offsets, size_t most) {
    progress now = {.columns = *batch, .count = batch->count, .data_size = batch->data_size};
    size_t left = most;
    for (bool more = true; more;) {
        left -= cl_crc32c_steps ? read_short_frames_back(&now, segment, source, offsets, left) : 0;
        more = left > 0 && now.count < batch->most && offsets[left - 1] % CL_FRAME_ALIGN == 0 &&
               read_plain(&now, segment, source, offsets[left - 1]) != 0;
        left -= more;
    }
    end_plain(batch, &now);
    return most - left;
}
