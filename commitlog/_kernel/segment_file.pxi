# Segment files that no handle has open: their header pages, their names, and whose frames they
# hold.

MAGIC = (<uint64_t>CL_SEGMENT_MAGIC).to_bytes(sizeof(uint64_t), "little")
HEADER_SIZE = CL_SEGMENT_HEADER
SMALLEST = CL_SEGMENT_SMALLEST
LARGEST = CL_SEGMENT_LARGEST
FORMAT = (CL_FORMAT_MAJOR, CL_FORMAT_MINOR)
OPENED_AT = CL_HEADER_OPENED_AT
SEAL_AT = CL_HEADER_SEAL_AT
SEAL_SIZE = sizeof(cl_header_seal)
OPENED_CRC = CL_HEADER_OPENED_CRC
SEAL_CRC = CL_HEADER_SEAL_CRC
UUID_SIZE = CL_UUID_SIZE
CELL_SIZE = CL_CELL_SIZE
FRAME_ALIGN = CL_FRAME_ALIGN
HEADERS_BACK = CL_HEADERS_BACK
FRAME_HEADER = CL_FRAME_HEADER
FRAME_EXTENDED = CL_FRAME_EXTENDED
FRAME_LIMIT = CL_FRAME_LIMIT

cdef extern from "stdio.h":
    int renameat2(
        int old_dir, const char *old, int new_dir, const char *new, unsigned int flags
    ) nogil
    enum:
        RENAME_NOREPLACE

cdef extern from "fcntl.h":
    int fallocate(int fd, int mode, long long offset, long long length) nogil
    enum:
        FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE
    int sync_file_range(int fd, long long offset, long long length, unsigned int flags) nogil
    enum:
        SYNC_FILE_RANGE_WRITE

cdef extern from "sys/stat.h":
    struct timespec:
        long tv_sec
        long tv_nsec
    struct stat:
        unsigned long st_ino
        timespec st_mtim
    int fstatat(int dir_fd, const char *name, stat *status, int flags)
    enum:
        AT_SYMLINK_NOFOLLOW

cdef extern from "sys/vfs.h":
    struct statfs:
        long f_type
    int fstatfs(int fd, statfs *status) nogil

cdef long EXT4_MAGIC = 0xEF53
cdef long XFS_MAGIC = 0x58465342


def file_version(int dir_fd, bytes name):
    """A value that differs after a file was replaced: (inode, ns of its last change), or (0, 0) if
    there is none.

    The look-up takes less than it would to hand over the interpreter's lock, which it keeps.
    """
    cdef stat status
    if fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0:
        if errno != ENOENT:
            raise OSError(errno, os.strerror(errno), os.fsdecode(name))
        return 0, 0
    return status.st_ino, status.st_mtim.tv_sec * 1_000_000_000 + status.st_mtim.tv_nsec


def punch_hole(int fd, long long start, long long stop):
    """Free the blocks of [start, stop), which then read as zeros. False if the file system cannot.
    """
    cdef int result
    with nogil:
        result = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, start, stop - start)
    return result == 0


def start_writeback(int fd, long long start, long long stop):
    """Begin to write the dirty pages of [start, stop), without waiting. False if the file system
    overwrites no blocks in place, or reports an error: a flush then writes the pages.

    A page's first flush also records in the file system that its block is written. For pages that
    are still zeros, this call takes that work from the flush that an appender waits for.
    """
    cdef statfs status
    cdef int result
    with nogil:
        result = fstatfs(fd, &status)
        if result == 0 and (status.f_type == EXT4_MAGIC or status.f_type == XFS_MAGIC):
            result = sync_file_range(fd, start, stop - start, SYNC_FILE_RANGE_WRITE)
        else:
            result = -1
    return result == 0


def rename_noreplace(int dir_fd, str old, str new):
    """Rename inside a directory unless the new name exists; False then.

    Raises
    ------
    OSError
        The rename failed for another reason.
    """
    cdef bytes old_name = os.fsencode(old)
    cdef bytes new_name = os.fsencode(new)
    cdef const char *old_bytes = old_name
    cdef const char *new_bytes = new_name
    cdef int result, cause
    with nogil:
        result = renameat2(dir_fd, old_bytes, dir_fd, new_bytes, RENAME_NOREPLACE)
        cause = errno
    if result == 0:
        return True
    if cause == EEXIST:
        return False
    raise OSError(cause, os.strerror(cause), new)


