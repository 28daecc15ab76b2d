#include "scan.h"

#include <string.h>

#include "crc32c.h"
#include "frame_cursor.h"
#include "headers.h"
#include "mark.h"

#define CL_DIGEST_MIX 0x9E3779B97F4A7C15ull

/* Reads and checks the frame at the cursor, and the headers of a SKIP that has some. */
static inline int read_checked(cl_frame_cursor *at, cl_record *record) {
    int code = cl_frame_verify(at, cl_frame_read(at), record);
    return code == CL_E_ROLLED_BACK && cl_headers_damaged(*at) ? CL_E_DAMAGE : code;
}

static void scan_frames(const cl_segment *segment, uint64_t from, uint64_t to, cl_scan *scan,
                        cl_index *index) {
    cl_frame_cursor at = cl_frame_cursor_at(segment, segment->map, cl_frame_offset(from), to);
    cl_record record;
    memset(scan, 0, sizeof *scan);
    scan->tally.end = at.offset;
    for (;; cl_frame_next(&at)) {
        int code = read_checked(&at, &record);
        if (code == CL_OK) {
            cl_tally_add(&scan->tally, record.timestamp_ns, at.offset + at.step);
            if (index != NULL) {
                cl_index_add(index, at.offset, record.timestamp_ns);
            }
        } else if (code == CL_E_ROLLED_BACK) {
            scan->skipped += at.step;
        } else {
            scan->code = code == CL_E_ROLL ? CL_OK : code;
            break;
        }
    }
    cl_assert(at.offset, >=, from);
    cl_assert(scan->tally.end, <=, at.offset);
    scan->offset = at.offset;
    if (index != NULL) {
        index->offset = at.offset;
    }
}

void cl_segment_scan(const cl_segment *segment, uint64_t from, uint64_t to, cl_scan *scan) {
    scan_frames(segment, from, to, scan, NULL);
}

int cl_segment_copy(const cl_segment *segment, uint64_t from, uint64_t to, uint8_t *copy,
                    uint64_t *end, uint32_t *crc) {
    cl_frame_cursor at = cl_frame_cursor_at(segment, copy - from, from, to);
    cl_record record;
    int code;
    cl_assert(from, <=, to);
    cl_assert(to, <=, segment->size);
    cl_assert((from | to | (uintptr_t)copy) % CL_FRAME_ALIGN, ==, 0);
    /* The copy is checked, so nothing that changes the file meanwhile can make it invalid. */
    memcpy(copy, segment->map + from, to - from);
    at.end = to;
    for (;; cl_frame_next(&at)) {
        code = read_checked(&at, &record);
        if ((code != CL_OK && code != CL_E_ROLLED_BACK) || at.step > to - at.offset) {
            break;
        }
    }
    cl_assert(at.offset, >=, from);
    cl_assert(at.offset, <=, to);
    *end = at.offset;
    *crc = cl_crc32c(0, copy, at.offset - from);
    if (code == CL_E_ROLLED_BACK) {
        return CL_E_ABSENT;
    }
    return code == CL_E_ROLL ? CL_OK : code;
}

uint64_t cl_first_frame_end(const cl_segment *segment, uint64_t from, uint64_t to) {
    cl_frame_cursor at = cl_frame_cursor_at(segment, segment->map, from, to);
    cl_record record;
    int code = cl_frame_read(&at);
    /* The CRC of a long record is left to cl_segment_copy. */
    bool is_frame = code == CL_OK ? at.step <= cl_frame_aligned(cl_frame_largest(at.size))
                                  : cl_frame_verify(&at, code, &record) == CL_E_ROLLED_BACK;
    return is_frame && at.step > to - from ? from + at.step : to;
}

