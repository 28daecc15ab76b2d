# The headers of `c/`, as the modules beside this file use them.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "base.h":
    enum:
        CL_PAGE_SMALLEST
        CL_OK, CL_E_TOO_LARGE, CL_E_ROLL, CL_E_ABSENT, CL_E_TRUNCATED, CL_E_FOREIGN
        CL_E_END, CL_E_BUSY, CL_E_DAMAGE, CL_E_ROLLED_BACK, CL_E_FAILED, CL_E_TIMEOUT, CL_E_CLOSED
        CL_E_INTERRUPTED, CL_E_FULL, CL_E_READ_ONLY, CL_E_FORKED, CL_E_CYCLE, CL_E_LAG
        CL_E_OPEN_CLAIM, CL_E_GROW, CL_E_MOVED, CL_E_CONFLICT, CL_E_UNCOUNTED, CL_E_UNRESOLVED

cdef extern from "atomics.h":
    uint64_t cl_load(const uint64_t *cell) nogil
    uint32_t cl_load32(const uint32_t *cell) nogil
    void cl_store(uint64_t *cell, uint64_t value) nogil
    uint64_t cl_add(uint64_t *cell, uint64_t amount) nogil
    void cl_raise(uint64_t *cell, uint64_t value) nogil

cdef extern from "frame.h":
    enum:
        CL_FORMAT_MAJOR, CL_FORMAT_MINOR, CL_UUID_SIZE
        CL_CELL_SIZE, CL_FRAME_ALIGN, CL_FRAME_HEADER, CL_FRAME_EXTENDED, CL_FRAME_LIMIT
        CL_FRAME_ADD_LIMIT
        CL_SEGMENT_HEADER, CL_SEGMENT_SMALLEST, CL_SEGMENT_LARGEST
        CL_HEADER_DURABLE_AT, CL_HEADER_OPENED_AT, CL_HEADER_SEAL_AT
        CL_HEADER_IDENTITY_CRC, CL_HEADER_OPENED_CRC, CL_HEADER_SEAL_CRC
    uint64_t CL_SEGMENT_MAGIC
    uint32_t CL_KEYLEN_NONE
    uint32_t CL_WORD_LENGTH, CL_WORD_CLAIMED, CL_WORD_SKIP, CL_WORD_EXT, CL_WORD_BATCH
    ctypedef struct cl_header_identity:
        uint64_t magic
        uint16_t major
        uint16_t minor
        uint32_t header_size
        uint8_t log_uuid[CL_UUID_SIZE]
        uint64_t segment_id
        uint64_t base
        uint64_t size
        int64_t created_ns
        uint32_t crc
    ctypedef struct cl_header_durable:
        uint64_t position
        uint32_t crc
    ctypedef struct cl_header_opened:
        int64_t opened_ns
        int64_t cycle
        uint32_t crc
    ctypedef struct cl_header_seal:
        uint64_t end
        uint64_t first_sequence
        uint64_t record_count
        int64_t first_timestamp_ns
        int64_t last_timestamp_ns
        int64_t largest_timestamp_ns
        uint32_t crc
        uint32_t sealed
    uint32_t cl_frame_aligned(uint32_t length) nogil
    uint32_t cl_frame_largest(uint64_t segment_size) nogil
    uint32_t cl_cell_word(uint64_t cell) nogil
    uint32_t cl_cell_high(uint64_t cell) nogil
    uint64_t cl_tail_pack(uint64_t number, uint32_t offset) nogil
    uint64_t cl_tail_number(uint64_t place) nogil
    uint32_t cl_tail_offset(uint64_t place) nogil

cdef extern from "crc32c.h":
    uint32_t cl_crc32c(uint32_t crc, const void *data, size_t length) nogil
    uint32_t cl_crc32c_seed(uint64_t segment_id) nogil
    const char *cl_crc32c_name() nogil

cdef extern from "futex.h":
    int cl_futex_wait(const uint32_t *word, uint32_t seen, int64_t timeout_ns) nogil
    void cl_futex_raise(uint32_t *word) nogil
    int64_t cl_clock_monotonic_ns() nogil
    void cl_sleep_ns(int64_t duration_ns) nogil
    int64_t cl_clock_coarse_ns() nogil

cdef extern from "histogram.h":
    enum:
        CL_HISTOGRAM_BUCKETS
    ctypedef struct cl_histogram:
        uint64_t total_ns
        uint64_t longest_ns
        uint64_t counts[CL_HISTOGRAM_BUCKETS]
    uint64_t cl_histogram_upto(uint32_t bucket) nogil
    void cl_histogram_add(cl_histogram *histogram, int64_t took_ns) nogil
    uint64_t cl_histogram_above(const cl_histogram *histogram, uint64_t value_ns) nogil

