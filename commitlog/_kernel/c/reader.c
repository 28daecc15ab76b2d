#include "reader.h"

#include <string.h>

#include "crc32c_steps.h"
#include "resolve.h"
#include "scan.h"

void cl_reader_init(cl_reader *reader, cl_log *log, cl_watch *watch) {
    *reader = (cl_reader){.log = log, .limit = UINT64_MAX, .watch = watch};
    if (watch != NULL) {
        *watch = (cl_watch){.position = UINT64_MAX};
    }
}

void cl_reader_enter(cl_reader *reader, cl_segment *segment, uint64_t offset) {
    cl_assert(cl_load32(&segment->references), >, 0);
    cl_assert(offset, <=, segment->size);
    reader->segment = segment;
    reader->offset = cl_frame_offset(offset);
    reader->far_from = reader->offset + CL_READER_FAR;
    cl_reader_plan(reader);
}

void cl_reader_leave(cl_reader *reader) {
    reader->segment = NULL;
    reader->short_below = 0;
}

void cl_reader_plan(cl_reader *reader) {
    const cl_segment *segment = reader->segment;
    reader->short_below = 0;
    if (cl_crc32c_steps && segment != NULL && !reader->from_buffer && reader->watermark == NULL &&
        reader->limit > segment->base) {
        uint64_t limit = reader->limit - segment->base;
        reader->short_below = limit < segment->size ? limit : segment->size;
    }
}

/* Committed frames are in the file, uncommitted ones in the pool buffer. If the buffer was attached
 * to a half-full segment, it holds nothing of the older half. */
static inline const uint8_t *reader_source(const cl_reader *reader) {
    const cl_segment *segment = reader->segment;
    if (CL_LIKELY(!reader->from_buffer) ||
        segment->base + reader->offset < cl_load(&reader->log->cursors->committed.value)) {
        return segment->map;
    }
    return segment->bytes;
}

static inline cl_frame_cursor reader_cursor(const cl_reader *reader, uint64_t limit) {
    return cl_frame_cursor_at(reader->segment, reader_source(reader), reader->offset, limit);
}

int cl_record_read(const cl_segment *segment, const uint8_t *bytes, uint64_t offset,
                   cl_record *record, uint64_t *step) {
    cl_frame_cursor at = cl_frame_cursor_at(segment, bytes, offset, segment->size);
    int code = cl_frame_read(&at);
    *step = at.step;
    return cl_frame_verify(&at, code, record);
}

/* Whether claims live in pool buffers, which this reader does not read. */
static inline bool in_file_only(const cl_reader *reader) {
    return !reader->from_buffer && cl_log_pooled(reader->log);
}

/* The offset from which on a bad frame is a torn tail, not damage. Frames that another process's
 * pooled log has not committed yet may be half copied: a reader that learned their position from
 * the appender must see the end there. */
static inline uint64_t uncertain_offset(const cl_reader *reader) {
    uint64_t uncertain_from = reader->log->uncertain_from;
    if (in_file_only(reader)) {
        uint64_t committed = cl_load(&reader->log->cursors->committed.value);
        uncertain_from = committed < uncertain_from ? committed : uncertain_from;
    }
    return uncertain_from > reader->segment->base ? uncertain_from - reader->segment->base : 0;
}

/* Below the watermark every cell is published or rolled back: no claim is left to resolve there. */
static bool is_settled(const cl_reader *reader) {
    const cl_cursors *cursors = reader->log->cursors;
    return reader->segment->base + reader->offset <
           cl_load(in_file_only(reader) ? &cursors->committed.value : &cursors->appended.value);
}

/* Reads the frame at the reader's offset once more. True if it reads differently: it was published
 * or committed in between. */
static bool reads_otherwise(const cl_reader *reader, bool damaged) {
    cl_record record;
    cl_frame_cursor at = reader_cursor(reader, UINT64_MAX);
    int code = cl_frame_verify(&at, cl_frame_read(&at), &record);
    return damaged ? code != CL_E_DAMAGE : code != CL_E_END && code != CL_E_BUSY;
}

/* Handles a claim or a gap at the reader's offset. A reader resolves claims only where they live:
 * the file of a pooled log has none, and its zero cell is the end. A live owner publishes within
 * nanoseconds, whereas probing it takes microseconds. */
