# The `checkpoint` file's records, read and written for logs that no handle has open.

CHECKPOINT_SIZE = CL_CHECKPOINT_SIZE


def read_checkpoint(bytes content, bytes log_uuid):
    """The checkpoint in force in a file's bytes as (position, clean, count, written_ns), or
    None.
    """
    cdef cl_checkpoint record
    content = content.ljust(CL_CHECKPOINT_SIZE, b"\0")
    if cl_checkpoint_read(
        <const uint8_t *><char *>content, uuid_of(log_uuid), &record
    ) != CL_OK:
        return None
    return record.position, bool(record.clean), record.count, record.written_ns


def write_checkpoint(int fd, bytes log_uuid, uint64_t count, uint64_t position, bint clean):
    """Write a record that follows those in a checkpoint file, and the one with number `count`,
    durably, for a log that no handle has open.

    Raises
    ------
    OSError
        The system refused.
    """
    cdef const uint8_t *uuid = uuid_of(log_uuid)
    cdef int code, cause
    with nogil:
        code = cl_checkpoint_put(fd, uuid, count, position, clean, True)
        cause = errno
    if code != CL_OK:
        raise OSError(cause, os.strerror(cause))