uint64_t cl_segment_digest(const cl_segment *segment, uint64_t from, uint64_t to,
                           uint64_t *digest) {
    cl_frame_cursor at = cl_frame_cursor_at(segment, segment->map, cl_frame_offset(from), to);
    uint64_t mixed = *digest;
    int code;
    while ((code = cl_frame_read(&at)) == CL_OK || code == CL_E_ROLLED_BACK) {
        if (at.step > at.limit - at.offset) {
            break;
        }
        mixed = (mixed ^ at.cell) * CL_DIGEST_MIX; /* an odd factor: no two values become one */
        mixed ^= mixed >> 32;
        cl_frame_next(&at);
    }
    *digest = mixed;
    return at.offset;
}

uint64_t cl_segment_nonzero(const cl_segment *segment, uint64_t from, uint64_t to) {
    static const uint8_t zeros[4096];
    uint64_t behind = to;
    to = to < segment->extent ? to : segment->extent;
    while (from < to) {
        uint64_t length = to - from < sizeof zeros ? to - from : sizeof zeros;
        if (memcmp(segment->map + from, zeros, length) != 0) {
            while (segment->map[from] == 0) {
                from++;
            }
            return from;
        }
        from += length;
    }
    return behind;
}

static uint64_t resume_below(const cl_segment *segment, uint64_t offset, uint64_t limit) {
    uint64_t next = (offset | (CL_FRAME_ALIGN - 1)) + 1;
    cl_frame_cursor at = cl_frame_cursor_at(segment, segment->map, next, limit);
    return cl_frame_find(&at) ? at.offset : segment->size;
}

uint64_t cl_segment_resume(const cl_segment *segment, uint64_t offset) {
    return resume_below(segment, offset, segment->extent);
}

uint64_t cl_log_resume(const cl_log *log, const cl_segment *segment, uint64_t offset) {
    return resume_below(segment, offset, cl_log_allocated(log, segment->number));
}

/* The offset at which a walk by headers from the first frame, without CRCs, reaches or passes `to`,
 * or can go no further. */
static uint64_t step_towards(const cl_segment *segment, uint64_t to) {
    cl_frame_cursor at = cl_frame_cursor_at(segment, segment->map, CL_SEGMENT_HEADER, to);
    int code;
    while ((code = cl_frame_read(&at)) == CL_OK || code == CL_E_ROLLED_BACK) {
        cl_frame_next(&at);
    }
    return at.offset;
}

uint64_t cl_segment_landing(const cl_segment *segment, uint64_t to) {
    if (to <= CL_SEGMENT_HEADER || to >= segment->size || step_towards(segment, to) == to) {
        return to;
    }
    uint64_t offset = CL_SEGMENT_HEADER;
    while (offset < to) {
        cl_scan scan;
        cl_segment_scan(segment, offset, to, &scan);
        if (scan.code == CL_OK) {
            return scan.offset;
        }
        offset = cl_segment_resume(segment, scan.offset);
    }
    return to; /* no frame spans `to`: the next valid frame begins at or behind it */
}

uint64_t cl_segment_certain_end(const cl_segment *segment, const uint8_t *bytes, uint64_t offset) {
    cl_frame_cursor at =
        cl_frame_cursor_at(segment, bytes, cl_frame_offset(offset),
                           bytes == segment->map ? segment->extent : segment->size);
    uint64_t end = offset;
    while (cl_frame_find(&at)) {
        cl_frame_next(&at);
        end = at.offset;
    }
    return end;
}

uint64_t cl_segment_mark_gap(cl_segment *segment, uint64_t from, uint64_t to) {
    uint64_t stop = cl_segment_nonzero(segment, from, to) & ~(uint64_t)(CL_FRAME_ALIGN - 1);
    for (; from < stop; from += CL_FRAME_SMALLEST) {
        cl_store((uint64_t *)(segment->map + from),
                 cl_skip_cell(segment, (uint32_t)from, CL_FRAME_SMALLEST));
    }
    return from;
}

/* Whether the content of a SKIP belongs to a record. By value and not inlined: a loop that gives
 * away the address of its cursor keeps it in memory. */