def header_page(bytes log_uuid, uint64_t segment_id, uint64_t base, uint64_t size,
                int64_t created_ns, int64_t opened_ns=0,
                int64_t cycle=0, uint64_t durable=0):
    """A new segment's first page. `opened_ns` above 0 also fills the opened part, as for a log's
    very first segment. Everything below the position `durable` is durable already; 0: unknown.
    """
    cdef cl_header_identity identity
    cdef cl_header_durable durable_part
    cdef cl_header_opened opened
    memset(&identity, 0, sizeof(identity))
    identity.magic = CL_SEGMENT_MAGIC
    identity.major = CL_FORMAT_MAJOR
    identity.minor = CL_FORMAT_MINOR
    identity.header_size = CL_SEGMENT_HEADER
    memcpy(identity.log_uuid, uuid_of(log_uuid), CL_UUID_SIZE)
    identity.segment_id = segment_id
    identity.base = base
    identity.size = size
    identity.created_ns = created_ns
    identity.crc = cl_crc32c(0, &identity, CL_HEADER_IDENTITY_CRC)
    memset(&durable_part, 0, sizeof(durable_part))
    if durable > 0:
        durable_part.position = durable
        durable_part.crc = cl_header_durable_crc(segment_id, durable)
    memset(&opened, 0, sizeof(opened))
    if opened_ns > 0:
        opened.opened_ns = opened_ns
        opened.cycle = cycle
        opened.crc = cl_header_opened_crc(segment_id, opened_ns, cycle)
    page = bytearray(CL_SEGMENT_HEADER)
    page[:sizeof(identity)] = (<char *>&identity)[:sizeof(identity)]
    page[
        CL_HEADER_DURABLE_AT:CL_HEADER_DURABLE_AT + sizeof(durable_part)
    ] = (<char *>&durable_part)[:sizeof(durable_part)]
    page[
        CL_HEADER_OPENED_AT:CL_HEADER_OPENED_AT + sizeof(opened)
    ] = (<char *>&opened)[:sizeof(opened)]
    return bytes(page)


def check_header(bytes page, bytes log_uuid, uint64_t base, uint64_t size):
    """The kernel code for a header page: 0 when it is what it should be. `log_uuid` None accepts
    any log.
    """
    if len(page) < CL_SEGMENT_HEADER:
        raise ValueError("a header is one page")
    return cl_header_check(<char *>page, expected_uuid(log_uuid), base, size)


def header_fields(bytes page):
    """What a header page says, sound or not: (log_uuid, segment_id, base, size, created_ns)."""
    cdef cl_header_identity identity
    if len(page) < CL_SEGMENT_HEADER:
        raise ValueError("a header is one page")
    memcpy(&identity, <char *>page, sizeof(identity))
    return (
        (<char *>identity.log_uuid)[:CL_UUID_SIZE], identity.segment_id, identity.base,
        identity.size, identity.created_ns
    )


def durable_at_creation(bytes page, bytes log_uuid, uint64_t base, uint64_t size):
    """The position below which the log was durable when the segment with this header page was
    created; 0 if the page does not say so, or is not that segment's.
    """
    cdef cl_header_identity identity
    if len(page) < CL_SEGMENT_HEADER or check_header(page, log_uuid, base, size) != CL_OK:
        return 0
    memcpy(&identity, <char *>page, sizeof(identity))
    return cl_header_durable_read(<char *>page, identity.segment_id, base)


def header_crc(bytes page):
    """The CRC that the identity part carries."""
    cdef cl_header_identity identity
    memcpy(&identity, <char *>page, sizeof(identity))
    return identity.crc


