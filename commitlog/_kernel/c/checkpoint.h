/* The `checkpoint` file: a position known durable, and whether the log was closed cleanly.
 *
 * Two records, a sector apart, are written alternately, so that a torn write leaves the other one
 * intact: the valid one with the higher count is in force. Its position may be below the durable
 * position, but never above it. */
#ifndef CL_CHECKPOINT_H
#define CL_CHECKPOINT_H

#include "log.h"

#define CL_CHECKPOINT_MAGIC 0x3130504B434C4D43ull /* "CMLCKP01" */
#define CL_CHECKPOINT_STRIDE 512u
#define CL_CHECKPOINT_SIZE (2u * CL_CHECKPOINT_STRIDE)

typedef struct {
    uint64_t magic;
    uint8_t log_uuid[CL_UUID_SIZE];
    uint64_t count;
    uint64_t position;
    int64_t written_ns;
    uint32_t clean; /* 1: the last handle closed the log, no recovery is needed */
    uint32_t crc;
} cl_checkpoint;

_Static_assert(sizeof(cl_checkpoint) == 56, "a checkpoint record is 56 bytes");

/* Reads the record in force from a checkpoint file's bytes. CL_E_ABSENT: the file has no valid
 * record of this log. */
int cl_checkpoint_read(const uint8_t bytes[CL_CHECKPOINT_SIZE], const uint8_t *log_uuid,
                       cl_checkpoint *out);
/* Writes a record that has a higher count than those in the file and than `count`. If `durable`,
 * also syncs the file. */
int cl_checkpoint_put(int fd, const uint8_t *log_uuid, uint64_t count, uint64_t position,
                      bool clean, bool durable);

/* The same through log->checkpoint_fd. Waits while another thread of this handle writes one. */
int cl_checkpoint_write(cl_log *log, uint64_t position, bool clean, bool durable);
/* For a flush leader: records the flushed position if a record is due, and never waits. */
int cl_checkpoint_note(cl_log *log, int64_t now_ns);
/* Records the flushed position durably, unless a record of this handle that covers `below` is
 * durable already. An error fails the log. */
int cl_checkpoint_settle(cl_log *log, uint64_t below);
/* Settles what was flushed since, at most once an interval. So the record of a log that became idle
 * covers everything that was flushed, and is written once. */
int cl_checkpoint_settle_due(cl_log *log);

#endif