cdef extern from "cursors.h":
    enum:
        CL_CURSORS_VERSION, CL_CURSORS_SIZE, CL_CURSORS_SLOTS
        CL_STATE_NONE, CL_STATE_RECOVERING, CL_STATE_READY
        CL_MODE_MAPPED, CL_MODE_POOLED
    uint64_t CL_CURSORS_MAGIC
    int64_t CL_SLOT_LOCK_AT
    ctypedef struct cl_line:
        uint64_t value
    ctypedef struct cl_slot:
        uint64_t counter
        uint32_t generation
        uint32_t pid
        int64_t attached_ns
        uint64_t rolled_back
        uint32_t pid_namespace
    ctypedef struct cl_cursors:
        uint64_t magic
        uint32_t version
        uint32_t size
        uint8_t log_uuid[CL_UUID_SIZE]
        uint8_t boot_id[CL_UUID_SIZE]
        uint64_t inode
        uint64_t segment_size
        uint32_t mode
        uint32_t slot_count
        cl_line state, tail, appended, committed, flushed, failed
        cl_line flusher, flush_signal, waiters, append_signal, rolled_back
        cl_line required, flush_wanted, allocated, replicated, replicated_signal
        cl_line copied, cut, cuts
        cl_slot slots[CL_CURSORS_SLOTS]
    ctypedef struct cl_slot_fds:
        int lock
        int cursors

    cl_slot_fds CL_NO_SLOT_FDS
    int cl_slot_attach(
        cl_cursors *cursors, cl_slot_fds fds, uint32_t *slot, uint32_t *generation
    ) nogil
    void cl_slot_detach(cl_cursors *cursors, cl_slot_fds fds, uint32_t slot) nogil
    bint cl_slot_alive(cl_slot_fds fds, uint32_t slot) nogil
    bint cl_creation_try(cl_slot_fds fds) nogil
    void cl_creation_end(cl_slot_fds fds) nogil
    uint32_t cl_owner(uint32_t slot, uint32_t generation) nogil
    uint32_t cl_owner_slot(uint32_t owner) nogil
    uint32_t cl_owner_generation(uint32_t owner) nogil

cdef extern from "tally.h":
    ctypedef struct cl_index_entry:
        uint64_t offset
        int64_t earlier_ns
    ctypedef struct cl_index:
        cl_index_entry *entries
        size_t count
        size_t room
        uint32_t spacing
        uint64_t due
        uint64_t offset
        uint64_t records
        int64_t largest_ns
    size_t cl_index_room(uint64_t segment_size, uint32_t spacing) nogil

cdef extern from "segment.h":
    ctypedef struct cl_tally:
        uint64_t records
        uint64_t end
        int64_t first_timestamp_ns
        int64_t last_timestamp_ns
        int64_t largest_timestamp_ns
    ctypedef struct cl_segment:
        uint64_t number
        uint64_t base
        uint64_t size
        uint64_t extent
        uint64_t id
        uint32_t seed
        uint8_t *map
        uint8_t *bytes
        uint32_t references
        uint32_t drained
        uint32_t users
    ctypedef struct cl_table:
        uint8_t log_uuid[CL_UUID_SIZE]
    int cl_header_check(
        const void *page, const uint8_t *log_uuid, uint64_t base, uint64_t size
    ) nogil
    bint cl_header_opened_read(
        const void *page, uint64_t segment_id, cl_header_opened *opened
    ) nogil
    uint32_t cl_header_durable_crc(uint64_t segment_id, uint64_t position) nogil
    uint64_t cl_header_durable_read(const void *page, uint64_t segment_id, uint64_t base) nogil
    uint32_t cl_header_opened_crc(uint64_t segment_id, int64_t opened_ns, int64_t cycle) nogil
    uint32_t cl_header_seal_crc(uint64_t segment_id, const cl_header_seal *seal) nogil
    bint cl_header_seal_valid(uint64_t segment_id, uint64_t size, const cl_header_seal *seal) nogil
    int cl_segment_open(
        int dir_fd, uint64_t number, uint64_t size, const uint8_t *log_uuid, bint writable,
        cl_segment **out
    ) nogil
    void cl_segment_measure(int dir_fd, cl_segment *segment) nogil
    void cl_segment_hold(cl_segment *segment) nogil
    void cl_segment_release(cl_segment *segment) nogil
    int cl_segment_prefault(cl_segment *segment, uint64_t start, uint64_t stop) nogil
    int cl_segment_flush(const cl_segment *segment, uint64_t start, uint64_t stop) nogil
    uint64_t cl_skip_cell(const cl_segment *segment, uint32_t offset, uint32_t length) nogil
    int cl_table_acquire(cl_table *table, uint64_t number, cl_segment **out) nogil
    uint32_t cl_table_forget(cl_table *table, uint64_t number) nogil
    void cl_table_trim(cl_table *table, uint64_t number, size_t keep) nogil

