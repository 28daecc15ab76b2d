"""Mutants of the kernel: frames, claims, watermarks, commit, flush, segments, readers."""

from __future__ import annotations

from tests.mutants.mutant import KERNEL_C, Leg, Mutant, c, py


def _kernel(name: str, file: str, old: str, new: str, leg: Leg) -> Mutant:
    return Mutant(name, KERNEL_C + file, old, new, leg)


FRAMES = [
    _kernel(
        "record CRC not checked", "frame_cursor.h",
        "length - CL_FRAME_TIMESTAMP) != cl_cell_high(cursor->cell)) {",
        "length - CL_FRAME_TIMESTAMP) == 0 && cl_cell_high(cursor->cell) == 1) {",
        c("reader_test"),
    ),
    _kernel(
        "SKIP CRC not checked", "frame_cursor.h",
        "cl_frame_crc(segment->seed, cursor->offset, word, NULL, 0) != "
        "cl_cell_high(cursor->cell)) {",
        "cl_frame_crc(segment->seed, cursor->offset, word, NULL, 0) == 1) {",
        c("copy_test", "reader_test", "backward_scan_test"),
    ),
    _kernel(
        "key longer than its frame", "frame_cursor.h",
        "if (key_length > length - header) {",
        "if (key_length > length) {",
        c("reader_test"),
    ),
    _kernel(
        "frame longer than any appender writes", "frame_cursor.h",
        "if (length > cl_frame_largest(cursor->size)) {",
        "if (length > cursor->size) {",
        c("reader_test", "copy_test"),
    ),
    _kernel(
        "frame beyond the segment's end", "frame_cursor.h",
        "if ((word & CL_WORD_FLAGS) == CL_WORD_EXT && length >= CL_FRAME_EXTENDED && *step <= "
        "room) {",
        "if ((word & CL_WORD_FLAGS) == CL_WORD_EXT && length >= CL_FRAME_EXTENDED) {",
        c("frame_cursor_test"),
    ),
    _kernel(
        "short reads with no CRC", "reader.c",
        "if (CL_UNLIKELY((uint32_t)~state != cl_cell_high(cell))) {",
        "if (CL_UNLIKELY((uint32_t)~state == 0 && cl_cell_high(cell) == 1)) {",
        c("short_frames_test"),
    ),
    _kernel(
        "search after damage misses the next cell", "scan.c",
        "cl_frame_cursor_at(segment, segment->map, next, limit);",
        "cl_frame_cursor_at(segment, segment->map, next + CL_FRAME_ALIGN, limit);",
        c("reader_test"),
    ),
    _kernel(
        "CRC without the frame's place", "crc32c_steps.h",
        "return step_u32(step_u64(seed, offset), word);",
        "return step_u32(step_u64(seed, offset * 0), word);",
        c("crc32c_test", "short_frames_test"),
    ),
    _kernel(
        "long frame decoded without a bound", "frame_decoder.c",
        "if (length - CL_FRAME_HEADER > rows.values_room - rows.values_size) {",
        "if (length - CL_FRAME_HEADER > rows.values_room) {",
        py("fuzzing/test_corpus.py"),
    ),
]  # fmt: skip

