# The header of `c/` for native appenders and readers: part of kernel.pxd.

cdef extern from "native.h":
    enum:
        CL_NATIVE_END, CL_NATIVE_DROPPED, CL_NATIVE_ERROR
    ctypedef struct cl_native_writer:
        cl_writer *writer
        uint32_t largest
        uint32_t forks
        int (*attend)(void *owner, int code, const cl_record_input *input) noexcept nogil
        void *owner
    ctypedef struct cl_native_claim:
        uint32_t size
    void cl_native_init(cl_native_writer *native, cl_writer *writer)
    int cl_native_append(
        cl_native_writer *native, const cl_record_input *input, uint64_t *position
    ) nogil
    int cl_native_reserve(
        cl_native_writer *native, const cl_record_input *input, cl_native_claim *claim
    ) nogil
    int cl_native_publish(cl_native_writer *native, cl_native_claim *claim, uint32_t size) nogil
    void cl_native_abandon(cl_native_writer *native, cl_native_claim *claim) nogil
    void cl_native_pause(cl_native_writer *native)
    void cl_native_resume(cl_native_writer *native)
    ctypedef struct cl_native_reader:
        uint32_t forks
        bint asks
        int (*attend)(void *owner, int code, cl_record *record) noexcept nogil
        void *owner
    void cl_native_reader_init(
        cl_native_reader *native, cl_reader *reader, cl_tailer_mark *mark
    )
    int cl_native_next(cl_native_reader *native, cl_record *record) nogil
    int cl_native_wait(cl_native_reader *native, int64_t timeout_ns) nogil
