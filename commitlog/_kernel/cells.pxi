# Atomic cells in memory that processes share, as a check of the machine uses them: what the log
# does to its own, without a log.

cdef extern from "atomics.h":
    bint cl_swap(uint64_t *cell, uint64_t *expected, uint64_t desired) nogil
    void cl_pause() nogil


def crc32c_implementation():
    """The implementation of CRC-32C that was picked for this machine."""
    return cl_crc32c_name().decode()


@cython.no_gc_clear  # the buffer's owner is told when it ends
cdef class Cells:
    """64-bit cells over a writable buffer. The buffer is held until `release`, so that no mapping goes away under a cell.

    Parameters
    ----------
    memory : buffer
        Writable, and aligned to 8 bytes.
    """

    cdef Py_buffer view
    cdef uint64_t *cells
    cdef Py_ssize_t count

    def __cinit__(self, memory not None):
        PyObject_GetBuffer(memory, &self.view, PyBUF_SIMPLE | PyBUF_WRITABLE)
        self.cells = <uint64_t *>self.view.buf
        self.count = self.view.len // 8
        if <size_t>self.view.buf % 8 != 0:
            raise ValueError("cells are aligned to 8 bytes")

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    def release(self):
        """Give the buffer back; no cell can be used any more."""
        self.count = 0
        self.cells = NULL
        PyBuffer_Release(&self.view)

    cdef uint64_t *at(self, Py_ssize_t index) except NULL:
        if not 0 <= index < self.count:
            raise IndexError(f"there are {self.count} cells")
        return self.cells + index

    def __len__(self):
        return self.count

    def __getitem__(self, Py_ssize_t index):
        return cl_load(self.at(index))

    def __setitem__(self, Py_ssize_t index, uint64_t value):
        cl_store(self.at(index), value)

    def add(self, Py_ssize_t index, uint64_t amount, Py_ssize_t times=1):
        """Add to a cell, so many times, each in one step. The value before the last."""
        cdef uint64_t *cell = self.at(index)
        cdef uint64_t before = 0
        with nogil:
            for _ in range(times):
                before = cl_add(cell, amount)
        return before

    def add_by_swap(self, Py_ssize_t index, uint64_t amount, Py_ssize_t times):
        """The same by compare-and-swap."""
        cdef uint64_t *cell = self.at(index)
        cdef uint64_t seen
        with nogil:
            for _ in range(times):
                seen = cl_load(cell)
                while not cl_swap(cell, &seen, seen + amount):
                    pass

    def swap_each(self, Py_ssize_t start, Py_ssize_t stop, uint64_t expected, uint64_t desired, bint backward=False):
        """Swap each cell that still holds what is expected, from either end: how many did."""
        cdef Py_ssize_t index, swapped = 0
        cdef uint64_t *first = self.at(start)
        cdef uint64_t seen
        self.at(stop - 1)
        with nogil:
            for index in range(stop - start):
                seen = expected
                swapped += cl_swap(first + (stop - start - 1 - index if backward else index), &seen, desired)
        return swapped

    def meet(self, Py_ssize_t index, uint64_t all_of_them, Py_ssize_t spins):
        """Count oneself in and spin until all are there: False when they did not come."""
        cdef uint64_t *cell = self.at(index)
        cdef bint there = False
        with nogil:
            cl_add(cell, 1)
            for _ in range(spins):
                there = cl_load(cell) >= all_of_them
                if there:
                    break
                cl_pause()
        return there

    def wake(self, Py_ssize_t index):
        """Raise the futex in the lower half of a cell."""
        cl_futex_raise(<uint32_t *>self.at(index))

    def sleep(self, Py_ssize_t index, uint32_t seen, double timeout):
        """Sleep until the futex in the lower half of a cell differs from `seen`, at most `timeout` seconds. Returns what it is then.

        Raises
        ------
        OSError
            The system has no such sleep.
        """
        cdef uint32_t *word = <uint32_t *>self.at(index)
        cdef int64_t timeout_ns = <int64_t>(timeout * 1e9)
        cdef int code
        with nogil:
            code = cl_futex_wait(word, seen, timeout_ns)
        if code == CL_E_SYSTEM:
            raise OSError("the system refused to let a process sleep on a futex")
        return <uint32_t>cl_load(self.at(index))
