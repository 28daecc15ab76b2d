#include "short_frames.h"

#include "crc32c.h"
#include "crc32c_steps.h"

#define FAR_BEHIND                                                                                 \
    64u /* records without a wait: a reader that is closer behind a writer must not take the cache \
           lines that the writer uses next */
#define ALIKE 16u /* frames of one length that are read at once */
#define PADDING (CL_FRAME_ALIGN - 1u)

#ifdef HAS_INSTRUCTIONS

WITH_CRC static void write_rows(const cl_segment *segment, uint32_t offset, const cl_rows *rows,
                                size_t first, size_t count, int64_t timestamp_ns,
                                uint64_t *first_cell, int64_t *positions) {
    const uint32_t seed = segment->seed;
    const uint32_t value_length = rows->length;
    const uint32_t length = CL_FRAME_HEADER + value_length;
    const uint32_t step = cl_frame_aligned(length);
    const size_t stride = rows->stride;
    const uint64_t base = segment->base;
    const uint8_t *from = rows->data + first * stride;
    uint8_t *at = segment->bytes + offset;
    for (size_t row = 0; row < count; row++) {
        __builtin_prefetch(at + CL_AHEAD, 1);
        memcpy(at + CL_FRAME_TIMESTAMP, &timestamp_ns, sizeof timestamp_ns);
        uint64_t state = feed_plain_head(seed, offset, length, (uint64_t)timestamp_ns);
        uint64_t cell = cl_cell(
            length, (uint32_t)~feed_into_frame(state, at + CL_FRAME_HEADER, from, value_length));
        if (row == 0) {
            *first_cell = cell;
        } else {
            memcpy(at, &cell, sizeof cell);
        }
        positions[row] = (int64_t)(base + offset);
        at += step;
        offset += step;
        from += stride;
    }
}

typedef enum { NO_VALUES, VALUE_ENDS, VALUE_VIEWS } value_form; /* a constant at each call */

INLINED size_t end_value(const cl_batch *columns, size_t row, size_t data_size, uint32_t length,
                         const value_form form) {
    return form == NO_VALUES ? data_size
                             : cl_column_end(columns->data, columns->value_ends,
                                             form == VALUE_VIEWS ? columns->value_views : NULL, row,
                                             data_size, length);
}

/* As cl_batch_copy, of a short frame. Returns its size in the segment, or 0. */
WITH_CRC INLINED uint64_t copy_frame(const cl_batch *columns, size_t row, size_t *data_size,
                                     const cl_segment *segment, const uint8_t *source,
                                     uint64_t offset, uint32_t *word, const value_form form) {
    const bool copies = form != NO_VALUES;
    const uint8_t *at = source + offset;
    uint64_t cell = cl_load((const uint64_t *)at);
    const uint32_t length = *word = cl_cell_word(cell);
    uint32_t value_length = length - CL_FRAME_HEADER;
    uint64_t step = cl_frame_aligned(length);
    if (!cl_frame_is_plain(length, SHORT_LENGTH) || step > segment->size - offset ||
        (copies && value_length > columns->data_room - *data_size)) {
        return 0;
    }
    uint64_t timestamp = take_u64(at + CL_FRAME_TIMESTAMP);
    uint64_t state = feed_plain_head(segment->seed, offset, length, timestamp);
    uint8_t *to = copies ? columns->data + *data_size : NULL;
    state = feed_chain(state, to, at + CL_FRAME_HEADER, value_length, copies);
    if ((uint32_t)~state != cl_cell_high(cell)) {
        return 0;
    }
    cl_batch_note(columns, row, segment->base + offset, (int64_t)timestamp);
    *data_size = end_value(columns, row, *data_size, value_length, form);
    return step;
}

/* Feeds a value to the CRC and, if `copies`, copies it, eight bytes at a time. The copy includes up
 * to seven bytes of padding, the CRC does not. */
WITH_CRC INLINED uint64_t feed_padded(uint64_t state, uint8_t *to, const uint8_t *from,
                                      size_t length, const bool copies) {
    size_t at = 0;
    for (; at + 8 <= length; at += 8) {
        uint64_t word = take_u64(from + at);
        if (copies) {
            memcpy(to + at, &word, 8);
        }
        state = step_u64(state, word);
    }
    if (at == length) {
        return state;
    }
    uint64_t word = take_u64(from + at);
    if (copies) {
        memcpy(to + at, &word, 8);
    }
    unsigned fed = (unsigned)(64 - (length - at) * 8);
    return fed == 32 ? step_u32((uint32_t)state, (uint32_t)word)
                     : step_last(state, word << fed, fed);
}

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
    *view = cl_view_inline(first, rest, length);
    return state;
}

