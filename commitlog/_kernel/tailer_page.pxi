# The page in which a named tailer's position is kept.

cdef extern from "<sys/mman.h>" nogil:
    int MS_SYNC
    int msync(void *address, size_t size, int flags)

TAILER_SIZE = CL_TAILER_SIZE
cdef uint64_t POSITION_LIMIT = <uint64_t>1 << 63


class DamagedPageError(ValueError):
    """The bytes are not those of a tailer of this log; the argument says why."""


def new_page(bytes log_uuid, uint64_t position, int64_t now_ns):
    """Return the content of a new tailer's file."""
    cdef uint8_t page[CL_TAILER_SIZE]
    cdef cl_tailer_terms terms
    cdef cl_tailer_mark mark
    memset(page, 0, sizeof(page))
    memset(&terms, 0, sizeof(terms))
    memset(&mark, 0, sizeof(mark))
    mark.page = page
    mark.now_ns = now_ns
    mark.forks = cl_tailer_forks
    terms.magic = CL_TAILER_MAGIC
    terms.created_ns = now_ns
    memcpy(terms.log_uuid, uuid_of(log_uuid), CL_UUID_SIZE)
    for _ in range(2):
        cl_tailer_write_terms(page, &terms)
        cl_tailer_save(&mark, position)
    return (<char *>page)[:CL_TAILER_SIZE]


cdef int _terms(const uint8_t *page, bytes log_uuid, cl_tailer_terms *terms) except -1:
    cdef int code = cl_tailer_read_terms(page, uuid_of(log_uuid), terms)
    if code == CL_E_FOREIGN:
        raise DamagedPageError("it belongs to another log")
    if code != CL_OK:
        raise DamagedPageError("its `required` and `max_lag` settings are damaged")
    return 0


def read_page(bytes content, bytes log_uuid):
    """Return the terms and the position of a page as a dict.

    Raises
    ------
    DamagedPageError
        The terms or the position are damaged.
    """
    cdef cl_tailer_terms terms
    cdef cl_tailer_saved place
    cdef const uint8_t *page = <const uint8_t *><const char *>content
    if len(content) != CL_TAILER_SIZE:
        raise DamagedPageError(f"it has {len(content)} bytes, not {CL_TAILER_SIZE}")
    _terms(page, log_uuid, &terms)
    if (cl_tailer_read_saved(page, &place) != CL_OK or place.position >= POSITION_LIMIT
            or place.position % CL_FRAME_ALIGN != 0):
        raise DamagedPageError("its position is damaged")
    return {
        "position": place.position, "saved_ns": place.saved_ns, "required": bool(terms.required),
        "max_lag_bytes": terms.max_lag_bytes,
        "created_ns": terms.created_ns, "evicted_ns": terms.evicted_ns, "owned_ns": terms.owned_ns,
        "pid": terms.pid,
        "pid_namespace": terms.pid_namespace, "dropped": cl_load(
            <const uint64_t *>(page + CL_TAILER_DROPPED_AT)
        ),
    }


