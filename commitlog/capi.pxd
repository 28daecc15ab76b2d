# The C API for Cython: `from commitlog.capi cimport commitlog_import, commitlog_api`. What each
# function does stands in `commitlog/include/commitlog/capi.h`.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "commitlog/capi.h":
    enum:
        COMMITLOG_API_VERSION
        COMMITLOG_OK, COMMITLOG_END, COMMITLOG_DROPPED, COMMITLOG_ERROR
    uint32_t COMMITLOG_NO_KEY
    const char *COMMITLOG_API_CAPSULE

    ctypedef struct commitlog_appender
    ctypedef struct commitlog_reader
    ctypedef struct commitlog_input:
        const void *value
        const void *key
        uint32_t value_length
        uint32_t key_length
        uint32_t type
        int64_t timestamp_ns
    ctypedef struct commitlog_claim:
        void *value
        uint32_t size
        uint64_t position
    ctypedef struct commitlog_record:
        uint64_t position
        int64_t timestamp_ns
        const uint8_t *key
        const uint8_t *value
        uint32_t key_length
        uint32_t value_length
        uint32_t type

    ctypedef struct commitlog_api:
        uint32_t version
        commitlog_appender *(*appender_open)(object log) except NULL
        void (*appender_close)(commitlog_appender *appender) noexcept
        int (*append)(
            commitlog_appender *appender, const commitlog_input *input, uint64_t *position
        ) noexcept nogil
        int (*claim)(
            commitlog_appender *appender, const commitlog_input *input, commitlog_claim *claim
        ) noexcept nogil
        int (*publish)(
            commitlog_appender *appender, commitlog_claim *claim, uint32_t size
        ) noexcept nogil
        void (*abandon)(commitlog_appender *appender, commitlog_claim *claim) noexcept nogil
        object (*appender_raise)(commitlog_appender *appender)
        commitlog_reader *(*reader_open)(object tailer) except NULL
        void (*reader_close)(commitlog_reader *reader) noexcept
        int (*next)(commitlog_reader *reader, commitlog_record *record) noexcept nogil
        int (*wait)(commitlog_reader *reader, int64_t timeout_ns) noexcept nogil
        object (*reader_raise)(commitlog_reader *reader)
        int (*append_named)(
            commitlog_appender *appender, const commitlog_input *input, object headers,
            uint64_t *position
        ) noexcept
        object (*reader_headers)(commitlog_reader *reader, const commitlog_record *record)

    const commitlog_api *commitlog_import() except NULL