CLAIMS = [
    _kernel(
        "claim of a live owner rolled back", "resolve.c",
        "return !own && log->slot_fds.cursors >= 0 && !cl_slot_alive(log->slot_fds, slot);",
        "return !own;",
        c("resolve_test"),
    ),
    _kernel(
        "claim lock not checked", "cursors.c",
        "return is_refused(fds.lock, slot_range(slot, F_WRLCK)) ||\n           is_refused",
        "return is_refused",
        c("resolve_test", "step_test"),
    ),
    _kernel(
        "generation of an owner not compared", "resolve.c",
        "(cl_load32(&log->cursors->slots[slot].generation) & CL_OWNER_GENERATION_MASK) !=\n"
        "        generation",
        "(cl_load32(&log->cursors->slots[slot].generation) & CL_OWNER_GENERATION_MASK) ==\n"
        "        UINT32_MAX",
        c("resolve_test"),
    ),
    _kernel(
        "slot taken with its old generation", "cursors.c",
        "uint32_t next = (cl_load32(&mine->generation) + 1) & CL_OWNER_GENERATION_MASK;",
        "uint32_t next = cl_load32(&mine->generation) & CL_OWNER_GENERATION_MASK;",
        c("resolve_test"),
    ),
    _kernel(
        "gap marked beyond the tail", "resolve.c",
        "uint64_t stop = cl_tail_number(tail) == segment->number ? cl_tail_offset(tail) : "
        "segment->size;",
        "uint64_t stop = segment->size;",
        c("resolve_test"),
    ),
    _kernel(
        "suspended time counts for a claim's timeout", "resolve.c",
        "watch->awake_ns += passed < CL_POLL_CREDIT_NS ? passed : CL_POLL_CREDIT_NS;",
        "watch->awake_ns += passed;",
        c("resolve_test"),
    ),
    _kernel(
        "SKIP at a segment's end not written", "claim.c",
        "    cl_swap((uint64_t *)(segment->bytes + offset), &zero, cl_skip_cell(segment, offset, "
        "0));\n"
        "    cl_assert(cl_load((const uint64_t *)(segment->bytes + offset)), !=, 0);",
        "    (void)zero;",
        c("writer_test"),
    ),
    _kernel(
        "rest of a truncated claim left without a SKIP", "claim.c",
        "if (step < claimed) {",
        "if (step > claimed) {",
        c("writer_test"),
    ),
    _kernel(
        "swap on the tail overshoots with large frames", "claim.c",
        "uint64_t next =\n            need <= size - offset ? seen + need :"
        " cl_tail_pack(cl_tail_number(seen), size);\n        cl_assert(seen, <, next);\n"
        "        cl_assert(cl_tail_offset(next), <=, size);\n        if (cl_swap",
        "uint64_t next = seen + need;\n        if (cl_swap",
        c("writer_test", "refused_test"),
    ),
    _kernel(
        "conditional append off by one", "conditional.c",
        "if (CL_UNLIKELY(counted->sequence != condition->expect)) {",
        "if (CL_UNLIKELY(counted->sequence > condition->expect)) {",
        py("log/test_conditional_appends.py"),
    ),
    _kernel(
        "conditional append that ignores a moved tail", "conditional.c",
        "return CL_LIKELY(end == counted->packed) ? CL_OK : CL_E_MOVED;",
        "*packed = cl_load(writer->tail);\n    return CL_OK;",
        c("conditional_test"),
    ),
    _kernel(
        "roll moves the tail back", "roll.c",
        "    while (cl_tail_number(seen) == number &&\n"
        "           !cl_swap(writer->tail, &seen, cl_tail_pack(number + 1, CL_SEGMENT_HEADER))) "
        "{\n    }",
        "    cl_store(writer->tail, cl_tail_pack(number + 1, CL_SEGMENT_HEADER));",
        c("concurrency_test"),
    ),
    _kernel(
        "opened part has two authors", "roll.c",
        "cl_swap((uint64_t *)&opened->opened_ns, &none, (uint64_t)now_ns);\n"
        "    return (int64_t)cl_load((const uint64_t *)&opened->opened_ns);",
        "cl_store((uint64_t *)&opened->opened_ns, (uint64_t)now_ns + none);\n"
        "    return (int64_t)cl_load((const uint64_t *)&opened->opened_ns);",
        c("writer_test"),
    ),
    _kernel(
        "a mark without its own CRC", "mark.c",
        "return content.crc == crc_of(cursor->segment, cursor->offset, &content) &&\n           "
        "content",
        "return content",
        py("log/test_producers.py"),
    ),
    _kernel(
        "a mark whose record was cut", "mark.c",
        "content.record_crc == cl_cell_high(cell) &&\n           cl_cell_read",
        "cl_cell_read",
        py("log/test_producers.py"),
    ),
]  # fmt: skip