/* Reads up to ALIKE frames, as long as they have the length of the frame before them, and returns
 * their number. The caller has checked that length, and that ALIKE frames have room, so no check of
 * either is left, and the processor predicts every branch. */
WITH_CRC INLINED size_t copy_alike(const cl_batch *columns, size_t row, size_t data_size,
                                   const cl_segment *segment, const uint8_t *source,
                                   uint64_t offset, uint32_t length, const value_form form) {
    const bool copies = form != NO_VALUES;
    const uint32_t value_length = length - CL_FRAME_HEADER;
    const bool is_inline = form == VALUE_VIEWS && value_length <= CL_VIEW_INLINE;
    const uint64_t step = cl_frame_aligned(length);
    const size_t first = row;
    for (; row < first + ALIKE; row++) {
        const uint8_t *at = source + offset;
        __builtin_prefetch(at + CL_AHEAD);
        uint64_t cell = cl_load((const uint64_t *)at);
        if (cl_cell_word(cell) != length) {
            break;
        }
        uint64_t timestamp = take_u64(at + CL_FRAME_TIMESTAMP);
        uint64_t state = feed_plain_head(segment->seed, offset, length, timestamp);
        if (is_inline) {
            state =
                feed_inline(state, &columns->value_views[row], at + CL_FRAME_HEADER, value_length);
        } else {
            state = feed_padded(state, copies ? columns->data + data_size : NULL,
                                at + CL_FRAME_HEADER, value_length, copies);
        }
        if ((uint32_t)~state != cl_cell_high(cell)) {
            break;
        }
        cl_batch_note(columns, row, segment->base + offset, (int64_t)timestamp);
        if (!is_inline) {
            data_size = end_value(columns, row, data_size, value_length, form);
        }
        offset += step;
    }
    return row - first;
}

WITH_CRC INLINED void read_frames(const cl_batch *batch, cl_progress *progress,
                                  const cl_segment *segment, const uint8_t *source, uint64_t end,
                                  const value_form form) {
    const bool copies = form != NO_VALUES;
    const cl_batch columns = *batch; /* a copy that nothing points to: no store through a
                                        pointer forces a reload */
    const cl_segment identity = {
        .seed = segment->seed, .base = segment->base, .size = segment->size};
    size_t count = progress->count, data_size = progress->data_size;
    uint64_t offset = progress->offset;
    const uint64_t room = end < segment->size ? end : segment->size;
    uint32_t before = 0;
    while (count < columns.most && offset < end) {
        __builtin_prefetch(source + offset + CL_AHEAD);
        uint32_t length;
        uint64_t step =
            copy_frame(&columns, count, &data_size, &identity, source, offset, &length, form);
        if (step == 0) {
            break;
        }
        offset += step;
        count++;
        size_t alike =
            length == before ? ALIKE : 0; /* frames of varying length pay only this comparison */
        const size_t value_length = copies ? length - CL_FRAME_HEADER : 0;
        while (alike == ALIKE && count + ALIKE <= columns.most && offset + ALIKE * step <= room &&
               (!copies || data_size + ALIKE * value_length + PADDING <= columns.data_room)) {
            alike = copy_alike(&columns, count, data_size, &identity, source, offset, length, form);
            count += alike;
            data_size += alike * cl_data_size((uint32_t)value_length, form == VALUE_VIEWS);
            offset += alike * step;
        }
        before = length;
    }
    *progress = (cl_progress){.count = count, .data_size = data_size, .offset = offset};
}

WITH_CRC static void read_with_ends(const cl_batch *batch, cl_progress *progress,
                                    const cl_segment *segment, const uint8_t *source,
                                    uint64_t end) {
    read_frames(batch, progress, segment, source, end, VALUE_ENDS);
}

WITH_CRC static void read_with_views(const cl_batch *batch, cl_progress *progress,
                                     const cl_segment *segment, const uint8_t *source,
                                     uint64_t end) {
    read_frames(batch, progress, segment, source, end, VALUE_VIEWS);
}

WITH_CRC static void read_without_values(const cl_batch *batch, cl_progress *progress,
                                         const cl_segment *segment, const uint8_t *source,
                                         uint64_t end) {
    read_frames(batch, progress, segment, source, end, NO_VALUES);
}

