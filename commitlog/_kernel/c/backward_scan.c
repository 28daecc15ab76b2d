#include "backward_scan.h"

#include "scan.h"

static const uint32_t DAMAGE_MARK = 1; /* frames begin at multiples of 8 */

static void assert_ring(const cl_backward_scan *scan) {
    cl_assert(scan->first, <, scan->room);
    cl_assert(scan->count, <=, scan->room);
}

static void keep(cl_backward_scan *scan, uint32_t offset) {
    uint32_t end = scan->first + scan->count;
    scan->offsets[end < scan->room ? end : end - scan->room] = offset;
    if (scan->count < scan->room) {
        scan->count++;
    } else {
        scan->first = scan->first + 1 < scan->room ? scan->first + 1 : 0;
    }
    assert_ring(scan);
}

/* Walks while it trusts the frames' headers without their CRCs. */
static void keep_run(cl_backward_scan *scan, cl_reader *ahead, uint64_t limit) {
    for (;;) {
        uint32_t end = scan->first + scan->count;
        end = end < scan->room ? end : end - scan->room;
        uint32_t kept =
            (uint32_t)cl_reader_step_run(ahead, limit, scan->offsets + end, scan->room - end);
        if (kept == 0) {
            return;
        }
        uint32_t lost = scan->count + kept > scan->room ? scan->count + kept - scan->room : 0;
        scan->count += kept - lost;
        scan->first = (scan->first + lost) % scan->room;
        assert_ring(scan);
    }
}

static uint32_t last_kept(const cl_backward_scan *scan) {
    uint32_t last = scan->first + scan->count - 1;
    return scan->offsets[last < scan->room ? last : last - scan->room];
}

/* Whether a walk that trusted headers has reached the end of the log, and was not led there by a
 * damaged length: walks from the last frame of the ring again, with CRCs. */
static bool is_certain_end(const cl_backward_scan *scan, const cl_reader *ahead, uint64_t from) {
    cl_reader again = *ahead;
    cl_frame_cursor at;
    int code = CL_OK;
    again.careful = true;
    again.offset = scan->count != 0 ? last_kept(scan) : from;
    while (code == CL_OK) {
        code = cl_reader_step(&again, ahead->offset, &at);
    }
    return code == CL_E_ROLL && again.offset == ahead->offset;
}

int cl_backward_scan_fill(cl_reader *reader, cl_backward_scan *scan, uint64_t from) {
    cl_reader ahead = *reader;
    ahead.offset = from;
    scan->first = scan->count = 0;
    scan->careful = scan->careful && scan->number == reader->segment->number;
    scan->number = reader->segment->number;
    ahead.careful = scan->careful;
    for (;;) {
        cl_frame_cursor at;
        keep_run(scan, &ahead, reader->offset);
        int code = cl_reader_step(&ahead, reader->offset, &at);
        if (code == CL_OK) {
            keep(scan, (uint32_t)at.offset);
        } else if (!ahead.careful && (code == CL_E_DAMAGE ||
                                      (code == CL_E_END && !is_certain_end(scan, &ahead, from)))) {
            scan->first = scan->count = 0;
            ahead.careful = scan->careful =
                true; /* a damaged length may have misled the walk at any frame before */
            ahead.offset = from;
        } else if (code == CL_E_DAMAGE) {
            keep(scan, (uint32_t)ahead.offset | DAMAGE_MARK);
            ahead.offset = cl_log_resume(reader->log, reader->segment, ahead.offset);
        } else if (code == CL_E_BUSY) {
            scan->count = 0;
            scan->here = 0;
            return code;
        } else {
            if (code == CL_E_END) {
                reader->offset = ahead.offset;
            } else if (scan->count == 0) {
                reader->offset = from; /* nothing but SKIPs */
            }
            scan->here = reader->offset;
            return CL_OK;
        }
    }
}

int cl_backward_scan_previous(cl_reader *reader, cl_backward_scan *scan, cl_record *record) {
    const cl_segment *segment = reader->segment;
    if (CL_UNLIKELY(scan->count == 0 || scan->here != reader->offset ||
                    scan->number != segment->number)) {
        return reader->offset <= CL_SEGMENT_HEADER ? CL_E_ROLL : CL_E_ABSENT;
    }
    uint32_t last = last_kept(scan);
    uint64_t offset = last & ~DAMAGE_MARK;
    uint64_t step;
    bool in_file = !reader->from_buffer ||
                   segment->base + offset < cl_load(&reader->log->cursors->committed.value);
    const uint8_t *source = in_file ? segment->map : segment->bytes;
    if (CL_UNLIKELY(last & DAMAGE_MARK)) {
        scan->damage = offset;
        return CL_E_DAMAGE;
    }
    if (CL_UNLIKELY(cl_record_read(segment, source, offset, record, &step) != CL_OK)) {
        /* Its length may have led over whole records: scan again, with CRCs. */
        scan->careful = true;
        scan->count = 0;
        return CL_E_ABSENT;
    }
    scan->count--;
    scan->here = reader->offset = offset;
    return CL_OK;
}

void cl_backward_scan_pass_damage(cl_reader *reader, cl_backward_scan *scan) {
    scan->count -= scan->count != 0;
    scan->here = reader->offset = scan->damage;
}

/* Reads plain records backward, those that are contiguous in the ring and in one source at a time.
 */
static void batch_plain(cl_reader *reader, cl_backward_scan *scan, cl_batch *batch) {
    const cl_segment *segment = reader->segment;
    const uint64_t committed =
        reader->from_buffer ? cl_load(&reader->log->cursors->committed.value) : UINT64_MAX;
    if (scan->here != reader->offset || scan->number != segment->number) {
        return;
    }
    while (batch->count < batch->most && scan->count != 0) {
        uint32_t end = scan->first + scan->count;
        uint32_t start = end > scan->room ? 0 : scan->first;
        end = end > scan->room ? end - scan->room : end;
        const uint32_t *offsets = scan->offsets + end;
        bool in_file = segment->base + offsets[-1] < committed;
        size_t took = in_file ? cl_batch_read_back(batch, segment, segment->map,
                                                   scan->offsets + start, end - start)
                              : cl_batch_read_back(batch, segment, segment->bytes, offsets - 1, 1);
        if (took == 0) {
            break;
        }
        scan->count -= (uint32_t)took;
        scan->here = reader->offset = scan->offsets[end - took];
    }
}

int cl_backward_scan_batch(cl_reader *reader, cl_backward_scan *scan, cl_batch *batch) {
    for (;;) {
        batch_plain(reader, scan, batch);
        if (batch->count >= batch->most) {
            return CL_E_FULL;
        }
        cl_record record;
        uint64_t before = reader->offset;
        int code = cl_backward_scan_previous(reader, scan, &record);
        if (code != CL_OK) {
            return code;
        }
        if (!cl_batch_add(batch, &record)) {
            scan->count++; /* the ring still has it */
            scan->here = reader->offset = before;
            return CL_E_FULL;
        }
    }
}