def first_frames(const uint8_t[::1] content, uint64_t segment_size, size_t most):
    """Return what the CRCs of a segment file's first frames cover behind the segment's id.

    Parameters
    ----------
    content : bytes-like
        The file, which may be shorter than the segment.
    segment_size : int
        Bytes.
    most : int
        How many frames to return at most.

    Returns
    -------
    list of (bytes, int)
        The covered bytes and the CRC of each frame, up to the first invalid header.
    """
    cdef cl_segment segment
    cdef cl_frame_cursor at
    cdef uint64_t length = min(<uint64_t>content.shape[0], segment_size)
    cdef uint32_t word, size
    found = []
    if length <= CL_SEGMENT_HEADER:
        return found
    memset(&segment, 0, sizeof(segment))
    segment.size = segment_size
    at = cl_frame_cursor_at(&segment, &content[0], CL_SEGMENT_HEADER, segment_size)
    at.end = at.limit = length - length % CL_FRAME_ALIGN
    while <size_t>len(found) < most:
        code = cl_frame_read(&at)
        if code != CL_OK and code != CL_E_ROLLED_BACK:
            break
        word = cl_cell_word(at.cell)
        size = CL_CELL_SIZE if code == CL_E_ROLLED_BACK else word & CL_WORD_LENGTH
        if size > cl_frame_largest(segment_size):
            break
        covered = (<char *>&at.offset)[:sizeof(at.offset)] + (<char *>&word)[:sizeof(word)]
        content_of_frame = <char *>&content[0] + at.offset + CL_CELL_SIZE
        found.append((covered + content_of_frame[:size - CL_CELL_SIZE], cl_cell_high(at.cell)))
        cl_frame_next(&at)
    return found


def frames_fit(const uint8_t[::1] content, uint64_t segment_id):
    """Whether a frame with a CRC of that segment id is in the bytes of a segment file."""
    cdef cl_segment segment
    memset(&segment, 0, sizeof(segment))
    segment.id = segment_id
    segment.seed = cl_crc32c_seed(segment_id)
    segment.size = segment.extent = content.shape[0] - content.shape[0] % CL_FRAME_ALIGN
    if segment.size <= CL_SEGMENT_HEADER:
        return False
    segment.map = segment.bytes = <uint8_t *>&content[0]
    cdef uint64_t end
    with nogil:
        end = cl_segment_certain_end(&segment, segment.map, CL_SEGMENT_HEADER)
    return end > CL_SEGMENT_HEADER


def read_opened(bytes page):
    """When the log rolled into the segment of a header page, and in which cycle: (opened_ns,
    cycle); None if the page does not have them."""
    cdef cl_header_identity identity
    cdef cl_header_opened opened
    if len(page) < CL_SEGMENT_HEADER:
        return None
    memcpy(&identity, <char *>page, sizeof(identity))
    if not cl_header_opened_read(<char *>page, identity.segment_id, &opened):
        return None
    return opened.opened_ns, opened.cycle


def read_seal(bytes page, bytes log_uuid, uint64_t base, uint64_t size):
    """What a header page says of its finished segment: (segment_id, crc, end, first_sequence,
    record_count, first_timestamp_ns, last_timestamp_ns, largest_timestamp_ns); None where it has no
    sound seal, or is another segment's page."""
    cdef cl_header_identity identity
    cdef cl_header_seal seal
    if len(page) < CL_SEGMENT_HEADER:
        return None
    if cl_header_check(<char *>page, uuid_of(log_uuid), base, size) != CL_OK:
        return None
    memcpy(&identity, <char *>page, sizeof(identity))
    memcpy(&seal, <char *>page + CL_HEADER_SEAL_AT, sizeof(seal))
    if not cl_header_seal_valid(identity.segment_id, size, &seal):
        return None
    return (identity.segment_id, seal.crc, seal.end, seal.first_sequence, seal.record_count,
            seal.first_timestamp_ns,
            seal.last_timestamp_ns, seal.largest_timestamp_ns)


def seal_part(uint64_t segment_id, uint64_t end, uint64_t first_sequence, uint64_t record_count,
              int64_t first_timestamp_ns,
              int64_t last_timestamp_ns, int64_t largest_timestamp_ns):
    """The seal of a finished segment, as the bytes at `SEAL_AT` of its header page."""
    cdef cl_header_seal seal
    memset(&seal, 0, sizeof(seal))
    seal.end = end
    seal.first_sequence = first_sequence
    seal.record_count = record_count
    seal.first_timestamp_ns = first_timestamp_ns
    seal.last_timestamp_ns = last_timestamp_ns
    seal.largest_timestamp_ns = largest_timestamp_ns
    seal.crc = cl_header_seal_crc(segment_id, &seal)
    seal.sealed = 1
    return (<char *>&seal)[:sizeof(seal)]
