#define _GNU_SOURCE
#include "checkpoint.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "crc32c.h"
#include "file.h"
#include "futex.h"

int cl_checkpoint_read(const uint8_t bytes[CL_CHECKPOINT_SIZE], const uint8_t *log_uuid,
                       cl_checkpoint *out) {
    bool found = false;
    for (uint32_t turn = 0; turn < 2; turn++) {
        cl_checkpoint record;
        memcpy(&record, bytes + turn * CL_CHECKPOINT_STRIDE, sizeof record);
        bool valid = record.magic == CL_CHECKPOINT_MAGIC &&
                     memcmp(record.log_uuid, log_uuid, sizeof record.log_uuid) == 0 &&
                     cl_crc32c(0, &record, offsetof(cl_checkpoint, crc)) == record.crc;
        if (valid && (!found || record.count > out->count)) {
            *out = record;
            found = true;
        }
    }
    return found ? CL_OK : CL_E_ABSENT;
}

/* Other handles of the log write to the file, too. */
static int read_file(int fd, const uint8_t *log_uuid, cl_checkpoint *out) {
    uint8_t bytes[CL_CHECKPOINT_SIZE] = {0};
    ssize_t got = cl_file_read(fd, bytes, sizeof bytes);
    return got < 0 ? CL_E_SYSTEM : cl_checkpoint_read(bytes, log_uuid, out);
}

int cl_checkpoint_put(int fd, const uint8_t *log_uuid, uint64_t count, uint64_t position,
                      bool clean, bool durable) {
    cl_checkpoint last;
    if (read_file(fd, log_uuid, &last) == CL_OK && last.count > count) {
        count = last.count;
    }
    cl_checkpoint record = {.magic = CL_CHECKPOINT_MAGIC,
                            .count = count + 1,
                            .position = position,
                            .written_ns = cl_clock_precise_ns(),
                            .clean = clean};
    memcpy(record.log_uuid, log_uuid, sizeof record.log_uuid);
    record.crc = cl_crc32c(0, &record, offsetof(cl_checkpoint, crc));
    off_t at = (off_t)(record.count % 2 * CL_CHECKPOINT_STRIDE);
    ssize_t wrote = pwrite(fd, &record, sizeof record, at);
    if (wrote != (ssize_t)sizeof record) {
        errno = wrote < 0 ? errno : ENOSPC;
        return CL_E_SYSTEM;
    }
    return durable && fdatasync(fd) != 0 ? CL_E_SYSTEM : CL_OK;
}

/* Under the checkpoint mutex. */
static int put(cl_log *log, uint64_t position, bool clean, bool durable) {
    int code = cl_checkpoint_put(log->checkpoint_fd, log->table.log_uuid, log->checkpoint_count,
                                 position, clean, durable);
    if (code == CL_OK) {
        log->checkpoint_count++;
        log->checkpoint_settled = durable ? position : log->checkpoint_settled;
    }
    return code;
}

int cl_checkpoint_write(cl_log *log, uint64_t position, bool clean, bool durable) {
    int code = CL_OK;
    pthread_mutex_lock(&log->checkpoint_mutex);
    if (log->checkpoint_fd >= 0) {
        code = put(log, position, clean, durable);
    }
    int cause = errno;
    pthread_mutex_unlock(&log->checkpoint_mutex);
    errno = cause;
    return code;
}

int cl_checkpoint_note(cl_log *log, int64_t now_ns) {
    if (log->checkpoint_fd < 0 ||
        now_ns - log->checkpoint_written_ns < log->checkpoint_interval_ns ||
        pthread_mutex_trylock(&log->checkpoint_mutex) != 0) {
        return CL_OK;
    }
    int code = CL_OK;
    if (log->checkpoint_fd >= 0) {
        log->checkpoint_written_ns = now_ns;
        code = put(log, cl_load(&log->cursors->flushed.value), false, false);
    }
    int cause = errno;
    pthread_mutex_unlock(&log->checkpoint_mutex);
    errno = cause;
    return code;
}

/* Under the checkpoint mutex. If another handle has recorded the position, it need not be written a
 * second time. */
static int settle(cl_log *log) {
    cl_checkpoint last;
    uint64_t flushed = cl_load(&log->cursors->flushed.value);
    int code = read_file(log->checkpoint_fd, log->table.log_uuid, &last);
    if (code == CL_OK && !last.clean && last.position >= flushed) {
        code = fdatasync(log->checkpoint_fd) != 0 ? CL_E_SYSTEM : CL_OK;
        log->checkpoint_settled = flushed;
        return code;
    }
    return code == CL_E_SYSTEM ? code : put(log, flushed, false, true);
}

int cl_checkpoint_settle(cl_log *log, uint64_t below) {
    int code = CL_OK;
    pthread_mutex_lock(&log->checkpoint_mutex);
    uint64_t settled = log->checkpoint_settled;
    if (log->checkpoint_fd >= 0 && settled < below &&
        settled < cl_load(&log->cursors->flushed.value)) {
        code = cl_log_failed(log) ? CL_E_FAILED : settle(log);
    }
    int cause = errno;
    pthread_mutex_unlock(&log->checkpoint_mutex);
    return code == CL_E_SYSTEM ? cl_log_fail(log, cause) : code;
}

int cl_checkpoint_settle_due(cl_log *log) {
    uint64_t flushed = cl_load(&log->cursors->flushed.value);
    if (log->checkpoint_fd < 0 || flushed <= log->checkpoint_settled) {
        return CL_OK;
    }
    int64_t now_ns = cl_clock_monotonic_ns();
    if (now_ns - log->checkpoint_settled_ns < log->checkpoint_interval_ns) {
        return CL_OK;
    }
    log->checkpoint_settled_ns = now_ns;
    return cl_checkpoint_settle(log, flushed);
}