cdef extern from "log.h":
    ctypedef struct cl_log_counters:
        uint64_t committed_bytes, flushed_bytes, rolled_back
    ctypedef struct cl_latencies:
        cl_histogram sync, roll
    ctypedef struct cl_log:
        cl_cursors *cursors
        uint64_t *tail
        uint64_t private_tail
        cl_slot_fds slot_fds
        uint32_t slot
        uint32_t owner
        bint pooled
        bint resolves
        bint follows
        uint32_t refusal
        uint32_t stopping
        uint64_t segment_size
        uint64_t ready_below
        uint32_t service_polls
        uint64_t uncertain_from
        int64_t claim_timeout_ns
        cl_table table
        uint32_t announces
        uint32_t event
        uint32_t copy_limit
        uint32_t index_spacing
        int checkpoint_fd
        uint64_t checkpoint_count
        int64_t checkpoint_written_ns
        int64_t checkpoint_settled_ns
        uint64_t checkpoint_settled
        int64_t checkpoint_interval_ns
        cl_log_counters counters
        cl_latencies latencies
    int cl_log_init(
        cl_log *log, cl_cursors *cursors, int dir_fd, const uint8_t *log_uuid,
        uint64_t segment_size, bint writable
    ) nogil
    void cl_log_clear(cl_log *log) nogil
    void cl_log_after_fork(cl_log *log) nogil
    int cl_log_fail(cl_log *log, int cause) nogil
    uint64_t *cl_log_tail(const cl_log *log) nogil
    bint cl_log_pooled(const cl_log *log) nogil
    uint64_t cl_log_position(const cl_log *log, uint64_t place) nogil
    uint32_t cl_log_allocated(const cl_log *log, uint64_t number) nogil
    uint64_t cl_log_upward(const cl_log *log, uint64_t position) nogil
    ctypedef struct cl_watch:
        uint64_t position

cdef extern from "walk.h":
    void cl_log_pass_commits(cl_log *log) nogil
    int cl_log_appended(cl_log *log, uint64_t *appended) nogil

cdef extern from "checkpoint.h":
    enum:
        CL_CHECKPOINT_SIZE
    ctypedef struct cl_checkpoint:
        uint64_t count
        uint64_t position
        int64_t written_ns
        uint32_t clean
    int cl_checkpoint_read(const uint8_t *data, const uint8_t *log_uuid, cl_checkpoint *out) nogil
    int cl_checkpoint_put(
        int fd, const uint8_t *log_uuid, uint64_t count, uint64_t position, bint clean, bint durable
    ) nogil
    int cl_checkpoint_write(cl_log *log, uint64_t position, bint clean, bint durable) nogil
    int cl_checkpoint_settle(cl_log *log, uint64_t below) nogil
    int cl_checkpoint_settle_due(cl_log *log) nogil

cdef extern from "tailer_page.h":
    enum:
        CL_TAILER_SIZE, CL_TAILER_DROPPED_AT
    uint64_t CL_TAILER_MAGIC
    uint32_t cl_tailer_forks
    ctypedef struct cl_tailer_terms:
        uint64_t magic
        uint8_t log_uuid[CL_UUID_SIZE]
        int64_t created_ns
        int64_t evicted_ns
        uint64_t max_lag_bytes
        int64_t owned_ns
        uint32_t pid
        uint32_t pid_namespace
        uint32_t required
    ctypedef struct cl_tailer_saved:
        uint64_t position
        uint32_t count
        int64_t saved_ns
    int cl_tailer_read_terms(
        const uint8_t *page, const uint8_t *log_uuid, cl_tailer_terms *terms
    ) nogil
    int cl_tailer_read_saved(const uint8_t *page, cl_tailer_saved *place) nogil
    void cl_tailer_write_terms(uint8_t *page, cl_tailer_terms *terms) nogil
    ctypedef struct cl_tailer_mark:
        uint8_t *page
        uint64_t saved
        int64_t now_ns
        uint32_t count
        uint32_t forks
        bint with_care
    void cl_tailer_save(cl_tailer_mark *mark, uint64_t position) nogil
    bint cl_tailer_save_plainly(cl_tailer_mark *mark, uint64_t position) nogil

cdef extern from "commit.h":
    int cl_commit(cl_log *log, uint64_t upto) nogil

cdef extern from "flush.h":
    ctypedef struct cl_pace:
        int64_t interval_ns
        int64_t thorough_ns
        uint64_t least_bytes
    int cl_flush(cl_log *log, uint64_t upto, int64_t deadline_ns) nogil
    void cl_flush_pass_on(cl_log *log) nogil
    void cl_flush_ask(cl_log *log) nogil
    int cl_commit_loop(cl_log *log, const cl_pace *pace) nogil
    int cl_flush_loop(cl_log *log, const cl_pace *pace) nogil
    void cl_log_stop(cl_log *log) nogil

include "kernel_write.pxi"
include "kernel_read.pxi"
include "kernel_native.pxi"
