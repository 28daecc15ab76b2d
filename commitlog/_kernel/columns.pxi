# The memory of a batch's columns is one block. The reader uses the block again for a later batch,
# once no view of it is left: the system zeroes fresh memory at its first write, which takes longer
# than decoding short records.

# The reader does not use a larger block again, nor one of which a batch needs less than a fourth:
# the caller may keep the batch, and with it the whole block.
cdef size_t KEPT_LARGEST = 64 << 20
cdef size_t FIT = 4
# The columns that a caller may want. With VIEWS, views locate values and keys.
cdef enum:
    VALUES = 1
    KEYS = 2
    TYPES = 4
    POSITIONS = 8
    TIMESTAMPS = 16
    EVERY_COLUMN = 31
    VIEWS = 32
cdef dict NAMED = {
    "position": POSITIONS, "sequence": POSITIONS, "timestamp": TIMESTAMPS,
    "timestamp_ns": TIMESTAMPS, "type": TYPES, "key": KEYS, "value": VALUES, "headers": POSITIONS,
}


@cython.no_gc
cdef class Shelf:
    """Keep at most two blocks: a loop over batches has one batch in hand while it reads the next,
    and then releases both.
    """

    def __dealloc__(self):
        cdef int slot
        for slot in range(SPARE_BLOCKS):
            free(self.bytes[slot])

    cdef Block take(self, size_t size):
        cdef Block block = Block.__new__(Block)
        cdef int slot
        block.shelf = self
        for slot in range(SPARE_BLOCKS):
            if self.bytes[slot] != NULL and size <= self.sizes[slot] <= FIT * size:
                block.bytes = self.bytes[slot]
                block.size = self.sizes[slot]
                self.bytes[slot] = NULL
                return block
        block.bytes = <uint8_t *>malloc(size)
        if block.bytes == NULL:
            raise MemoryError(f"a batch needs {size} bytes: read fewer records at a time")
        block.size = size
        return block

    cdef void put(self, uint8_t *bytes, size_t size) noexcept:
        """Keep a released block. If there is no room, it replaces the oldest."""
        cdef int slot
        if size > KEPT_LARGEST:
            free(bytes)
            return
        for slot in range(SPARE_BLOCKS):
            if self.bytes[slot] == NULL:
                self.bytes[slot] = bytes
                self.sizes[slot] = size
                return
        free(self.bytes[0])
        for slot in range(SPARE_BLOCKS - 1):
            self.bytes[slot] = self.bytes[slot + 1]
            self.sizes[slot] = self.sizes[slot + 1]
        self.bytes[SPARE_BLOCKS - 1] = bytes
        self.sizes[SPARE_BLOCKS - 1] = size


@cython.final
@cython.no_gc_clear
cdef class Block:
    """Hold the memory of the arrays of one batch; each array holds the block."""

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.bytes, <Py_ssize_t>self.size, 0, flags)

    def __dealloc__(self):
        if self.bytes != NULL:
            self.shelf.put(self.bytes, self.size)


@cython.final
cdef class Columns:
    """Provide room for `most` records, with `room` bytes for their values and as many for keys.

    A column that is not in `wanted` gets no room. With VIEWS, a value or key of up to
    CL_VIEW_INLINE bytes takes none of `room`.
    """
    cdef cl_batch native
    cdef Block block

    def __cinit__(self, Shelf shelf not None, Py_ssize_t most, Py_ssize_t room, int wanted):
        cdef size_t numbers = <size_t>most * sizeof(int64_t)
        cdef bint views = wanted & VIEWS
        cdef size_t places = <size_t>most * sizeof(cl_view) if views else numbers + sizeof(int64_t)
        cdef size_t size = 0
        cdef uint8_t *at
        memset(&self.native, 0, sizeof(cl_batch))
        if wanted & POSITIONS:
            size += numbers
        if wanted & TIMESTAMPS:
            size += numbers
        if wanted & VALUES:
            size += places + room + CL_VIEW_INLINE
        if wanted & KEYS:
            size += places + most + room + CL_VIEW_INLINE
        if wanted & TYPES:
            size += most * sizeof(uint32_t)
        self.block = shelf.take(size)
        self.native.most = most
        # The widest first, so that each is aligned.
        at = self.block.bytes
        if wanted & POSITIONS:
            self.native.positions = <int64_t *>at
            at += numbers
        if wanted & TIMESTAMPS:
            self.native.timestamps_ns = <int64_t *>at
            at += numbers
        if wanted & VALUES:
            self.lay(&self.native.value_ends, &self.native.value_views, at, views)
            at += places
        if wanted & KEYS:
            self.lay(&self.native.key_ends, &self.native.key_views, at, views)
            at += places
        if wanted & TYPES:
            self.native.types = <uint32_t *>at
            at += most * sizeof(uint32_t)
        if wanted & VALUES:
            self.native.data = at
            self.native.data_room = room
            at += room + CL_VIEW_INLINE
        if wanted & KEYS:
            self.native.keyed = at
            self.native.keys = at + most
            self.native.keys_room = room

    cdef void lay(self, int64_t **ends, cl_view **views, uint8_t *at, bint as_views):
        if as_views:
            views[0] = <cl_view *>at
        else:
            (<int64_t *>at)[0] = 0
            ends[0] = <int64_t *>at + 1

    cdef object column(self, const void *start, Py_ssize_t items, object dtype):
        if start == NULL:
            return None
        return numpy.frombuffer(self.block, dtype, items, <const uint8_t *>start - self.block.bytes)

    cdef object places(self, const int64_t *ends, const cl_view *views):
        if views != NULL:
            return self.column(views, self.native.count * sizeof(cl_view), numpy.uint8)
        if ends != NULL:
            return self.column(ends - 1, self.native.count + 1, numpy.int64)

    cdef tuple cut(self):
        """Return the arrays, cut to the number of records; None for a column that is not wanted.

        (positions, timestamps_ns, types, keyed, data, offsets, keys, key_offsets). With VIEWS,
        views take the place of the offsets.
        """
        cdef const cl_batch *native = &self.native
        cdef Py_ssize_t count = native.count
        return (
            self.column(native.positions, count, numpy.int64),
            self.column(native.timestamps_ns, count, numpy.int64),
            self.column(native.types, count, numpy.uint32),
            self.column(native.keyed, count, numpy.bool_),
            self.column(native.data, native.data_size, numpy.uint8),
            self.places(native.value_ends, native.value_views),
            self.column(native.keys, native.keys_size, numpy.uint8),
            self.places(native.key_ends, native.key_views),
        )