WITH_CRC static size_t read_back(const cl_batch *batch, cl_progress *progress,
                                 const cl_segment *segment, const uint8_t *source,
                                 const uint32_t *offsets, size_t most) {
    const cl_batch columns = *batch;
    const cl_segment identity = {
        .seed = segment->seed, .base = segment->base, .size = segment->size};
    size_t count = progress->count, data_size = progress->data_size, left = most;
    while (count < columns.most && left > 0) {
        uint32_t offset = offsets[left - 1], length;
        if (offset % CL_FRAME_ALIGN != 0 || copy_frame(&columns, count, &data_size, &identity,
                                                       source, offset, &length, VALUE_ENDS) == 0) {
            break;
        }
        progress->offset = offset;
        count++;
        left--;
    }
    progress->count = count;
    progress->data_size = data_size;
    return most - left;
}

WITH_CRC static bool next_record(cl_reader *reader, cl_record *record) {
    const cl_segment *segment = reader->segment;
    uint64_t offset = reader->offset;
    if (CL_UNLIKELY(offset >= segment->size || segment->base + offset >= reader->limit ||
                    reader->from_buffer || reader->flushed_only)) {
        return false;
    }
    const uint8_t *at = segment->map + offset;
    uint64_t cell = cl_load((const uint64_t *)at);
    uint32_t length = cl_cell_word(cell);
    uint64_t next = offset + cl_frame_aligned(length);
    if (CL_UNLIKELY(!cl_frame_is_plain(length, SHORT_LENGTH) || next > segment->size)) {
        return false;
    }
    if (reader->streak >= FAR_BEHIND) {
        __builtin_prefetch(at + CL_AHEAD);
    }
    uint64_t timestamp = take_u64(at + CL_FRAME_TIMESTAMP);
    /* Filled before the CRC is known, so that nothing of it has to be kept in registers. */
    *record = (cl_record){.position = segment->base + offset,
                          .timestamp_ns = (int64_t)timestamp,
                          .value = at + CL_FRAME_HEADER,
                          .value_length = length - CL_FRAME_HEADER};
    uint64_t state = feed_plain_head(segment->seed, offset, length, timestamp);
    state = feed_from_frame(state, at + CL_FRAME_HEADER, length - CL_FRAME_HEADER);
    if (CL_UNLIKELY((uint32_t)~state != cl_cell_high(cell))) {
        return false;
    }
    reader->offset = next;
    reader->streak++;
    return true;
}

#endif

bool cl_short_frame_next(cl_reader *reader, cl_record *record) {
#ifdef HAS_INSTRUCTIONS
    return cl_crc32c_steps && next_record(reader, record);
#else
    return false;
#endif
}

bool cl_short_frames_write(const cl_segment *segment, uint32_t offset, const cl_rows *rows,
                           size_t first, size_t count, int64_t timestamp_ns, uint64_t *first_cell,
                           int64_t *positions) {
#ifdef HAS_INSTRUCTIONS
    if (CL_FRAME_HEADER + (uint64_t)rows->length <= SHORT_LENGTH && cl_crc32c_steps) {
        write_rows(segment, offset, rows, first, count, timestamp_ns, first_cell, positions);
        return true;
    }
#endif
    return false;
}

void cl_short_frames_read(const cl_batch *columns, cl_progress *progress, const cl_segment *segment,
                          const uint8_t *source, uint64_t end) {
#ifdef HAS_INSTRUCTIONS
    /* Any other frame pays only this check, because keyed records arrive one by one. */
    if (cl_crc32c_steps && progress->offset < end &&
        cl_frame_is_plain(cl_cell_word(cl_load((const uint64_t *)(source + progress->offset))),
                          SHORT_LENGTH)) {
        (columns->data == NULL          ? read_without_values
         : columns->value_views != NULL ? read_with_views
                                        : read_with_ends)(columns, progress, segment, source, end);
    }
#endif
}

size_t cl_short_frames_read_back(const cl_batch *columns, cl_progress *progress,
                                 const cl_segment *segment, const uint8_t *source,
                                 const uint32_t *offsets, size_t most) {
#ifdef HAS_INSTRUCTIONS
    if (cl_crc32c_steps) {
        return read_back(columns, progress, segment, source, offsets, most);
    }
#endif
    return 0;
}