static __attribute__((noinline)) bool is_mark(cl_frame_cursor at) {
    cl_mark mark;
    return cl_mark_read(&at, &mark) || cl_headers_begin(at);
}

uint64_t cl_segment_take_over(cl_segment *segment, const uint8_t *source, uint64_t *offset) {
    cl_frame_cursor at = cl_frame_cursor_at(segment, source, *offset, segment->size);
    cl_record record;
    uint64_t claims = 0;
    cl_assert(*offset, >=, CL_SEGMENT_HEADER);
    cl_assert(*offset % CL_FRAME_ALIGN, ==, 0);
    for (;; cl_frame_next(&at)) {
        int code = read_checked(&at, &record);
        uint8_t *to = segment->map + at.offset;
        if (code == CL_OK || (code == CL_E_ROLLED_BACK && is_mark(at))) {
            memcpy(to + sizeof at.cell, source + at.offset + sizeof at.cell,
                   at.step - sizeof at.cell);
        } else if (code == CL_E_BUSY) {
            at.cell = cl_skip_cell(segment, (uint32_t)at.offset, (uint32_t)at.step);
            claims++;
        } else if (code != CL_E_ROLLED_BACK) {
            cl_assert(at.offset, <=, segment->size);
            *offset = at.offset;
            return claims;
        }
        /* The cell is written last: a reader that has the file mapped finds the frame whole or not
         * at all. */
        cl_store((uint64_t *)to, at.cell);
    }
}

int cl_segment_sealed(const cl_segment *segment, cl_header_seal *seal) {
    memcpy(seal, segment->map + CL_HEADER_SEAL_AT, sizeof *seal);
    return cl_header_seal_valid(segment->id, segment->size, seal) ? CL_OK : CL_E_ABSENT;
}

/* Copies the index that the commits built, if it covers the whole segment; otherwise nothing. */
static void take_index(const cl_segment *segment, cl_index *index) {
    const cl_index *counted = &segment->index;
    if (counted->entries == NULL || counted->records != segment->tally.records ||
        counted->spacing != index->spacing || counted->count > index->room) {
        return;
    }
    memcpy(index->entries, counted->entries, counted->count * sizeof *index->entries);
    index->count = counted->count;
    index->records = counted->records;
    index->largest_ns = counted->records == 0 ? INT64_MIN : segment->tally.largest_timestamp_ns;
    index->offset = segment->size;
}

int cl_segment_seal(cl_segment *segment, uint64_t first_sequence, cl_index *index) {
    cl_header_seal seal;
    if (cl_segment_sealed(segment, &seal) == CL_OK) {
        return CL_OK;
    }
    cl_tally tally;
    if (cl_load32(&segment->tallied) == segment->size) {
        tally = segment->tally;
        if (index != NULL) {
            take_index(segment, index);
        }
    } else {
        cl_scan scan;
        scan_frames(segment, 0, segment->size, &scan, index);
        if (scan.code != CL_OK) {
            return scan.code == CL_E_END ? CL_E_BUSY : scan.code;
        }
        tally = scan.tally;
    }
    seal = (cl_header_seal){.end = tally.end,
                            .first_sequence = first_sequence,
                            .record_count = tally.records,
                            .first_timestamp_ns = tally.first_timestamp_ns,
                            .last_timestamp_ns = tally.last_timestamp_ns,
                            .largest_timestamp_ns = tally.largest_timestamp_ns,
                            .sealed = 1};
    seal.crc = cl_header_seal_crc(segment->id, &seal);
    cl_assert(cl_header_seal_valid(segment->id, segment->size, &seal), ==, true);
    /* Every process that seals this segment writes the same bytes. */
    memcpy(segment->map + CL_HEADER_SEAL_AT, &seal, sizeof seal);
    cl_segment_let_go(
        segment, 0,
        segment->size); /* without a flush thread, the system writes it back at its own time */
    return CL_OK;
}
