from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t

from commitlog._kernel.engine cimport Core
from commitlog._kernel.kernel cimport (
    cl_backward_scan, cl_batch, cl_idle, cl_reader, cl_record, cl_segment, cl_tailer_mark, cl_view,
    cl_watch,
)
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


cdef class Columns:
    cdef cl_batch native
    cdef Block block

    cdef void lay(self, int64_t **ends, cl_view **views, uint8_t *at, bint as_views)
    cdef object places(self, const int64_t *ends, const cl_view *views)
    cdef object column(self, const void *start, Py_ssize_t items, object dtype)
    cdef tuple cut(self)


cdef class Finder:
    cdef readonly Core core
    cdef cl_watch watch

    cdef cl_reader reader(self, cl_segment *segment, uint64_t passed)
    cdef int count(self, cl_segment *segment, uint64_t start, uint64_t stop, uint64_t *records)


cdef object sequence_of(Segment segment, uint64_t offset)
cdef void move_anchor(Segment segment, uint64_t offset, uint64_t sequence)


cdef class Record:
    cdef readonly uint64_t position
    cdef readonly long long timestamp_ns
    cdef readonly unsigned int type
    cdef object key               # read in Python through slots: see record.pxi
    cdef bytes value
    cdef Segment segment
    cdef unsigned int value_offset  # in the segment's file; 0: not there when it was read
    cdef unsigned long long ordinal  # its sequence and one, where it was asked for; 0: not yet


# Here, so that it is compiled into every loop that makes records.
cdef inline Record make_record(Segment segment, const cl_record *native):
    cdef Record record = Record.__new__(Record)
    record.position = native.position
    record.timestamp_ns = native.timestamp_ns
    record.type = native.type
    record.key = None if native.key == NULL else PyBytes_FromStringAndSize(
        <const char *>native.key, native.key_length
    )
    record.value = PyBytes_FromStringAndSize(<const char *>native.value, native.value_length)
    record.segment = segment
    if segment.segment.map <= native.value <= segment.segment.map + segment.segment.size:
        record.value_offset = <uint32_t>(native.value - segment.segment.map)
    return record


cdef class TailerPage:
    cdef cl_tailer_mark mark
    cdef cl_memory area
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
    cdef bint turned       # it reads backward
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
    cdef int previous_record(self, cl_record *record) except? -100
    cdef int go_back(self, int code) except -1
    cdef int enter_before(self) except -1
    cdef void keep_below_watermark(self)
    cdef int scan_back(self) except? -100
    cdef int make_room(self, uint32_t spacing) except -1
    cdef object pass_damage_before(self)


cdef Patience patience_of(object timeout, object idle)
cdef object read_record(Cursor cursor, object timeout, object idle, bint keeps)
cdef int await_record(Cursor cursor, cl_record *record, Patience patience, bint keeps) except? -100
cdef int wait_for(Cursor cursor, cl_idle idle, int64_t budget_ns) except -1
cdef tuple take_columns(Cursor cursor, Py_ssize_t max_records, int wanted)
cdef tuple take_columns_back(Cursor cursor, Py_ssize_t max_records)


cdef class ReadMethods:
    cdef Cursor cursor
