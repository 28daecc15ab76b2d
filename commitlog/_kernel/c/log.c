#define _GNU_SOURCE
#include "log.h"

#include <errno.h>
#include <string.h>

#include "crc32c.h"
#include "futex.h"

int cl_log_init(cl_log *log, cl_cursors *cursors, int dir_fd, const uint8_t *log_uuid,
                uint64_t segment_size, bool writable) {
    memset(log, 0, sizeof *log);
    log->cursors = cursors;
    log->slot_fds = CL_NO_SLOT_FDS;
    log->checkpoint_fd = -1;
    log->segment_size = segment_size;
    log->uncertain_from = UINT64_MAX;
    log->claim_timeout_ns = 2000000000ll;
    log->copy_limit = 64u << 10;
    log->watch.position = UINT64_MAX;
    log->held_at = UINT64_MAX;
    if (pthread_mutex_init(&log->commit_mutex, NULL) != 0 ||
        pthread_mutex_init(&log->checkpoint_mutex, NULL) != 0 ||
        !cl_flush_queue_init(&log->flush_queue)) {
        return CL_E_MEMORY;
    }
    return cl_table_init(&log->table, dir_fd, log_uuid, segment_size, writable);
}

void cl_log_clear(cl_log *log) { cl_table_clear(&log->table); }

void cl_log_after_fork(cl_log *log) {
    /* Another thread of the parent may have held a mutex when the child was made, and have been
     * in the middle of what it guards. */
    pthread_mutex_init(&log->commit_mutex, NULL);
    pthread_mutex_init(&log->checkpoint_mutex, NULL);
    log->leading = 0;
    log->ready_below = 0; /* the parent's service made them ready */
    cl_table_after_fork(&log->table);
    log->watch = (cl_watch){.position = UINT64_MAX};
    log->held_at = UINT64_MAX;
    log->lead_watch = (cl_lead_watch){0};
    cl_flush_queue_init(&log->flush_queue); /* the waiting threads are the parent's */
    log->group = (cl_group_commit){0};
}

int cl_log_fail(cl_log *log, int cause) {
    uint64_t none = 0;
    cl_swap(&log->cursors->failed.value, &none, cause > 0 ? (uint64_t)cause : EIO);
    cl_assert(cl_log_failed(log), ==, true);
    return CL_E_FAILED;
}

int cl_log_refusal(const cl_log *log) {
    if (log->refusal != 0) {
        return -(int)log->refusal;
    }
    return cl_log_failed(log) ? CL_E_FAILED : CL_OK;
}

void cl_log_wake_sleepers(cl_log *log) {
    if (__atomic_exchange_n(&log->cursors->waiters.value, 0, __ATOMIC_SEQ_CST) != 0) {
        cl_futex_raise_one((uint32_t *)&log->cursors->append_signal.value);
    }
}