DURABILITY = [
    _kernel(
        "watermark before msync", "flush.c",
        "        code = cl_segment_flush(segment, from - segment->base, end - segment->base);\n",
        "        cl_raise(&log->cursors->flushed.value, end);\n"
        "        code = cl_segment_flush(segment, from - segment->base, end - segment->base);\n",
        c("flush_test"),
    ),
    _kernel(
        "no msync", "segment.c",
        "return start < stop && msync(segment->map + start, stop - start, MS_SYNC) != 0 ? "
        "CL_E_SYSTEM",
        "return start < stop && msync(segment->map + start, stop - start, MS_ASYNC) != 0 ? "
        "CL_E_SYSTEM",
        c("segment_test"),
    ),
    _kernel(
        "header page not flushed", "segment.c",
        "start = start <= CL_SEGMENT_HEADER ? 0 : page_start(start);",
        "start = page_start(start);",
        c("segment_test"),
    ),
    _kernel(
        "retry after EIO", "flush.c",
        "        if (code != CL_OK) {\n            return cl_log_fail(log, cause);\n        }",
        "        if (code != CL_OK) {\n            errno = cause;\n            return code;\n    "
        "    }",
        c("flush_test"),
    ),
    _kernel(
        "flush of a failed log", "flush.c",
        "        if (cl_log_failed(log)) {\n            return CL_E_FAILED;\n        }\n        "
        "cl_segment",
        "        cl_segment",
        c("flush_test"),
    ),
    _kernel(
        "failed write of a commit ignored", "commit.c",
        "            if (wrote <= 0) {\n                return cl_log_fail(log, wrote < 0 ? "
        "errno : EIO);\n            }",
        "            if (wrote <= 0) {\n                break;\n            }",
        c("flush_test"),
    ),
    _kernel(
        "short write of a commit taken for whole", "commit.c",
        "start += (uint32_t)wrote;",
        "start = wrote > 0 ? to : start;",
        c("commit_test"),
    ),
    _kernel(
        "publish before body", "commit.c",
        "    uint32_t start = from + (uint32_t)sizeof first;\n",
        "    cl_store((uint64_t *)(segment->map + from), first);\n"
        "    uint32_t start = from + (uint32_t)sizeof first;\n",
        c("flush_test"),
    ),
    _kernel(
        "committed before the copy", "commit.c",
        "        cl_raise(&log->cursors->appended.value, *position);\n        if (copies) {",
        "        cl_raise(&log->cursors->appended.value, *position);\n"
        "        cl_raise(&log->cursors->committed.value, *position);\n        if (copies) {",
        c("flush_test", "commit_test"),
    ),
    _kernel(
        "group-commit follower released early", "flush.c",
        "            code = code == CL_E_TIMEOUT ? CL_OK : code;\n        }\n    }\n    int cause",
        "            if (code == CL_OK) {\n                upto = 0;\n            }\n"
        "            code = code == CL_E_TIMEOUT ? CL_OK : code;\n        }\n    }\n    int cause",
        c("flush_queue_test", "group_test"),
    ),
    _kernel(
        "waiters served that are not durable", "flush_queue.c",
        "if (waiter->upto <= flushed && waiter != queue->head) {",
        "if (waiter != queue->head) {",
        c("flush_queue_test"),
    ),
    _kernel(
        "two leads in one handle", "flush.c",
        "    if (!__atomic_compare_exchange_n(&log->leading, &idle, 1, false, __ATOMIC_SEQ_CST,\n"
        "                                     __ATOMIC_RELAXED)) {\n        return false;\n    }",
        "    log->leading = 1;\n    (void)idle;",
        c("flush_test"),
    ),
    _kernel(
        "lead of another process ended", "flush.c",
        "    cl_swap(&log->cursors->flusher.value, &mine, 0);\n    cl_store32(&log->leading, 0);",
        "    cl_store(&log->cursors->flusher.value, mine - mine);\n    cl_store32(&log->leading, "
        "0);",
        c("flush_test"),
    ),
    _kernel(
        "dead leader kept", "flush.c",
        "    bool stuck =\n        waited_ns >= log->claim_timeout_ns ||\n        cl_owner_dead(",
        "    bool stuck =\n        waited_ns >= log->claim_timeout_ns &&\n        cl_owner_dead(",
        c("flush_test"),
    ),
    _kernel(
        "watermark moved back", "atomics.h",
        "    while (seen < value && !cl_swap(cell, &seen, value)) {\n    }\n"
        "    cl_assert(cl_load(cell), >=, value);",
        "    while (!cl_swap(cell, &seen, value)) {\n    }",
        c("flush_test", "reader_test", "concurrency_test"),
    ),
    _kernel(
        "first cause of a failure overwritten", "log.c",
        "cl_swap(&log->cursors->failed.value, &none, cause > 0 ? (uint64_t)cause : EIO);",
        "cl_store(&log->cursors->failed.value, (cause > 0 ? (uint64_t)cause : EIO) + none);",
        c("writer_test"),
    ),
    _kernel(
        "checkpoint leads the flushed position", "checkpoint.c",
        "code = put(log, cl_load(&log->cursors->flushed.value), false, false);",
        "code = put(log, cl_load(&log->cursors->appended.value) + 8, false, false);",
        c("flush_test"),
    ),
    _kernel(
        "older checkpoint taken", "checkpoint.c",
        "if (valid && (!found || record.count > out->count)) {",
        "if (valid && (!found || record.count < out->count)) {",
        c("flush_test"),
    ),
    _kernel(
        "checkpoint CRC not checked", "checkpoint.c",
        "                     memcmp(record.log_uuid, log_uuid, sizeof record.log_uuid) == 0 &&\n"
        "                     cl_crc32c(0, &record, offsetof(cl_checkpoint, crc)) == record.crc;",
        "                     memcmp(record.log_uuid, log_uuid, sizeof record.log_uuid) == 0;",
        c("flush_test"),
    ),
    _kernel(
        "checkpoint of another log taken", "checkpoint.c",
        "memcmp(record.log_uuid, log_uuid, sizeof record.log_uuid) == 0 &&",
        "log_uuid != NULL &&",
        py("flush/test_checkpoint.py"),
    ),
    _kernel(
        "settled checkpoint not synced", "checkpoint.c",
        "return code == CL_E_SYSTEM ? code : put(log, flushed, false, true);",
        "return code == CL_E_SYSTEM ? code : put(log, flushed, false, false);",
        c("flush_test"),
    ),
]  # fmt: skip

