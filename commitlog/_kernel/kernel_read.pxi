# The headers of `c/` that read: part of kernel.pxd.

cdef extern from "frame_cursor.h":
    ctypedef struct cl_record:
        uint64_t position
        int64_t timestamp_ns
        const uint8_t *key
        const uint8_t *value
        uint32_t key_length
        uint32_t value_length
        uint32_t type
    ctypedef struct cl_frame_cursor:
        const uint8_t *bytes
        uint64_t end
        uint64_t limit
        uint64_t offset
        uint64_t cell
        uint64_t step
    cl_frame_cursor cl_frame_cursor_at(
        const cl_segment *segment, const uint8_t *data, uint64_t offset, uint64_t limit
    ) nogil
    int cl_frame_read(cl_frame_cursor *cursor) nogil
    void cl_frame_next(cl_frame_cursor *cursor) nogil
    bint cl_frame_find(cl_frame_cursor *cursor) nogil

cdef extern from "headers.h":
    enum:
        CL_HEADERS_MOST, CL_HEADERS_LARGEST, CL_HEADER_NAME_MOST, CL_HEADER_FIXED
        CL_HEADERS_BACK
    ctypedef struct cl_headers:
        const uint8_t *bytes
        uint32_t length
    uint32_t cl_headers_size(const cl_headers *headers) nogil
    int cl_headers_find(
        const cl_segment *segment, const uint8_t *data, uint64_t offset, cl_headers *found
    ) nogil
    void cl_headers_erase(cl_segment *segment, uint64_t offset, uint64_t length) nogil

cdef extern from "batch.h":
    ctypedef struct cl_view:
        pass
    enum:
        CL_VIEW_INLINE
    ctypedef struct cl_batch:
        int64_t *positions
        int64_t *timestamps_ns
        uint32_t *types
        uint8_t *keyed
        int64_t *value_ends
        int64_t *key_ends
        cl_view *value_views
        cl_view *key_views
        uint8_t *data
        uint8_t *keys
        size_t data_room, keys_room, most, count, data_size, keys_size
    bint cl_batch_add(cl_batch *batch, const cl_record *record) nogil

cdef extern from "reader.h":
    ctypedef struct cl_reader:
        cl_log *log
        cl_segment *segment
        uint64_t offset
        bint from_buffer
        const uint64_t *watermark
        uint32_t *watermark_signal
        bint careful
        uint64_t limit
        uint64_t passed
        cl_watch *watch
        bint announces
    ctypedef enum cl_idle:
        CL_IDLE_SPIN, CL_IDLE_YIELD, CL_IDLE_BACKOFF, CL_IDLE_BLOCK
    void cl_reader_init(cl_reader *reader, cl_log *log, cl_watch *watch) nogil
    void cl_reader_enter(cl_reader *reader, cl_segment *segment, uint64_t offset) nogil
    void cl_reader_leave(cl_reader *reader) nogil
    void cl_reader_plan(cl_reader *reader) nogil
    int cl_reader_next(cl_reader *reader, cl_record *record) nogil
    bint cl_reader_next_short(cl_reader *reader, cl_record *record) nogil
    int cl_record_read(
        const cl_segment *segment, const uint8_t *data, uint64_t offset, cl_record *record,
        uint64_t *step
    ) nogil
    int cl_reader_step_over(cl_reader *reader, uint64_t limit, uint64_t most, uint64_t *count) nogil
    bint cl_reader_spin(cl_reader *reader) nogil
    bint cl_reader_wait(cl_reader *reader, cl_idle idle, int64_t budget_ns) nogil
    bint cl_reader_news(const cl_reader *reader) nogil
    uint32_t cl_sleeper_announce(cl_cursors *cursors) nogil
    void cl_sleeper_wait(cl_cursors *cursors, uint32_t seen, int64_t timeout_ns) nogil
    int cl_reader_batch(cl_reader *reader, cl_batch *batch) nogil

