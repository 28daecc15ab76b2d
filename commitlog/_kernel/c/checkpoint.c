#define _GNU_SOURCE
#include "checkpoint.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "crc32c.h"
#include "futex.h"

int cl_checkpoint_read(const uint8_t bytes[CL_CHECKPOINT_SIZE], const uint8_t *log_uuid,
                       cl_checkpoint *out) {
    bool found = false;
    for (uint32_t turn = 0; turn < 2; turn++) {
        cl_checkpoint record;
        memcpy(&record, bytes + turn * CL_CHECKPOINT_STRIDE, sizeof record);
        bool valid = record.magic == CL_CHECKPOINT_MAGIC &&
                     memcmp(record.log_uuid, log_uuid, 16) == 0 &&
                     cl_crc32c(0, &record, offsetof(cl_checkpoint, crc)) == record.crc;
        if (valid && (!found || record.count > out->count)) {
            *out = record;
            found = true;
        }
    }
    return found ? CL_OK : CL_E_ABSENT;
}

int cl_checkpoint_write(cl_log *log, uint64_t position, bool clean, bool durable) {
    if (log->checkpoint_fd < 0) {
        return CL_OK;
    }
    cl_checkpoint record = {.magic = CL_CHECKPOINT_MAGIC,
                            .count = ++log->checkpoint_count,
                            .position = position,
                            .written_ns = cl_clock_precise_ns(),
                            .clean = clean};
    memcpy(record.log_uuid, log->table.log_uuid, sizeof record.log_uuid);
    record.crc = cl_crc32c(0, &record, offsetof(cl_checkpoint, crc));
    off_t at = (off_t)(record.count % 2 * CL_CHECKPOINT_STRIDE);
    ssize_t wrote = pwrite(log->checkpoint_fd, &record, sizeof record, at);
    if (wrote != (ssize_t)sizeof record) {
        errno = wrote < 0 ? errno : ENOSPC;
        return CL_E_SYSTEM;
    }
    return durable && fdatasync(log->checkpoint_fd) != 0 ? CL_E_SYSTEM : CL_OK;
}