SEGMENTS = [
    _kernel(
        "header CRC not checked", "segment.c",
        "if (cl_crc32c(0, &header, offsetof(cl_header_identity, crc)) != header.crc ||\n        "
        "header.",
        "if (header.",
        c("segment_test"),
    ),
    _kernel(
        "segment of another log accepted", "segment.c",
        "if ((log_uuid != NULL && memcmp(header.log_uuid, log_uuid, sizeof header.log_uuid) != "
        "0) ||\n"
        "        header.base",
        "if (header.base",
        c("segment_test"),
    ),
    _kernel(
        "short file mapped", "segment.c",
        "if ((uint64_t)status.st_size < size) {",
        "if ((uint64_t)status.st_size < CL_SEGMENT_HEADER) {",
        c("segment_test"),
    ),
    _kernel(
        "seal not checked", "segment.c",
        "return seal->sealed == 1 && cl_header_seal_crc(segment_id, seal) == seal->crc &&\n      "
        "     seal->end >=",
        "return seal->sealed == 1 && seal->end >=",
        c("segment_test"),
    ),
    _kernel(
        "seal with an impossible count", "segment.c",
        "seal->record_count <= (seal->end - CL_SEGMENT_HEADER) / CL_FRAME_HEADER &&",
        "seal->record_count <= UINT64_MAX &&",
        c("segment_test"),
    ),
    _kernel(
        "segment sealed before its end", "scan.c",
        "if (cl_load32(&segment->tallied) == segment->size) {",
        "if (cl_load32(&segment->tallied) >= segment->tally.end) {",
        c("reader_test", "commit_test"),
    ),
    _kernel(
        "segments in use dropped", "segment_table.c",
        "        if (cl_load32(&segment->references) > 1) {\n            at++;\n            "
        "continue;\n        }\n"
        "        table_remove(table, at);\n        cl_assert(cl_load32(&segment->references), "
        "==, 1);",
        "        table_remove(table, at);",
        c("segment_test"),
    ),
    _kernel(
        "digest ends at a SKIP", "scan.c",
        "while ((code = cl_frame_read(&at)) == CL_OK || code == CL_E_ROLLED_BACK) {\n"
        "        if (at.step > at.limit",
        "while ((code = cl_frame_read(&at)) == CL_OK) {\n"
        "        if (at.step > at.limit",
        py("network/replication/test_comparison.py"),
    ),
    _kernel(
        "claim of a dead pool taken over as a record", "scan.c",
        "at.cell = cl_skip_cell(segment, (uint32_t)at.offset, (uint32_t)at.step);\n            "
        "claims++;",
        "claims++;",
        py("recovery/test_dead_pools.py"),
    ),
]  # fmt: skip

