#include "reader.h"

#include <string.h>

#include "crc32c.h"
#include "short_frames.h"

void cl_reader_init(cl_reader *reader, cl_log *log) {
    memset(reader, 0, sizeof *reader);
    reader->log = log;
    reader->limit = UINT64_MAX;
    reader->watch.position = UINT64_MAX;
}

void cl_reader_enter(cl_reader *reader, cl_segment *segment, uint64_t offset) {
    reader->segment = segment;
    reader->offset = offset < CL_SEGMENT_HEADER ? CL_SEGMENT_HEADER : offset;
}

/* What is committed stands in the file; what is not, in the pool buffer. A segment that was entered
 * half full has nothing of its older half in the buffer. */
static inline const uint8_t *reader_source(const cl_reader *reader) {
    const cl_segment *segment = reader->segment;
    if (CL_LIKELY(!reader->from_buffer) ||
        segment->base + reader->offset < cl_load(&reader->log->cursors->committed.value)) {
        return segment->map;
    }
    return segment->bytes;
}

static bool fill_record(const uint8_t *at, uint32_t word, cl_record *record) {
    uint32_t length = word & CL_WORD_LENGTH;
    uint32_t header = CL_FRAME_HEADER;
    memcpy(&record->timestamp_ns, at + CL_FRAME_TIMESTAMP, sizeof record->timestamp_ns);
    record->type = 0;
    record->key = NULL;
    record->key_length = 0;
    if (word & CL_WORD_EXT) {
        header = CL_FRAME_EXTENDED;
        memcpy(&record->type, at + CL_FRAME_TYPE, sizeof record->type);
        uint32_t key_length;
        memcpy(&key_length, at + CL_FRAME_KEYLEN, sizeof key_length);
        if (key_length != CL_KEYLEN_NONE) {
            if (key_length > length - header) {
                return false;
            }
            record->key = at + header;
            record->key_length = key_length;
        }
    }
    record->value = at + header + record->key_length;
    record->value_length = length - header - record->key_length;
    return true;
}

static inline int check_record(const cl_segment *segment, const uint8_t *bytes, uint64_t offset,
                               uint64_t cell, cl_record *record) {
    const uint8_t *at = bytes + offset;
    uint32_t word = cl_cell_word(cell);
    uint32_t length = word & CL_WORD_LENGTH;
    if (length > cl_frame_largest(segment->size)) {
        return CL_E_DAMAGE; /* nobody may write such a frame, and its CRC would be long to compute
                             */
    }
    if (cl_frame_crc(segment->seed, offset, word, at + CL_FRAME_TIMESTAMP,
                     length - CL_FRAME_TIMESTAMP) != cl_cell_high(cell)) {
        return CL_E_DAMAGE;
    }
    record->position = segment->base + offset;
    return fill_record(at, word, record) ? CL_OK : CL_E_DAMAGE;
}

int cl_record_read(const cl_segment *segment, const uint8_t *bytes, uint64_t offset,
                   cl_record *record, uint64_t *step) {
    uint64_t cell = cl_load((const uint64_t *)(bytes + offset));
    switch (cl_cell_read(cell, segment->size - offset, step)) {
    case CL_CELL_RECORD:
        return check_record(segment, bytes, offset, cell, record);
    case CL_CELL_SKIP:
        return cl_frame_crc(segment->seed, offset, cl_cell_word(cell), NULL, 0) ==
                       cl_cell_high(cell)
                   ? CL_E_ROLLED_BACK
                   : CL_E_DAMAGE;
    case CL_CELL_ZERO:
        return CL_E_END;
    case CL_CELL_CLAIMED:
        return CL_E_BUSY;
    default:
        return CL_E_DAMAGE;
    }
}

/* Whether claims live elsewhere than where this reader looks. */
static bool in_file_only(const cl_reader *reader) {
    return !reader->from_buffer && cl_log_pooled(reader->log);
}