cdef class TailerPage:
    """Map the file of a tailer.

    Parameters
    ----------
    fd : int
        Of a file of `TAILER_SIZE` bytes; it may be closed afterwards.
    path : str
        Of the file, for errors.
    """

    def __cinit__(self, int fd, str path):
        cdef cl_tailer_saved place
        cdef int code = cl_memory_map_descriptor(&self.area, fd, 0, CL_TAILER_SIZE, True)
        if code == CL_E_TRUNCATED:
            raise DamagedPageError(f"it is shorter than {CL_TAILER_SIZE} bytes")
        if code != CL_OK:
            raise OSError(errno, os.strerror(errno))
        self.path = path
        self.mark.page = self.area.bytes
        self.mark.forks = cl_tailer_forks
        self.mark.with_care = True
        self.mark.saved = <uint64_t>-1
        self.sync_every_ns = -1
        if cl_tailer_read_saved(self.mark.page, &place) == CL_OK:
            self.mark.count = place.count
            self.mark.saved = place.position

    def __dealloc__(self):
        cl_memory_unmap(&self.area)

    def content(self):
        """Return a copy of the page."""
        return (<char *>self.mark.page)[:CL_TAILER_SIZE]

    def keep_durable(self, int64_t every_ns):
        """Sync the page after a save, at most once in `every_ns` nanoseconds. -1: leave it to the
        system.
        """
        self.sync_every_ns = every_ns
        self.mark.with_care = True

    @property
    def foreign(self):
        """Return whether this process is the child of a fork, and the page its parent's."""
        return self.mark.forks != cl_tailer_forks

    @property
    def position(self):
        """Return the position of the last save through this mapping."""
        return self.mark.saved

    def read_position(self):
        """Return the position in the page, which another process may have saved; None if it is
        damaged.
        """
        cdef cl_tailer_saved place
        return place.position if cl_tailer_read_saved(self.mark.page, &place) == CL_OK else None

    cdef int save_position(self, uint64_t position) except -1:
        """Save a position, in the cases that `cl_tailer_save_plainly` leaves: the page is the
        parent's or closed, it must be synced, or the clock must be read again.
        """
        if self.mark.forks != cl_tailer_forks:
            raise ForkedError(
                "a named tailer belongs to the process that opened it: open it in this one, once "
                "it is closed there"
            )
        if position == self.mark.saved or self.closed:
            self.mark.with_care = True  # the next save reads the clock again
            return 0
        self.mark.now_ns = cl_clock_coarse_ns()
        self.mark.with_care = self.sync_every_ns >= 0
        cl_tailer_save(&self.mark, position)
        if self.sync_every_ns >= 0:
            self.unsynced = True
            if (self.mark.now_ns - self.synced_ns >= self.sync_every_ns
                    or self.mark.now_ns < self.synced_ns):
                self.synced_ns = self.mark.now_ns
                self.sync()
        return 0

    def save(self, uint64_t position):
        """Save a position by a store into the mapping."""
        self.save_position(position)

    def sync(self):
        """Make the saved position durable.

        Raises
        ------
        IOFailureError
            The sync failed.
        """
        cdef int code, cause
        self.unsynced = False
        with nogil:
            code = msync(self.area.mapped, self.area.mapped_size, MS_SYNC)
            cause = errno
        if code != 0:
            why = with_advice(os.strerror(cause), cause)
            raise IOFailureError(
                f"a tailer's page could not be made durable: {why}", path=self.path, errno=cause
            )

    def close(self):
        """Refuse further saves, sync what `keep_durable` has deferred, and unmap the file. A
        private copy of the page stays readable. Idempotent.
        """
        cdef bint first = not self.closed
        self.closed = self.mark.with_care = True
        try:
            if self.unsynced and self.mark.forks == cl_tailer_forks:
                self.sync()
        finally:
            if first:
                # If memory is short, the file stays mapped.
                cl_memory_part(&self.area, self.area.mapped_size)

    def change_terms(
        self, bytes log_uuid, *, required=None, max_lag_bytes=None, evicted_ns=None, owner=None
    ):
        """Write new terms; None keeps a term. `owner` is (pid, pid namespace, the time since when
        in nanoseconds). One process at a time.
        """
        cdef cl_tailer_terms terms
        _terms(self.mark.page, log_uuid, &terms)
        if required is not None:
            terms.required = required
        if max_lag_bytes is not None:
            terms.max_lag_bytes = max_lag_bytes
        if evicted_ns is not None:
            terms.evicted_ns = evicted_ns
        if owner is not None:
            terms.pid, terms.pid_namespace, terms.owned_ns = owner
        cl_tailer_write_terms(self.mark.page, &terms)

    def terms(self, bytes log_uuid):
        """Return (required, max_lag_bytes) of the page; None if they are damaged."""
        cdef cl_tailer_terms terms
        try:
            _terms(self.mark.page, log_uuid, &terms)
        except DamagedPageError:
            return None
        return bool(terms.required), terms.max_lag_bytes

    def count_dropped(self, uint64_t records):
        """Add to the number of records that writers dropped because of this tailer."""
        cl_add(<uint64_t *>(self.mark.page + CL_TAILER_DROPPED_AT), records)

    @property
    def dropped(self):
        return cl_load(<const uint64_t *>(self.mark.page + CL_TAILER_DROPPED_AT))
