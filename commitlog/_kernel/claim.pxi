# Reserved room for one record, to be written in place.


@cython.final
@cython.no_gc_clear  # its __del__ uses the log, which may be part of the same garbage
cdef class ClaimBuffer:
    """The exporter behind `Claim.buffer`. It keeps the segment and its pool buffer in place while
    any view of them exists.
    """
    cdef cl_segment *segment
    cdef uint8_t *start
    cdef Py_ssize_t length
    cdef Py_ssize_t exports
    cdef Writer log
    cdef object memory  # the pool buffer, if it is one, and its lease: a view must not outlast them

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.start, self.length, 0, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer *buffer):
        self.exports -= 1

    def __dealloc__(self):
        if self.segment != NULL:
            cl_claim_release(&self.log.log, self.segment)


cdef class Claim:
    """Space reserved for one record; `CommitLog.claim` returns it. Use it in a `with` statement.

    Attributes
    ----------
    buffer : memoryview
        The value's bytes, writable until the `with` block ends. Views of it must not outlive the
        block.
    position : int
        The record's position.
    """
    cdef Writer log
    cdef object owner  # the `CommitLog`, which closes when it is dropped
    cdef bytes key
    cdef bint sync
    cdef bint open
    cdef uint64_t start
    cdef cl_claim native  # its segment is held, and its buffer in use, while the claim is open
    cdef cl_record_input record
    cdef ClaimBuffer exporter
    cdef object view

    __signature__ = Signature()

    def __init__(self):
        raise TypeError("a claim cannot be constructed: call CommitLog.claim")

    def __reduce__(self):
        raise TypeError("a Claim cannot be pickled or copied: append in the process that claims")

    @property
    def position(self):
        return self.start

    @property
    def buffer(self):
        if not self.open:
            raise ClaimError("the claim's `with` has ended", path=self.log.path)
        if self.view is None:
            self.exporter = ClaimBuffer.__new__(ClaimBuffer)
            cl_claim_hold(self.native.segment)
            self.exporter.segment = self.native.segment
            self.exporter.log = self.log
            self.exporter.memory = self.log.memories.get(self.native.segment.number)
            self.exporter.start = self.native.segment.bytes + self.native.offset + self.head()
            self.exporter.length = self.record.value_length
            self.view = memoryview(self.exporter)
        return self.view

    cdef uint32_t head(self):
        cdef uint32_t header = (
            CL_FRAME_EXTENDED if cl_input_extended(&self.record) else CL_FRAME_HEADER
        )
        return header + (0 if self.record.key_length == CL_KEYLEN_NONE else self.record.key_length)

    def truncate(self, size):
        """Make the value shorter: only its first `size` bytes become the record.

        Raises
        ------
        ClaimError
            The `with` block has ended, or `size` is larger than the claim.
        """
        if not self.open:
            raise ClaimError("the claim's `with` has ended", path=self.log.path)
        if not isinstance(size, int) or size < 0 or size > self.record.value_length:
            raise ClaimError(
                f"a claim of {self.record.value_length} bytes cannot be truncated to {size!r}",
                path=self.log.path
            )
        self.record.value_length = size

    def __enter__(self):
        if not self.open:
            raise ClaimError("a claim can be entered only once", path=self.log.path)
        return self

    def __exit__(self, kind, error, traceback):
        if not self.open:
            return False
        position = self.position
        exported = self.end_view()
        try:
            if kind is not None or exported:
                cl_writer_abandon(&self.log.writer, &self.native)
                if kind is None:
                    raise ClaimError("a view of the claim's buffer outlived its `with`: the claim "
                                     "was rolled back; release views "
                                     "before leaving it", path=self.log.path, position=position)
                return False
            self.publish()
        finally:
            self.close()
        self.log.finish_append(end_of(self.start, &self.record), self.sync)
        return False

    cdef int publish(self) except -1:
        cdef int code
        self.record.key = PyBytes_AS_STRING(self.key) if self.key is not None else NULL
        code = cl_claim_publish(&self.log.writer, &self.native, &self.record)
        if code != CL_OK:
            raise self.log.failed_with(code, 0, self.position)
        return 0

    cdef bint end_view(self):
        """Release the buffer; True if a view of it still exists."""
        if self.view is None:
            return False
        try:
            self.view.release()
        except BufferError:
            return True
        return self.exporter.exports > 0

    cdef int close(self) except -1:
        self.open = False
        self.log.claims.pop(self.start, None)
        self.view = None
        self.exporter = None
        if self.native.segment != NULL:
            cl_claim_release(&self.log.log, self.native.segment)
            self.native.segment = NULL
        return 0

    def __del__(self):
        # Dropped without its `with`: the claim can no longer be published.
        if self.open:
            cl_writer_abandon(&self.log.writer, &self.native)
            self.close()