cdef extern from "index.h":
    int cl_index_extend(cl_index *index, cl_reader *reader, uint64_t limit) nogil
    size_t cl_index_below(const cl_index *index, uint64_t offset) nogil
    int cl_index_find(
        const cl_index *index, cl_reader *reader, uint64_t ordinal, uint64_t *at
    ) nogil
    int cl_index_since(
        const cl_index *index, cl_reader *reader, int64_t timestamp_ns, uint64_t *at
    ) nogil
    int cl_index_ordinal(
        const cl_index *index, cl_reader *reader, uint64_t offset, uint64_t *ordinal
    ) nogil

cdef extern from "scan.h":
    ctypedef struct cl_scan:
        uint64_t offset
        int code
        uint64_t skipped
        cl_tally tally
    void cl_segment_scan(
        const cl_segment *segment, uint64_t start, uint64_t stop, cl_scan *scan
    ) nogil
    int cl_segment_copy(
        const cl_segment *segment, uint64_t start, uint64_t stop, uint8_t *copy, uint64_t *end,
        uint32_t *crc
    ) nogil
    uint64_t cl_segment_digest(
        const cl_segment *segment, uint64_t start, uint64_t stop, uint64_t *digest
    ) nogil
    uint64_t cl_first_frame_end(const cl_segment *segment, uint64_t start, uint64_t stop) nogil
    uint64_t cl_segment_nonzero(const cl_segment *segment, uint64_t start, uint64_t stop) nogil
    uint64_t cl_segment_resume(const cl_segment *segment, uint64_t offset) nogil
    uint64_t cl_log_resume(const cl_log *log, const cl_segment *segment, uint64_t offset) nogil
    uint64_t cl_segment_landing(const cl_segment *segment, uint64_t offset) nogil
    uint64_t cl_segment_certain_end(
        const cl_segment *segment, const uint8_t *data, uint64_t offset
    ) nogil
    uint64_t cl_segment_mark_gap(cl_segment *segment, uint64_t start, uint64_t stop) nogil
    uint64_t cl_segment_take_over(
        cl_segment *segment, const uint8_t *source, uint64_t *offset
    ) nogil
    int cl_segment_seal(cl_segment *segment, uint64_t first_sequence, cl_index *index) nogil
    int cl_segment_sealed(const cl_segment *segment, cl_header_seal *seal) nogil

cdef extern from "frame_decoder.h":
    ctypedef struct cl_rows_out:
        int64_t *positions
        int64_t *timestamps_us
        int64_t *types
        int32_t *value_ends
        int32_t *key_ends
        uint8_t *values
        uint8_t *keys
        uint8_t *key_bits
        size_t values_room, keys_room, most, count, values_size, keys_size
        uint64_t passed
    int cl_frames_decode(
        cl_frame_cursor *cursor, uint64_t first, uint64_t limit, cl_rows_out *out
    ) nogil

cdef extern from "backward_scan.h":
    ctypedef struct cl_backward_scan:
        uint32_t *offsets
        uint32_t room, count
        uint64_t damage
    int cl_backward_scan_previous(
        cl_reader *reader, cl_backward_scan *scan, cl_record *record
    ) nogil
    int cl_backward_scan_fill(cl_reader *reader, cl_backward_scan *scan, uint64_t start) nogil
    void cl_backward_scan_pass_damage(cl_reader *reader, cl_backward_scan *scan) nogil
    int cl_backward_scan_batch(cl_reader *reader, cl_backward_scan *scan, cl_batch *batch) nogil

cdef extern from "selection.h":
    ctypedef struct cl_selection:
        const uint32_t *types
        size_t type_count
        uint32_t noted_type
        bint notes
        const uint8_t *key
        size_t key_length
    void cl_selection_list(
        cl_selection *selection, const uint32_t *offsets, size_t count, uint64_t listed
    ) nogil
    bint cl_selection_wants(const cl_selection *selection, const cl_record *record) nogil
    int cl_selection_next(
        cl_selection *selection, cl_reader *reader, cl_record *record, size_t most
    ) nogil
    int cl_selection_previous(
        cl_selection *selection, cl_reader *reader, cl_backward_scan *scan, cl_record *record,
        size_t most
    ) nogil

cdef extern from "postings.h":
    ctypedef struct cl_postings:
        uint64_t *types
        uint64_t *keys
        size_t most, records, keyed
    int cl_postings_read(cl_reader *reader, cl_postings *postings) nogil
