from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t

from commitlog._kernel.engine cimport Core
from commitlog._kernel.kernel cimport *
from commitlog._kernel.memory cimport cl_memory
from commitlog._kernel.segments cimport Segment, SparseIndex


cdef enum:
    SPARE_BLOCKS = 2


cdef class Shelf:
    cdef uint8_t *bytes[SPARE_BLOCKS]  # spare blocks, or NULL
    cdef size_t sizes[SPARE_BLOCKS]

    cdef Block take(self, size_t size)
    cdef void put(self, uint8_t *bytes, size_t size) noexcept


cdef class Block:
    cdef uint8_t *bytes
    cdef size_t size
    cdef Shelf shelf


cdef class TailerPage:
    cdef cl_tailer_mark mark
    cdef cl_memory area
    cdef str path
    cdef int64_t sync_every_ns    # -1: never
    cdef int64_t synced_ns
    cdef bint unsynced
    cdef bint closed              # no position is saved any more

    cdef int save_position(self, uint64_t position) except -1


cdef struct Patience:
    # How long to wait for a record, and how.
    int64_t budget_ns  # 0: not at all
    bint endless
    cl_idle idle


cdef class Selection:
    cdef cl_selection native
    cdef readonly bytes key
    cdef readonly object types       # ascending; None: any
    cdef readonly object noted_type
    cdef object type_array           # what `native` points to
    cdef object offsets              # the same
    cdef object note
    cdef object more
    cdef public uint64_t floor       # no segment that ends at or below this position is read back
    cdef bint has_list               # of the segment of `segment_id`, also if that has no list
    cdef uint64_t segment_id

    cdef int take_types(self, types) except -1
    cdef void drop_list(self) noexcept
    cdef int take_list(self, Segment segment, offsets) except -1
    cdef bint is_for(self, Segment segment) noexcept
    cdef bint accept(self, Segment segment, const cl_record *record) except -1


cdef class Cursor:
    cdef cl_reader reader
    cdef cl_watch watch    # of the reader
    cdef cl_backward_scan backward
    cdef readonly Core core
    cdef object policy     # gives segments, decides about damage
    cdef Segment segment
    cdef SparseIndex index  # of the segment, once it was read backward
    cdef uint64_t pending  # the position while no segment is entered
    cdef bint busy         # in a call without the interpreter's lock, or in one to the policy
    cdef bint leaving      # `leave` was called meanwhile
    cdef bint ended        # a named tailer that was closed: another one may own its name
    cdef bint turned       # it does not read forward every record: backward, or a selection
    cdef bint back         # it reads backward
    cdef Selection selection  # None: it reads every record
    cdef Shelf shelf       # memory for batches
    cdef TailerPage page   # the page of a named tailer; None: it has no name

    cdef uint64_t current(self)
    cpdef leave(self)
    cdef int keep_position(self) except -1
    cpdef save_position(self)
    cpdef return_to_saved(self)
    cdef int rest(self) except -1
    cdef int guard(self) except -1
    cdef int next_record(self, cl_record *record) except? -100
    cdef int enter_next(self) except? -100
    cdef object pass_damage(self)
    cdef int meet_damage(
        self, str path, uint64_t position, uint64_t resume, str around
    ) except -1
    cdef int turned_record(self, cl_record *record) except? -100
    cdef int selected_record(self, cl_record *record) except? -100
    cdef bint is_at_floor(self) noexcept
    cdef int search(self, cl_record *record) except? -100
    cdef int look_for(self, cl_record *record, size_t most) noexcept nogil
    cdef int take_list(self) except -1
    cdef int previous_record(self, cl_record *record) except? -100
    cdef int go_back(self, int code) except -1
    cdef int enter_before(self) except -1
    cdef void keep_below_watermark(self)
    cdef int scan_back(self) except? -100
    cdef int make_room(self, uint32_t spacing) except -1
    cdef object pass_damage_before(self)


cdef Patience patience_of(object timeout, object idle)
cdef int wait_for(Cursor cursor, cl_idle idle, int64_t budget_ns) except -1


cdef class ReadMethods:
    cdef Cursor cursor
