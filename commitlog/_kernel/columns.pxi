# The memory behind a batch's columns: one block, which the reader's next batch reuses once no view
# of it is left. The system zeroes fresh memory page by page at the first write. For short records
# that takes longer than decoding them.

# The reader reuses no larger block, and none for a batch that needs less than a fourth of it: a
# batch that the caller keeps must not hold much more memory than it needs.
cdef size_t KEPT_LARGEST = 64 << 20
cdef size_t FIT = 4
# The columns that a reader may leave out.
cdef enum:
    VALUES = 1
    KEYS = 2
    TYPES = 4
    EVERY_COLUMN = 7


@cython.no_gc
cdef class Shelf:
    """Keeps at most one block: in a loop over batches the caller usually releases each batch while
    the next but one is read.
    """

    def __dealloc__(self):
        free(self.bytes)

    cdef Block take(self, size_t size):
        cdef Block block = Block.__new__(Block)
        block.shelf = self
        if self.bytes != NULL and size <= self.size <= FIT * size:
            block.bytes = self.bytes
            block.size = self.size
            self.bytes = NULL
            return block
        block.bytes = <uint8_t *>malloc(size)
        if block.bytes == NULL:
            raise MemoryError(f"a batch needs {size} bytes: read fewer records at a time")
        block.size = size
        return block

    cdef void put(self, uint8_t *bytes, size_t size) noexcept:
        if size <= KEPT_LARGEST:
            self.bytes, bytes = bytes, self.bytes
            self.size = size
        free(bytes)


@cython.final
@cython.no_gc_clear
cdef class Block:
    """What the arrays of one batch lie in; each of them holds it."""

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.bytes, <Py_ssize_t>self.size, 0, flags)

    def __dealloc__(self):
        if self.bytes != NULL:
            self.shelf.put(self.bytes, self.size)


@cython.final
cdef class Columns:
    """Room for up to `most` records with up to `room` bytes of values, and as many of keys.

    What is not `wanted` has no room.
    """

    def __cinit__(self, Shelf shelf not None, Py_ssize_t most, Py_ssize_t room, int wanted):
        cdef size_t numbers = <size_t>most * sizeof(int64_t)
        cdef size_t ends = numbers + sizeof(int64_t)
        cdef size_t size = 2 * numbers
        cdef uint8_t *at
        memset(&self.native, 0, sizeof(cl_batch))
        if wanted & VALUES:
            size += ends + room
        if wanted & KEYS:
            size += ends + most + room
        if wanted & TYPES:
            size += most * sizeof(uint32_t)
        self.block = shelf.take(size)
        self.native.most = most
        # The widest first, so that each is aligned.
        at = self.block.bytes
        self.native.positions = <int64_t *>at
        at += numbers
        self.native.timestamps_ns = <int64_t *>at
        at += numbers
        if wanted & VALUES:
            (<int64_t *>at)[0] = 0
            self.native.value_ends = <int64_t *>at + 1
            at += ends
        if wanted & KEYS:
            (<int64_t *>at)[0] = 0
            self.native.key_ends = <int64_t *>at + 1
            at += ends
        if wanted & TYPES:
            self.native.types = <uint32_t *>at
            at += most * sizeof(uint32_t)
        if wanted & VALUES:
            self.native.data = at
            self.native.data_room = room
            at += room
        if wanted & KEYS:
            self.native.keyed = at
            self.native.keys = at + most
            self.native.keys_room = room

    cdef object column(self, const void *start, Py_ssize_t items, object dtype):
        if start == NULL:
            return None
        return numpy.frombuffer(self.block, dtype, items, <const uint8_t *>start - self.block.bytes)

    cdef tuple cut(self):
        """The arrays, as long as there are records; None for what is not wanted.

        (positions, timestamps_ns, types, keyed, data, offsets, keys, key_offsets)
        """
        cdef const cl_batch *native = &self.native
        cdef Py_ssize_t count = native.count
        cdef const int64_t *value_ends = NULL
        if native.value_ends != NULL:
            value_ends = native.value_ends - 1
        cdef const int64_t *key_ends = NULL if native.key_ends == NULL else native.key_ends - 1
        return (
            self.column(native.positions, count, numpy.int64),
            self.column(native.timestamps_ns, count, numpy.int64),
            self.column(native.types, count, numpy.uint32),
            self.column(native.keyed, count, numpy.bool_),
            self.column(native.data, native.data_size, numpy.uint8),
            self.column(value_ends, count + 1, numpy.int64),
            self.column(native.keys, native.keys_size, numpy.uint8),
            self.column(key_ends, count + 1, numpy.int64),
        )