/* A claim or a gap in the reader's way. Claims are resolved where they live: another process's
 * pooled log has none here, and its zero cell is the end. A live owner publishes within
 * nanoseconds, and asking who it is takes microseconds. */
static int unpublished(cl_reader *reader, int code, uint64_t *step) {
    if (in_file_only(reader)) {
        return CL_E_END;
    }
    const uint64_t *tail = cl_log_tail(reader->log);
    bool claimed = tail != NULL && cl_log_position(reader->log, cl_load(tail)) >
                                       reader->segment->base + reader->offset;
    for (uint32_t look = 0; claimed && look < CL_READER_LOOKS; look++) {
        if (cl_cell_published(
                cl_load((const uint64_t *)(reader_source(reader) + reader->offset)))) {
            *step = 0;
            return CL_OK;
        }
        cl_pause();
    }
    int resolved =
        cl_resolve(reader->log, reader->segment, (uint32_t)reader->offset, &reader->watch, step);
    return resolved == CL_E_END && code == CL_E_BUSY ? CL_E_BUSY : resolved;
}

/* Below what this reader may see, every cell is published or rolled back: nothing is left to
 * resolve there. */
static bool is_settled(const cl_reader *reader) {
    const cl_cursors *cursors = reader->log->cursors;
    return reader->segment->base + reader->offset <
           cl_load(in_file_only(reader) ? &cursors->committed.value : &cursors->appended.value);
}

/* Above `doubtful` a bad frame is a torn tail. What a pooled log has not committed yet may be half
 * copied: whoever stands there, told of the position by its appender, finds the end. */
static bool is_doubtful(const cl_reader *reader) {
    uint64_t position = reader->segment->base + reader->offset;
    const cl_log *log = reader->log;
    return position >= log->doubtful ||
           (in_file_only(reader) && position >= cl_load(&log->cursors->committed.value));
}

/* The position from which on nothing is read at present. */
static inline uint64_t reader_limit(const cl_reader *reader) {
    uint64_t flushed =
        reader->flushed_only ? cl_load(&reader->log->cursors->flushed.value) : UINT64_MAX;
    return flushed < reader->limit ? flushed : reader->limit;
}

int cl_reader_next(cl_reader *reader, cl_record *record) {
    const cl_segment *segment = reader->segment;
    uint64_t limit = reader_limit(reader);
    for (;;) {
        if (CL_UNLIKELY(reader->offset >= segment->size)) {
            return CL_E_ROLL;
        }
        if (CL_UNLIKELY(segment->base + reader->offset >= limit)) {
            return CL_E_END;
        }
        uint64_t step;
        int code = cl_record_read(segment, reader_source(reader), reader->offset, record, &step);
        if (CL_LIKELY(code == CL_OK)) {
            reader->offset += step;
            reader->streak++;
            return CL_OK;
        }
        if ((code == CL_E_END || code == CL_E_BUSY) && is_settled(reader)) {
            /* The watermark may have passed between the two looks. If it had not, zeros or a claim
             * down there are damage, which must not be rolled back as if a writer had died. */
            code = cl_record_read(segment, reader_source(reader), reader->offset, record, &step);
            if (code != CL_E_END && code != CL_E_BUSY) {
                continue;
            }
            return is_doubtful(reader) ? CL_E_END : CL_E_DAMAGE;
        }
        if (code == CL_E_END || code == CL_E_BUSY) {
            code = unpublished(reader, code, &step);
            if (code != CL_OK) {
                return code;
            }
        } else if (code == CL_E_DAMAGE) {
            if (is_doubtful(reader)) {
                return CL_E_END;
            }
            /* It may have been committed between the two looks; what is below the watermark does
             * not change any more. */
            if (cl_record_read(segment, reader_source(reader), reader->offset, record, &step) ==
                CL_E_DAMAGE) {
                return CL_E_DAMAGE;
            }
            continue;
        }
        reader->offset += step; /* a SKIP, or what is certainly dead */
    }
}

