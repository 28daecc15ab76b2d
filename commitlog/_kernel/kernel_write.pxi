# The headers of `c/` that append: part of kernel.pxd.

cdef extern from "frame_writer.h":
    ctypedef struct cl_record_input:
        const void *value
        const void *key
        uint32_t value_length
        uint32_t key_length
        uint32_t type
        int64_t timestamp_ns
    bint cl_input_extended(const cl_record_input *input) nogil
    uint64_t cl_input_length(const cl_record_input *input) nogil

cdef extern from "writer.h":
    ctypedef struct cl_writer_counters:
        uint64_t appends, records, bytes, refused, rolls
    ctypedef struct cl_counted:
        uint64_t packed
        uint64_t sequence
    ctypedef struct cl_writer:
        cl_log *log
        uint64_t *tail
        int64_t cycle_end_ns
        uint64_t wanted
        uint32_t largest
        bint plain
        bint roll_due
        cl_writer_counters counters
        cl_counted counted
    void cl_writer_init(
        cl_writer *writer, cl_log *log, bint plain, bint precise, uint32_t wake_bytes
    ) nogil
    void cl_writer_clear(cl_writer *writer) nogil
    void cl_writer_set_largest(cl_writer *writer, uint32_t largest) nogil
    void cl_writer_limit(cl_writer *writer, uint64_t limit_tail, uint64_t required_seen) nogil
    uint64_t cl_writer_rolls_from(const cl_writer *writer) nogil

cdef extern from "append.h":
    int cl_writer_append(cl_writer *writer, const cl_record_input *input, uint64_t *position) nogil
    int cl_writer_append_value(
        cl_writer *writer, const void *value, uint32_t length, uint64_t *position
    ) nogil

cdef extern from "claim.h":
    ctypedef struct cl_claim:
        cl_segment *segment
        uint32_t offset
        uint32_t length
    int cl_writer_claim(
        cl_writer *writer, uint32_t largest, cl_record_input *input, cl_claim *claim
    ) nogil
    int cl_claim_publish(
        cl_writer *writer, const cl_claim *claim, const cl_record_input *input
    ) nogil
    void cl_claim_hold(cl_segment *segment) nogil
    void cl_claim_release(cl_log *log, cl_segment *segment) nogil
    void cl_writer_abandon(cl_writer *writer, const cl_claim *claim) nogil
    int cl_batch_claim(
        cl_writer *writer, uint32_t length, int64_t *timestamp_ns, cl_claim *claim
    ) nogil

cdef extern from "rows.h":
    ctypedef struct cl_rows:
        const uint8_t *data
        size_t count
        size_t stride
        uint32_t length
        int64_t timestamp_ns
    int cl_batch_append(
        cl_writer *writer, const cl_claim *claim, const cl_record_input *records,
        const cl_headers *headers, size_t count, int64_t now_ns, int64_t *positions
    ) nogil
    int cl_writer_append_rows(
        cl_writer *writer, const cl_rows *rows, size_t *done, int64_t *positions
    ) nogil
    int cl_writer_append_records(
        cl_writer *writer, const cl_record_input *records, size_t count, size_t *done,
        int64_t *positions
    ) nogil

cdef extern from "roll.h":
    uint64_t CL_SEGMENT_CURRENT
    int cl_writer_close_segment(cl_writer *writer, uint64_t number) nogil
    int cl_writer_open_segment(
        cl_writer *writer, uint64_t number, int64_t now_ns, int64_t *opened_ns
    ) nogil
    int cl_writer_roll(cl_writer *writer, uint64_t number, int64_t now_ns, int64_t cycle) nogil
    int cl_writer_roll_ahead(cl_writer *writer, uint64_t number) nogil

cdef extern from "mark.h":
    ctypedef struct cl_mark:
        uint64_t producer
        uint64_t number
    ctypedef struct cl_marked:
        cl_mark mark
        uint64_t position
    size_t cl_marks_read(
        const cl_segment *segment, uint64_t *offset, uint64_t limit, cl_marked *found, size_t most,
        int *code
    ) nogil

cdef extern from "marked.h":
    int cl_append_marked(
        cl_writer *writer, const cl_record_input *input, const cl_headers *headers,
        const cl_mark *mark, uint64_t *position
    ) nogil

cdef extern from "conditional.h":
    ctypedef struct cl_condition:
        uint64_t expect
        uint64_t place
        int64_t deadline_ns
    void cl_counted_set(cl_writer *writer, uint64_t position, uint64_t sequence) nogil
    int cl_append_expected(
        cl_writer *writer, const cl_record_input *input, cl_condition *condition,
        uint64_t *position
    ) nogil
    int cl_append_records_expected(
        cl_writer *writer, const cl_record_input *records, const cl_headers *headers, size_t count,
        uint64_t length, cl_condition *condition, int64_t *positions
    ) nogil
    int cl_append_records_at(
        cl_writer *writer, uint64_t packed, const cl_record_input *records,
        const cl_headers *headers, size_t count, uint64_t length, int64_t *positions
    ) nogil

cdef extern from "stage.h":
    ctypedef struct cl_stage_rows:
        const uint8_t *values
        const int64_t *value_offsets
        uint64_t values_size
        const uint8_t *keys
        const int64_t *key_offsets
        uint64_t keys_size
        const uint8_t *keyed
        const uint32_t *types
        const int64_t *timestamps_ns
        int64_t timestamp_ns
        const cl_headers *headers
        size_t count
    int cl_stage_lay(const cl_segment *segment, uint64_t *offset, uint64_t stop,
                     const cl_stage_rows *rows, size_t *done,
                     cl_tally *tally) nogil