static int pass_unpublished(cl_reader *reader, uint64_t step, int code) {
    if (in_file_only(reader)) {
        return CL_E_END;
    }
    if (reader->offset < reader->passed) {
        reader->offset += code == CL_E_END ? CL_FRAME_SMALLEST : step;
        return CL_OK;
    }
    if (reader->watch == NULL) {
        return CL_E_BUSY;
    }
    const uint64_t *tail = cl_log_tail(reader->log);
    bool claimed = tail != NULL && cl_log_position(reader->log, cl_load(tail)) >
                                       reader->segment->base + reader->offset;
    for (uint32_t look = 0; claimed && look < CL_READER_LOOKS; look++) {
        if (cl_cell_published(
                cl_load((const uint64_t *)(reader_source(reader) + reader->offset)))) {
            return CL_OK;
        }
        cl_pause();
    }
    uint64_t pass;
    int resolved =
        cl_resolve(reader->log, reader->segment, (uint32_t)reader->offset, reader->watch, &pass);
    reader->offset += resolved == CL_OK ? pass : 0;
    return resolved == CL_E_END && code == CL_E_BUSY ? CL_E_BUSY : resolved;
}

/* Handles a frame that is no whole record. CL_OK: the caller reads on from the reader's offset. */
static __attribute__((noinline)) int pass_other(cl_reader *reader, uint64_t step, int code) {
    if (code == CL_E_ROLLED_BACK) {
        reader->offset += step;
        return CL_OK;
    }
    bool damaged = code == CL_E_DAMAGE;
    if (damaged && reader->offset >= uncertain_offset(reader)) {
        return CL_E_END;
    }
    if (damaged || is_settled(reader)) {
        /* Zeros or a claim below the watermark are damage. The reader must not roll them back as a
         * dead writer's claim. */
        if (reads_otherwise(reader, damaged)) {
            return CL_OK;
        }
        return reader->offset >= uncertain_offset(reader) ? CL_E_END : CL_E_DAMAGE;
    }
    return pass_unpublished(reader, step, code);
}

int cl_reader_next(cl_reader *reader, cl_record *record) {
    const uint64_t limit = cl_reader_limit(reader);
    for (;;) {
        cl_frame_cursor at = reader_cursor(reader, limit);
        int code = cl_frame_verify(&at, cl_frame_read(&at), record);
        if (CL_LIKELY(code == CL_OK)) {
            cl_assert(at.step, >=, CL_FRAME_HEADER);
            cl_assert(at.offset + at.step, <=, at.size);
            reader->offset += at.step;
            return CL_OK;
        }
        if (code == CL_E_ROLL) {
            return reader->offset < at.size ? CL_E_END : CL_E_ROLL;
        }
        code = pass_other(reader, at.step, code);
        if (code != CL_OK) {
            return code;
        }
    }
}

#ifdef HAS_INSTRUCTIONS

WITH_CRC bool cl_reader_next_short(cl_reader *reader, cl_record *record) {
    const uint64_t offset = reader->offset, below = reader->short_below;
    if (CL_UNLIKELY(offset >= below)) {
        return false;
    }
    const cl_segment *segment = reader->segment;
    const uint8_t *at = segment->map + offset;
    const uint64_t cell = cl_load((const uint64_t *)at);
    const uint32_t length = cl_cell_word(cell), value_length = length - CL_FRAME_HEADER;
    const uint64_t next = offset + cl_frame_aligned(length);
    if (CL_UNLIKELY(!cl_frame_is_plain(length, SHORT_LENGTH) || next > below)) {
        return false;
    }
    if (CL_LIKELY(offset >= reader->far_from)) {
        __builtin_prefetch(at + CL_AHEAD);
    }
    const uint64_t timestamp = load_u64(at + CL_FRAME_TIMESTAMP);
    /* Filled before the CRC is known, so that nothing of it has to be kept in registers. */
    *record = (cl_record){.position = segment->base + offset,
                          .timestamp_ns = (int64_t)timestamp,
                          .value = at + CL_FRAME_HEADER,
                          .value_length = value_length};
    uint64_t state = feed_plain_head(segment->seed, offset, length, timestamp);
    /* Frames are aligned: this is where the whole words of the value end. */
    const uint8_t *end = (const uint8_t *)((uintptr_t)(at + length) & ~(uintptr_t)7);
    state = feed_words(state, NULL, end, value_length, false);
    state = value_length % 8 != 0 ? feed_rest(state, load_u64(end), value_length) : state;
    if (CL_UNLIKELY((uint32_t)~state != cl_cell_high(cell))) {
        return false;
    }
    reader->offset = next;
    return true;
}

#else

bool cl_reader_next_short(cl_reader *reader, cl_record *record) { return false; }

#endif

/* The end, as an offset of at most `limit`, of the bytes that reader_source's choice serves: the
 * committed end, if it chose the file. */