/* The end, as an offset, of what can be read from where reader_source points: the limit, or where
 * the committed bytes end. */
static uint64_t source_end(const cl_reader *reader, uint64_t limit) {
    const cl_segment *segment = reader->segment;
    uint64_t committed =
        reader->from_buffer ? cl_load(&reader->log->cursors->committed.value) : UINT64_MAX;
    uint64_t end =
        segment->base + reader->offset < committed && committed < limit ? committed : limit;
    return end <= segment->base                  ? 0
           : end - segment->base < segment->size ? end - segment->base
                                                 : segment->size;
}

/* Reads on as long as records without key and type stand there, published and whole. Whatever else
 * does, also what fails its CRC, is left to cl_reader_next, which alone knows what to make of it.
 */
static void batch_plain(cl_reader *reader, cl_batch *batch) {
    const cl_segment *segment = reader->segment;
    const cl_batch columns = *batch; /* a copy that nothing points to: no store through its pointers
                                        makes it be loaded again */
    const uint32_t largest = cl_frame_largest(segment->size);
    /* In this order: a source that was chosen before the watermark moved is good for what is below
     * it, too. */
    const uint8_t *source = reader_source(reader);
    const uint64_t end = source_end(reader, reader_limit(reader));
    cl_progress progress = {
        .count = batch->count, .data_size = batch->data_size, .offset = reader->offset};
    for (;;) {
        cl_short_frames_read(&columns, &progress, segment, source, end);
        if (progress.count >= columns.most || progress.offset >= end) {
            break;
        }
        uint32_t step = cl_batch_copy(&columns, progress.count, &progress.data_size, segment,
                                      source, progress.offset, largest);
        if (step == 0) {
            break;
        }
        progress.offset += step;
        progress.count++;
    }
    cl_batch_plain_rows(batch, progress.count, progress.data_size);
    reader->offset = progress.offset;
}

void cl_batch_plain_rows(cl_batch *batch, size_t count, size_t data_size) {
    const cl_batch columns = *batch;
    for (size_t at = columns.count; at < count; at++) {
        columns.types[at] = 0;
        columns.keyed[at] = false;
        columns.key_ends[at] = (int64_t)columns.keys_size;
    }
    batch->count = count;
    batch->data_size = data_size;
}

bool cl_batch_add(cl_batch *batch, const cl_record *record) {
    if (batch->data_size + record->value_length > batch->data_room ||
        batch->keys_size + record->key_length > batch->keys_room) {
        return false;
    }
    size_t at = batch->count++;
    batch->positions[at] = (int64_t)record->position;
    batch->timestamps_ns[at] = record->timestamp_ns;
    batch->types[at] = record->type;
    batch->keyed[at] = record->key != NULL;
    if (record->value_length != 0) {
        memcpy(batch->data + batch->data_size, record->value, record->value_length);
        batch->data_size += record->value_length;
    }
    if (record->key_length != 0) {
        memcpy(batch->keys + batch->keys_size, record->key, record->key_length);
        batch->keys_size += record->key_length;
    }
    batch->value_ends[at] = (int64_t)batch->data_size;
    batch->key_ends[at] = (int64_t)batch->keys_size;
    return true;
}

/* Any record: CL_E_FULL when it has no room. */
static int batch_one(cl_reader *reader, cl_batch *batch) {
    cl_record record;
    uint64_t before = reader->offset;
    int code = cl_reader_next(reader, &record);
    if (code != CL_OK) {
        return code;
    }
    if (!cl_batch_add(batch, &record)) {
        reader->offset = before;
        return CL_E_FULL;
    }
    return CL_OK;
}

int cl_reader_batch(cl_reader *reader, cl_batch *batch) {
    for (;;) {
        batch_plain(reader, batch);
        if (batch->count >= batch->most) {
            return CL_E_FULL;
        }
        int code = batch_one(reader, batch);
        if (code != CL_OK) {
            return code;
        }
    }
}
