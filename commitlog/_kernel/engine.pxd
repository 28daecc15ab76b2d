from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t

from commitlog._kernel.kernel cimport (
    CL_E_CLOSED, CL_E_FORKED, CL_E_LAG, CL_E_READ_ONLY, cl_claim, cl_condition, cl_frame_aligned,
    cl_histogram, cl_input_length, cl_log, cl_native_writer, cl_pace, cl_record_input, cl_segment,
    cl_writer,
)
from commitlog._kernel.memory cimport Cursors
from commitlog._kernel.segments cimport Segment


# The values of `refusal` with which a log refuses appends; 0: it accepts them.
cpdef enum:
    REFUSED_CLOSED = -CL_E_CLOSED
    REFUSED_READ_ONLY = -CL_E_READ_ONLY
    REFUSED_FORKED = -CL_E_FORKED
    REFUSED_LAG = -CL_E_LAG


cdef int64_t nanoseconds(double seconds) noexcept
cdef uint32_t *append_word(Core core) noexcept


cdef class Core:
    cdef cl_log log
    cdef readonly Cursors cursors
    cdef readonly str path
    cdef object policy        # decides what the kernel cannot
    cdef bint ready           # `log` holds what `cl_log_clear` gives back
    cdef int64_t looked_ns    # when a reader without live cursors looked for them last
    # whether the policy is asked at each look, because another process fills the cursors
    cdef public bint asks
    # wakes the coroutines that wait for records; made by the first of them
    cdef public object watcher
    cdef dict memories  # segment number -> (Memory, its lease), while a pool buffer is attached

    # calls that are in the kernel without the interpreter's lock, and use the log's files
    cdef int users
    cdef cl_native_writer *native  # the appender of the C API that has the writer, or NULL
    cdef bint leaving         # the log is closed: the last such call releases its files

    cdef int enter(self) except -1
    cdef int leave(self) except -1
    cdef void pause_native(self) noexcept
    cdef void resume_native(self) noexcept
    cdef int look(self) except -1
    cdef int raise_cut(self) except -1
    cpdef ask_for_flush(self)
    cdef object failed_with(self, int code, int cause, position)


ctypedef int (*loop_of)(cl_log *log, const cl_pace *pace) noexcept nogil


cdef class Committer(Core):
    cdef public object copies  # has `complete`; or None: a flush alone makes records durable
    cdef int run_loop(
        self, loop_of loop, int64_t interval_ns, int64_t thorough_ns, uint64_t least_bytes
    ) except -1
    cdef cl_histogram *histogram(self, str name) except NULL
    cdef bint has_entered(self, uint64_t number) noexcept
    cdef int release_memory(self, Segment segment) except -1


cdef enum:
    # no position: a required tailer is too far behind; the record is dropped, or the caller waits
    # and tries again
    NOT_APPENDED = 0xFFFFFFFFFFFFFFFF


cdef uint32_t type_of(object type) except? 0xFFFFFFFF


# Here, so that it is compiled into every module that appends.
cdef inline uint64_t end_of(uint64_t position, const cl_record_input *record) noexcept:
    """Where the frame of a record ends that begins at a position."""
    return position + cl_frame_aligned(<uint32_t>cl_input_length(record))


cdef class Writer(Committer):
    cdef cl_writer writer
    cdef bint sync_default
    cdef double sync_timeout
    cdef dict claims  # position -> thread, of open claims

    cdef int advance(self) except -1
    cdef int check_files(self) except -1
    cdef int finish_append(self, uint64_t end, bint durable) except -1
    cpdef check_claims(self, uint64_t below)
    cdef int check_durable(self, bint durable) except -1
    cdef int sync_of(self, object sync) except -1
    cdef uint64_t append_any(
        self, object value, object key, object type, object timestamp_ns, object expect,
        bint durable, bint waits
    ) except 0
    cdef uint64_t put(
        self, const cl_record_input *record, cl_condition *condition, bint durable, bint waits
    ) except 0
    cdef int check_size(self, const cl_record_input *record, uint64_t before) except -1
    cdef int handle_refusal(
        self, int code, const cl_record_input *record, uint64_t records, bint waits
    ) except -1
    cdef bint takes(self)
    cdef object too_large(self, size)
    cdef uint32_t largest_frame(self)
    cdef object in_use(self)
    cdef int append_lent(
        self, cl_native_writer *native, const cl_record_input *record, object headers,
        uint64_t *position
    ) except -100
    cdef int lend_writer(self, cl_native_writer *native) except -1
    cdef int return_writer(self, cl_native_writer *native) except -1


cdef class LogMethods:
    cdef Writer engine  # an Engine
    cdef object parts
