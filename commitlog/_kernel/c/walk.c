/* Walks over published cells: how the appended watermark rises. */
#include "log.h"

#include <stdlib.h>
#include <string.h>

/* The index that the commits make in passing. Without memory for it, it is made by whoever needs
 * it. */
static void begin_index(cl_segment *segment, uint32_t spacing) {
    size_t room = cl_index_room(segment->size, spacing);
    segment->index = (cl_index){.entries = malloc(room * sizeof(cl_index_entry)),
                                .spacing = spacing,
                                .largest_ns = INT64_MIN};
    segment->index.room = segment->index.entries != NULL ? room : 0;
}

int cl_walk(cl_log *log, cl_segment *segment, uint64_t *position, uint64_t limit, cl_watch *watch) {
    uint32_t offset = (uint32_t)(*position - segment->base);
    offset = offset < CL_SEGMENT_HEADER ? CL_SEGMENT_HEADER : offset;
    uint64_t stop = limit - segment->base < segment->size ? limit - segment->base : segment->size;
    bool tallies = log->resolves && segment->tallied == offset;
    if (tallies && offset == CL_SEGMENT_HEADER && log->index_spacing != 0 &&
        segment->index.spacing == 0) {
        begin_index(segment, log->index_spacing);
    }
    cl_tally tally = tallies ? segment->tally : (cl_tally){0};
    cl_index entries = segment->index;
    int code = CL_OK;
    while (offset < stop) {
        const uint8_t *at = segment->bytes + offset;
        uint64_t step;
        __builtin_prefetch(at + CL_AHEAD);
        enum cl_cell_kind kind =
            cl_cell_read(cl_load((const uint64_t *)at), segment->size - offset, &step);
        if (CL_LIKELY(kind == CL_CELL_RECORD)) {
            if (tallies) {
                int64_t timestamp_ns;
                memcpy(&timestamp_ns, at + CL_FRAME_TIMESTAMP, sizeof timestamp_ns);
                cl_index_mark(&entries, offset, tally.records, tally.largest_timestamp_ns);
                cl_tally_add(&tally, timestamp_ns, offset + step);
            }
        } else if (kind == CL_CELL_ZERO || kind == CL_CELL_CLAIMED) {
            code = cl_resolve(log, segment, offset, watch, &step);
            if (code != CL_OK) {
                break;
            }
        } else if (kind == CL_CELL_BAD) {
            code = CL_E_DAMAGE;
            break;
        }
        offset += (uint32_t)step;
    }
    if (tallies) {
        segment->tally = tally;
        segment->index = entries;
        segment->index.records = tally.records;
        cl_store32(&segment->tallied, offset);
    }
    *position = segment->base + offset;
    return code;
}

void cl_log_pass_commits(cl_log *log) {
    pthread_mutex_lock(&log->commit_mutex);
    pthread_mutex_unlock(&log->commit_mutex);
}

int cl_log_appended(cl_log *log, uint64_t *appended) {
    /* Its holder walks with the handle's watch, which goes on from call to call: whoever asks for
     * this watermark again and again finds out that a claim is dead. And buffers are detached only
     * after the mutex was free, so none goes away under this walk. */
    pthread_mutex_lock(&log->commit_mutex);
    uint64_t position = cl_load(&log->cursors->appended.value);
    /* Only up to where the tail stands now: appenders that are faster than this walk must not keep
     * it going. */
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
    /* One who may not roll back has stepped over dead claims that still stand there: that is nobody
     * else's watermark. */
    if (log->resolves) {
        cl_raise(&log->cursors->appended.value, position);
    }
    pthread_mutex_unlock(&log->commit_mutex);
    uint64_t reached = cl_load(&log->cursors->appended.value);
    *appended = reached > position ? reached : position;
    /* Where the walk stopped for want of more is no failure. */
    return code == CL_E_END || code == CL_E_BUSY || code == CL_E_ABSENT ? CL_OK : code;
}
