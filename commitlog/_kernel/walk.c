/* Walks over published cells: how the appended watermark rises. */
#include "log.h"

int cl_walk(cl_log *log, cl_segment *segment, uint64_t *position, uint64_t limit, cl_watch *watch) {
    uint32_t offset = (uint32_t)(*position - segment->base);
    offset = offset < CL_SEGMENT_HEADER ? CL_SEGMENT_HEADER : offset;
    uint64_t stop = limit - segment->base < segment->size ? limit - segment->base : segment->size;
    int code = CL_OK;
    while (offset < stop) {
        uint64_t cell = cl_load((const uint64_t *)(segment->bytes + offset));
        uint64_t step;
        enum cl_cell_kind kind = cl_cell_read(cell, segment->size - offset, &step);
        if (kind == CL_CELL_ZERO || kind == CL_CELL_CLAIMED) {
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
    *position = segment->base + offset;
    return code;
}

void cl_log_pass_commits(cl_log *log) {
    pthread_mutex_lock(&log->commit_mutex);
    pthread_mutex_unlock(&log->commit_mutex);
}

int cl_log_appended(cl_log *log, uint64_t *appended) {
    cl_watch watch = {.position = UINT64_MAX};
    /* Buffers are detached only after the commit mutex was free, so none goes away under this walk. */
    if (log->pooled) {
        pthread_mutex_lock(&log->commit_mutex);
    }
    uint64_t position = cl_load(&log->cursors->appended.value);
    /* Only up to where the tail stands now: appenders that are faster than this walk must not keep it going. */
    uint64_t goal = log->tail == NULL ? UINT64_MAX : cl_log_position(log, cl_load(log->tail));
    int code = CL_OK;
    while (code == CL_OK && position < goal) {
        cl_segment *segment;
        code = cl_table_acquire(&log->table, position / log->segment_size, &segment);
        if (code != CL_OK) {
            break;
        }
        code = cl_walk(log, segment, &position, goal, &watch);
        cl_segment_release(segment);
    }
    /* One who may not roll back has stepped over dead claims that still stand there: that is nobody else's watermark. */
    if (log->resolves) {
        cl_raise(&log->cursors->appended.value, position);
    }
    if (log->pooled) {
        pthread_mutex_unlock(&log->commit_mutex);
    }
    uint64_t reached = cl_load(&log->cursors->appended.value);
    *appended = reached > position ? reached : position;
    /* Where the walk stopped for want of more is no failure. */
    return code == CL_E_END || code == CL_E_BUSY || code == CL_E_ABSENT ? CL_OK : code;
}
