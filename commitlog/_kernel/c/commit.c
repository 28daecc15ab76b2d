#define _GNU_SOURCE
#include "commit.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "frame_cursor.h"
#include "futex.h"
#include "walk.h"

#define CHUNK (1u << 20) /* bytes of one commit write */

/* Copies [from, to) of a pool buffer into its file. Its first cell goes last, through the mapping,
 * in one store: the range appears to other processes whole or not at all. */
static int copy_range(cl_log *log, cl_segment *segment, uint32_t from, uint32_t to) {
    uint64_t first = cl_load((const uint64_t *)(segment->bytes + from));
    cl_assert(from, >=, CL_SEGMENT_HEADER);
    cl_assert(from, <, to);
    cl_assert(to, <=, segment->size);
    cl_assert(cl_cell_published(first), ==, true);
    uint32_t start = from + (uint32_t)sizeof first;
    /* If no descriptor is free, the copy goes through the mapping instead. */
    if (to - from <= log->copy_limit || !cl_segment_reopen(log->table.dir_fd, segment)) {
        memcpy(segment->map + start, segment->bytes + start, to - start);
    } else {
        while (start < to) { /* each round writes, or a signal interrupted it */
            ssize_t wrote = pwrite(segment->fd, segment->bytes + start, to - start, start);
            if (wrote < 0 && errno == EINTR) {
                continue;
            }
            if (wrote <= 0) {
                return cl_log_fail(log, wrote < 0 ? errno : EIO);
            }
            start += (uint32_t)wrote;
        }
    }
    cl_store((uint64_t *)(segment->map + from), first);
    cl_assert(cl_load((const uint64_t *)(segment->map + from)), ==, first);
    return CL_OK;
}

static void segment_done(cl_log *log, cl_segment *segment) {
    cl_assert(cl_load(&log->cursors->committed.value), >=, segment->base + segment->size);
    cl_segment_close_file(segment);
    if (segment->bytes != segment->map) {
        cl_store32(&segment->drained, 1);
        cl_futex_raise(&log->event);
    }
}

/* Commits the next run of published frames in the segment at *position, at most about CHUNK of them
 * and not far past `goal`. */
static int commit_chunk(cl_log *log, cl_segment *segment, uint64_t *position, uint64_t goal) {
    uint64_t from = *position;
    cl_assert(from, >=, segment->base);
    cl_assert(from, <, segment->base + segment->size);
    cl_assert(goal, >, from);
    bool copies = segment->bytes != segment->map;
    uint64_t limit = copies && goal - from > CHUNK ? from + CHUNK : goal;
    int code = cl_walk(log, segment, position, limit, &log->watch);
    if (*position > from) {
        cl_raise(&log->cursors->appended.value, *position);
        if (copies) {
            /* Only the rest of a closing SKIP reaches beyond the blocks, and means nothing. */
            uint32_t allocated = cl_log_allocated(log, segment->number);
            uint64_t to = *position - segment->base;
            int copied = copy_range(log, segment, (uint32_t)(from - segment->base),
                                    to < allocated ? (uint32_t)to : allocated);
            if (copied != CL_OK) {
                return copied;
            }
        }
        log->counters.committed_bytes += *position - from;
        cl_raise(&log->cursors->committed.value, *position);
        if (copies) {
            cl_log_wake_readers(log);
        }
    }
    cl_assert(*position, >=, from);
    cl_assert(*position, <=, segment->base + segment->size);
    if (*position == segment->base + segment->size) {
        segment_done(log, segment);
    }
    return code;
}

/* Commits up to the tail at the start: appenders that are faster than this walk must not delay a
 * flush. */
static int commit_all(cl_log *log) {
    cl_segment *segment = NULL;
    uint64_t goal = log->tail == NULL ? UINT64_MAX : cl_log_position(log, cl_load(log->tail));
    uint64_t position = cl_log_upward(log, cl_load(&log->cursors->committed.value));
    int code = CL_OK;
    while (code == CL_OK && position < goal && !cl_log_failed(log)) {
        uint64_t number = position / log->segment_size;
        if (segment == NULL || segment->number != number) {
            cl_segment_release(segment);
            segment = NULL;
            code = cl_table_acquire(&log->table, number, &segment);
        }
        if (code == CL_OK) {
            code = commit_chunk(log, segment, &position, goal);
        }
        position = cl_log_upward(log, position);
    }
    cl_segment_release(segment);
    return code;
}

/* Records how long a claim blocked commits, once it no longer does, to the precision of the commit
 * interval. */
static void note_hold(cl_log *log, int code, int64_t now_ns) {
    uint64_t held_at = code == CL_E_BUSY ? log->watch.position : UINT64_MAX;
    if (held_at == log->held_at) {
        return;
    }
    if (log->held_at != UINT64_MAX) {
        cl_histogram_add(&log->latencies.claim, now_ns - log->held_since_ns);
    }
    log->held_at = held_at;
    log->held_since_ns = now_ns;
}

int cl_commit(cl_log *log, uint64_t upto) {
    if (!log->resolves) {
        return CL_E_READ_ONLY;
    }
    pthread_mutex_lock(&log->commit_mutex);
    int64_t began_ns = cl_clock_monotonic_ns();
    upto = cl_log_downward(log, upto);
    cl_log_assert(log);
    int code = commit_all(log);
    cl_log_assert(log);
    int64_t now_ns = cl_clock_monotonic_ns();
    cl_histogram_add(&log->latencies.commit, now_ns - began_ns);
    note_hold(log, code, now_ns);
    pthread_mutex_unlock(&log->commit_mutex);
    if (cl_log_failed(log)) {
        return CL_E_FAILED;
    }
    if (cl_load(&log->cursors->committed.value) >= upto || code == CL_E_END ||
        code == CL_E_ABSENT) {
        return CL_OK;
    }
    return code;
}
