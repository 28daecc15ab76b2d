# Off-heap memory with a Python handle: mapped, populated, zeroed and locked without the GIL.

ctypedef int (*memory_call)(const cl_memory *) noexcept nogil


cdef int _run(Memory memory, memory_call call, str verb) except -1:
    cdef int code
    cdef int error
    # The hold keeps another thread's close() away while the GIL is released.
    memory.hold()
    with nogil:
        code = call(&memory.area)
        error = errno
    memory.release()
    if code != 0:
        raise OSError(error, f"cannot {verb} {memory.size} bytes of memory: {os.strerror(error)}")
    return 0


cdef class Memory:
    """Bytes outside the heap, shared with a forked child, with the writable buffer protocol.

    Parameters
    ----------
    size : int
        Bytes.
    fd : int, optional
        Map this descriptor's file instead of anonymous memory. The descriptor may be closed
        afterwards.
    offset : int, optional
        Where in the file the bytes begin.

    Raises
    ------
    OSError
        Linux refused the mapping.
    ValueError
        A size below 1, a negative offset, or a file that ends before the range does.
    """

    def __cinit__(self, Py_ssize_t size, int fd=-1, Py_ssize_t offset=0):
        cdef int code
        cdef int error
        if size < 1:
            raise ValueError(f"size must be at least 1 byte, not {size}")
        if offset < 0 or (offset > 0 and fd < 0):
            raise ValueError(
                f"offset must be 0, or positive with a file descriptor, not {offset} with "
                f"descriptor {fd}"
            )
        with nogil:
            if fd < 0:
                code = cl_memory_map(&self.area, <size_t>size)
            else:
                code = cl_memory_map_descriptor(
                    &self.area, fd, <uint64_t>offset, <size_t>size, True
                )
            error = errno
        if code == CL_E_TRUNCATED:
            raise ValueError(f"the file behind descriptor {fd} ends before byte {offset + size}")
        if code != 0:
            raise OSError(error, f"cannot map {size} bytes: {os.strerror(error)}")
        self.bytes = self.area.bytes
        self.size = self.area.size

    def __dealloc__(self):
        # Views hold a reference, so nothing points into the mapping any more.
        cl_memory_unmap(&self.area)

    cdef int hold(self) except -1:
        if self.bytes is NULL:
            raise ValueError("this memory is closed")
        self.holds += 1
        return 0

    cdef void release(self) noexcept:
        self.holds -= 1

    @property
    def closed(self):
        """Whether the mapping is gone."""
        return self.bytes is NULL

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *view, int flags):
        if self.bytes is NULL:
            raise BufferError("this memory is closed")
        PyBuffer_FillInfo(view, self, self.bytes, <Py_ssize_t>self.size, 0, flags)
        self.holds += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.holds -= 1

    def populate(self):
        """Make every page present, so that the first store into it is no page fault. The bytes keep
        their values.

        Raises
        ------
        OSError
            Linux had no memory (ENOMEM) or no block behind a page (EFAULT).
        ValueError
            The memory is closed.
        """
        _run(self, cl_memory_populate, "populate")

    def touch(self):
        """Make every page present by one store a page: what `populate` does where Linux
        cannot.
        """
        self.hold()
        with nogil:
            cl_memory_touch(&self.area)
        self.release()

    def zero(self, Py_ssize_t start, Py_ssize_t stop):
        """Zero the bytes from start to stop (exclusive).

        Raises
        ------
        ValueError
            Not ``0 <= start <= stop <= size``, or the memory is closed.
        """
        if not 0 <= start <= stop <= <Py_ssize_t>self.size:
            raise ValueError(f"cannot zero {start} to {stop} of {self.size} bytes")
        self.hold()
        with nogil:
            cl_memory_zero(&self.area, <size_t>start, <size_t>stop)
        self.release()

    def lock(self):
        """Keep the pages in RAM (mlock).

        Raises
        ------
        OSError
            ENOMEM, EPERM or EAGAIN: the limit on locked memory (RLIMIT_MEMLOCK) does not allow it.
        ValueError
            The memory is closed.
        """
        _run(self, cl_memory_lock, "lock")

    def unlock(self):
        """Undo `lock` (munlock); harmless when nothing is locked.

        Raises
        ------
        OSError
            Linux refused.
        ValueError
            The memory is closed.
        """
        _run(self, cl_memory_unlock, "unlock")

    def close(self):
        """Unmap the bytes. May be called again.

        Raises
        ------
        BufferError
            A view, a native user or a running call still needs them.
        OSError
            Linux refused.
        """
        cdef int code
        cdef int error
        if self.bytes is NULL:
            return
        if self.holds > 0:
            raise BufferError(
                f"this memory still has {self.holds} views or users: release them first"
            )
        # From here on a call of another thread finds the memory closed.
        self.bytes = NULL
        with nogil:
            code = cl_memory_unmap(&self.area)
            error = errno
        if code != 0:
            self.bytes = self.area.bytes
            raise OSError(error, f"cannot unmap {self.size} bytes: {os.strerror(error)}")


def crc32c_implementation():
    """The implementation of CRC-32C that was picked for this machine."""
    return cl_crc32c_name().decode()