READERS = [
    _kernel(
        "reader without acquire", "atomics.h",
        "return __atomic_load_n(cell, __ATOMIC_ACQUIRE);\n}\nstatic inline uint64_t "
        "cl_load_relaxed",
        "return __atomic_load_n(cell, __ATOMIC_RELAXED);\n}\nstatic inline uint64_t "
        "cl_load_relaxed",
        c("handle_threads_test", sanitizer="thread"),
    ),
    _kernel(
        "store without release", "atomics.h",
        "__atomic_store_n(cell, value, __ATOMIC_RELEASE);\n}\nstatic inline uint64_t cl_add",
        "__atomic_store_n(cell, value, __ATOMIC_RELAXED);\n}\nstatic inline uint64_t cl_add",
        c("handle_threads_test", sanitizer="thread"),
    ),
    _kernel(
        "swap that publishes without release", "atomics.h",
        "    return __atomic_compare_exchange_n(cell, expected, desired, false, __ATOMIC_SEQ_CST,\n"
        "                                       __ATOMIC_SEQ_CST);",
        "    return __atomic_compare_exchange_n(cell, expected, desired, false, __ATOMIC_RELAXED,\n"
        "                                       __ATOMIC_RELAXED);",
        c("handle_threads_test", sanitizer="thread"),
    ),
    _kernel(
        "reference dropped without a barrier", "segment.c",
        "uint32_t left = __atomic_sub_fetch(&segment->references, 1, __ATOMIC_ACQ_REL);",
        "uint32_t left = __atomic_sub_fetch(&segment->references, 1, __ATOMIC_RELAXED);",
        c("handle_threads_test", sanitizer="thread"),
    ),
    _kernel(
        "torn tail reported as damage", "reader.c",
        "    uint64_t uncertain_from = reader->log->uncertain_from;",
        "    uint64_t uncertain_from = UINT64_MAX;",
        c("reader_test"),
    ),
    _kernel(
        "zeros below the watermark passed as a dead claim", "reader.c",
        "if (damaged || is_settled(reader)) {",
        "if (damaged) {",
        c("reader_test"),
    ),
    _kernel(
        "reader passes its watermark", "reader.h",
        "uint64_t visible = reader->watermark != NULL ? cl_load(reader->watermark) : UINT64_MAX;",
        "uint64_t visible = UINT64_MAX;",
        c("reader_test"),
    ),
    _kernel(
        "index believed without a walk", "index.c",
        "reader->careful = !leads_on(index, reader, entry < index->count ? entry : 0);",
        "reader->careful = false;",
        c("backward_scan_test"),
    ),
    _kernel(
        "damaged SKIP passed by headers", "reader.c",
        "if (code == CL_E_ROLLED_BACK) { /* the CRC",
        "if (code == CL_E_END) { /* the CRC",
        c("backward_scan_test"),
    ),
    _kernel(
        "end of a misled walk believed", "backward_scan.c",
        "return code == CL_E_ROLL && again.offset == ahead->offset;",
        "return true;",
        c("backward_scan_test"),
    ),
    _kernel(
        "walk beyond the tail", "walk.c",
        "return tail != NULL && position > cl_log_position(log, cl_load(tail));",
        "return false;",
        c("commit_test"),
    ),
    _kernel(
        "search from between two cells", "scan.c",
        "uint64_t next = (offset | (CL_FRAME_ALIGN - 1)) + 1;",
        "uint64_t next = offset + CL_FRAME_ALIGN;",
        c("reader_test"),
    ),
    _kernel(
        "saved position not checked", "tailer_page.c",
        "bool valid = cl_tailer_saved_check(record.position, record.count) == record.check;",
        "bool valid = record.count != 0;",
        c("tailer_page_test"),
    ),
    _kernel(
        "count of positions does not wrap", "tailer_page.c",
        "if (valid && (!found || (int32_t)(record.count - saved->count) > 0)) {",
        "if (valid && (!found || record.count > saved->count)) {",
        c("tailer_page_test"),
    ),
    _kernel(
        "saved over the record in force", "tailer_page.h",
        "(cl_tailer_saved *)(mark->page + CL_TAILER_PLACES_AT + next % 2 * CL_TAILER_STRIDE);",
        "(cl_tailer_saved *)(mark->page + CL_TAILER_PLACES_AT + next % 1 * CL_TAILER_STRIDE);",
        c("tailer_page_test"),
    ),
    _kernel(
        "staged row outside of its column", "stage.c",
        "return first >= 0 && last >= first && (uint64_t)last <= size;",
        "return first >= 0 && last >= first && (uint64_t)last <= size + 1;",
        py("fuzzing/test_corpus.py::test_known_inputs_do_the_kernel_no_harm[stage]"),
    ),
]  # fmt: skip

MUTANTS = [*FRAMES, *CLAIMS, *DURABILITY, *SEGMENTS, *READERS]