static uint64_t source_end(const cl_reader *reader, uint64_t limit) {
    const cl_segment *segment = reader->segment;
    uint64_t committed =
        reader->from_buffer ? cl_load(&reader->log->cursors->committed.value) : UINT64_MAX;
    uint64_t in_file = committed > segment->base ? committed - segment->base : 0;
    uint64_t end = reader->offset < in_file && in_file < limit ? in_file : limit;
    return end < segment->size ? end : segment->size;
}

/* The offset below which the reader trusts a header without its CRC. */
static inline uint64_t believed_to(const cl_reader *reader) {
    return reader->careful ? 0 : uncertain_offset(reader);
}

size_t cl_reader_step_run(cl_reader *reader, uint64_t limit, uint32_t *offsets, size_t most) {
    uint64_t believed = believed_to(reader);
    /* In this order: a source that was chosen before the watermark moved is good for what is below
     * it, too. */
    cl_frame_cursor at = reader_cursor(reader, UINT64_MAX);
    at.limit = source_end(reader, limit < believed ? limit : believed);
    size_t count = 0;
    while (count < most && cl_frame_read(&at) == CL_OK) {
        __builtin_prefetch(at.bytes + at.offset + CL_AHEAD);
        if (offsets != NULL) {
            offsets[count] = (uint32_t)at.offset;
        }
        count++;
        cl_frame_next(&at);
    }
    cl_assert(count, <=, most);
    cl_assert(at.offset, >=, reader->offset);
    reader->offset = at.offset;
    return count;
}

int cl_reader_step(cl_reader *reader, uint64_t limit, cl_frame_cursor *found) {
    const uint64_t believed = believed_to(reader);
    for (;;) {
        cl_frame_cursor at = reader_cursor(reader, limit);
        int code = cl_frame_read(&at);
        if (CL_UNLIKELY(reader->offset >= believed)) {
            cl_record record;
            code = cl_frame_verify(&at, code, &record);
        }
        if (CL_LIKELY(code == CL_OK)) {
            cl_assert(at.offset + at.step, <=, at.size);
            reader->offset += at.step;
            *found = at;
            return CL_OK;
        }
        if (code == CL_E_ROLLED_BACK) { /* the CRC of a SKIP is not compared later */
            cl_record record;
            code = cl_frame_verify(&at, code, &record);
        }
        code = code == CL_E_ROLL ? code : pass_other(reader, at.step, code);
        if (code != CL_OK) {
            return code;
        }
    }
}

int cl_reader_step_past_damage(cl_reader *reader, uint64_t limit, cl_frame_cursor *at) {
    for (;;) {
        int code = cl_reader_step(reader, limit, at);
        if (CL_LIKELY(code != CL_E_DAMAGE)) {
            return code;
        }
        reader->offset = cl_log_resume(reader->log, reader->segment, reader->offset);
    }
}

int cl_reader_step_over(cl_reader *reader, uint64_t limit, uint64_t most, uint64_t *count) {
    cl_frame_cursor at;
    for (*count = 0;;) {
        *count += cl_reader_step_run(reader, limit, NULL, most - *count);
        if (*count == most) {
            return CL_OK;
        }
        int code = cl_reader_step_past_damage(reader, limit, &at);
        if (code != CL_OK) {
            return code;
        }
        ++*count;
    }
}

void cl_reader_batch_whole(cl_reader *reader, uint64_t limit, cl_batch *batch) {
    /* In this order: a source that was chosen before the watermark moved is good for what is below
     * it, too. */
    cl_frame_cursor at = reader_cursor(reader, UINT64_MAX);
    at.limit = source_end(reader, limit);
    while (batch->count < batch->most && cl_frame_read(&at) == CL_OK) {
        cl_record record;
        if (cl_cell_word(at.cell) & CL_WORD_EXT) {
            if (cl_frame_verify(&at, CL_OK, &record) != CL_OK || !cl_batch_add(batch, &record)) {
                break;
            }
            cl_frame_next(&at);
        } else {
            const uint64_t before = at.offset;
            cl_batch_read(batch, &at);
            if (at.offset == before) {
                break;
            }
        }
    }
    reader->offset = at.offset;
}

/* Adds any record; CL_E_FULL if it has no room. */
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
        cl_reader_batch_whole(reader, cl_reader_limit(reader), batch);
        if (batch->count >= batch->most) {
            return CL_E_FULL;
        }
        int code = batch_one(reader, batch);
        if (code != CL_OK) {
            return code;
        }
    }
}
