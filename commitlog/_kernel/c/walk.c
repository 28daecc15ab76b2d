/* Walks over published cells: how the appended watermark rises. */
#include "walk.h"

#include <stdlib.h>

#include "frame_cursor.h"
#include "resolve.h"

/* Allocates the index that commits build as they walk. Without memory for it, the first reader that
 * needs the index builds it. */
static void begin_index(cl_segment *segment, uint32_t spacing) {
    size_t room = cl_index_room(segment->size, spacing);
    cl_assert(segment->index.entries == NULL, ==, true);
    segment->index = (cl_index){.entries = malloc(room * sizeof(cl_index_entry)),
                                .spacing = spacing,
                                .largest_ns = INT64_MIN};
    segment->index.room = segment->index.entries != NULL ? room : 0;
}

/* Whether no appender can have claimed up to a position yet. */
static bool is_beyond_tail(const cl_log *log, uint64_t position) {
    const uint64_t *tail = cl_log_tail(log);
    return tail != NULL && position > cl_log_position(log, cl_load(tail));
}

int cl_walk(cl_log *log, cl_segment *segment, uint64_t *position, uint64_t limit, cl_watch *watch) {
    cl_assert(*position, >=, segment->base);
    cl_assert(*position, <, segment->base + segment->size);
    cl_assert(*position % CL_FRAME_ALIGN, ==, 0);
    cl_frame_cursor at = cl_frame_cursor_at(
        segment, segment->bytes, cl_frame_offset(*position - segment->base), limit - segment->base);
    bool tallies = log->resolves && segment->tallied == at.offset;
    if (tallies && at.offset == CL_SEGMENT_HEADER && log->index_spacing != 0 &&
        segment->index.spacing == 0) {
        begin_index(segment, log->index_spacing);
    }
    cl_tally tally = tallies ? segment->tally : (cl_tally){0};
    cl_index entries = segment->index;
    int code;
    for (;; cl_frame_next(&at)) {
        __builtin_prefetch(at.bytes + at.offset + CL_AHEAD);
        code = cl_frame_read(&at);
        if (CL_LIKELY(code == CL_OK)) {
            if (tallies) {
                cl_index_mark(&entries, at.offset, tally.records, tally.largest_timestamp_ns);
                cl_tally_add(&tally, cl_frame_timestamp(&at), at.offset + at.step);
            }
            continue;
        }
        if (code == CL_E_END || code == CL_E_BUSY) {
            uint64_t pass; /* not at.step itself, or the cursor would not stay in registers */
            code = cl_resolve(log, segment, (uint32_t)at.offset, watch, &pass);
            at.step = pass;
        }
        if (code != CL_OK && code != CL_E_ROLLED_BACK) {
            break;
        }
    }
    if (at.offset > at.limit && is_beyond_tail(log, segment->base + at.offset)) {
        /* A damaged length led there. No watermark may pass the tail. */
        at.offset -= at.step;
        code = CL_E_DAMAGE;
        tallies = false;
    }
    cl_assert(segment->base + at.offset, >=, *position);
    cl_assert(at.offset <= segment->size || !log->resolves, ==, true);
    if (tallies) {
        cl_assert(cl_load32(&segment->tallied), <=, at.offset);
        cl_assert(tally.end, <=, at.offset);
        cl_assert(tally.records, >=, segment->tally.records);
        cl_assert(entries.count, <=, entries.room);
        segment->tally = tally;
        segment->index = entries;
        segment->index.records = tally.records;
        cl_store32(&segment->tallied, (uint32_t)at.offset);
    }
    *position = segment->base + at.offset;
    return code == CL_E_ROLL ? CL_OK : code;
}

void cl_log_pass_commits(cl_log *log) {
    pthread_mutex_lock(&log->commit_mutex);
    pthread_mutex_unlock(&log->commit_mutex);
}

int cl_log_appended(cl_log *log, uint64_t *appended) {
    /* The mutex guards the handle's watch, which continues from call to call: a caller that polls
     * this watermark detects that a claim is dead. Buffers are detached only after the mutex was
     * free, so none is detached during this walk. */
    pthread_mutex_lock(&log->commit_mutex);
    uint64_t position = cl_load(&log->cursors->appended.value);
    cl_log_assert(log);
    /* The goal is the tail of now: appenders that are faster than this walk must not prolong it. */
    const uint64_t *tail = cl_log_tail(log);
    uint64_t goal = tail == NULL ? UINT64_MAX : cl_log_position(log, cl_load(tail));
    int code = CL_OK;
    while (code == CL_OK && position < goal) {
        cl_segment *segment;
        code = cl_table_acquire(&log->table, position / log->segment_size, &segment);
        if (code != CL_OK) {
            break;
        }
        code = cl_walk(log, segment, &position, goal, &log->watch);
        cl_segment_release(segment);
    }
    /* A handle that may not roll back has stepped over dead claims that are still in the log: its
     * result is valid for itself only. */
    if (log->resolves) {
        cl_raise(&log->cursors->appended.value, position);
        cl_log_assert(log);
    }
    pthread_mutex_unlock(&log->commit_mutex);
    uint64_t reached = cl_load(&log->cursors->appended.value);
    *appended = reached > position ? reached : position;
    /* A walk that stopped because nothing more is published has not failed. */
    return code == CL_E_END || code == CL_E_BUSY || code == CL_E_ABSENT ? CL_OK : code;
}
