#include "scan.h"

#include <string.h>

#include "crc32c.h"

#define LONG_FRAME 4096u /* up to here a CRC costs less than to think about it */

static void scan_frames(const cl_segment *segment, uint64_t from, uint64_t to, cl_scan *scan,
                        cl_index *index) {
    memset(scan, 0, sizeof *scan);
    uint64_t offset = from < CL_SEGMENT_HEADER ? CL_SEGMENT_HEADER : from;
    to = to < segment->size ? to : segment->size;
    scan->tally.end = offset;
    while (offset < to) {
        cl_record record;
        uint64_t step;
        int code = cl_record_read(segment, segment->map, offset, &record, &step);
        if (code == CL_OK) {
            cl_tally_add(&scan->tally, record.timestamp_ns, offset + step);
            if (index != NULL) {
                cl_index_add(index, offset, record.timestamp_ns);
            }
        } else if (code == CL_E_ROLLED_BACK) {
            scan->skipped += step;
        } else {
            scan->code = code;
            break;
        }
        offset += step;
    }
    scan->offset = offset;
    if (index != NULL) {
        index->offset = offset;
    }
}

void cl_segment_scan(const cl_segment *segment, uint64_t from, uint64_t to, cl_scan *scan) {
    scan_frames(segment, from, to, scan, NULL);
}

uint64_t cl_segment_nonzero(const cl_segment *segment, uint64_t from, uint64_t to) {
    static const uint8_t zeros[4096];
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
    return to;
}

/* Whether a cell may be a frame's. A CRC of zero is taken for data, which is full of small numbers,
 * and not for a frame. */
static bool is_plausible(const cl_segment *segment, const uint8_t *bytes, uint64_t offset,
                         uint64_t *step) {
    uint64_t cell = cl_load((const uint64_t *)(bytes + offset));
    enum cl_cell_kind kind = cl_cell_read(cell, segment->size - offset, step);
    if (kind == CL_CELL_ZERO) {
        return true;
    }
    return kind != CL_CELL_BAD && cl_cell_high(cell) != 0 &&
           (kind == CL_CELL_SKIP || *step <= segment->size / 8);
}

/* It may be looked for at every cell of a damaged range, where each cell that looks like a length
 * would cost a CRC over as much: a long one is believed only where something plausible follows it.
 */
bool cl_segment_certain(const cl_segment *segment, const uint8_t *bytes, uint64_t offset,
                        uint64_t *step) {
    cl_record record;
    uint64_t next;
    uint64_t cell = cl_load((const uint64_t *)(bytes + offset));
    if (cl_cell_read(cell, segment->size - offset, step) == CL_CELL_RECORD) {
        bool follows = *step <= LONG_FRAME || offset + *step >= segment->size ||
                       is_plausible(segment, bytes, offset + *step, &next);
        if (!follows || !is_plausible(segment, bytes, offset, &next)) {
            return false;
        }
    }
    int code = cl_record_read(segment, bytes, offset, &record, step);
    return code == CL_OK || code == CL_E_ROLLED_BACK;
}

uint64_t cl_segment_resume(const cl_segment *segment, uint64_t offset) {
    uint64_t step;
    for (offset += CL_FRAME_ALIGN; offset < segment->size; offset += CL_FRAME_ALIGN) {
        if (cl_segment_certain(segment, segment->map, offset, &step)) {
            return offset;
        }
    }
    return segment->size;
}

/* Where stepping over whole cells from the first frame on, without their CRCs, first comes to `to`,
 * passes it, or can go no further. */
static uint64_t step_towards(const cl_segment *segment, uint64_t to) {
    uint64_t offset = CL_SEGMENT_HEADER;
    uint64_t step;
    while (offset < to) {
        uint64_t cell = cl_load((const uint64_t *)(segment->map + offset));
        enum cl_cell_kind kind = cl_cell_read(cell, segment->size - offset, &step);
        if (kind != CL_CELL_RECORD && kind != CL_CELL_SKIP) {
            break;
        }
        offset += step;
    }
    return offset;
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
    return to; /* what is written here is the next certain frame behind the damage */
}

uint64_t cl_segment_certain_end(const cl_segment *segment, const uint8_t *bytes, uint64_t offset) {
    uint64_t end = offset;
    while (offset < segment->size) {
        uint64_t step;
        if (cl_segment_certain(segment, bytes, offset, &step)) {
            offset += step;
            end = offset;
        } else {
            offset += CL_FRAME_ALIGN;
        }
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

uint64_t cl_segment_take_over(cl_segment *segment, const uint8_t *source, uint64_t *offset) {
    uint64_t claims = 0;
    while (*offset < segment->size) {
        cl_record record;
        uint64_t step;
        uint64_t cell = cl_load((const uint64_t *)(source + *offset));
        int code = cl_record_read(segment, source, *offset, &record, &step);
        if (code == CL_OK) {
            memcpy(segment->map + *offset + sizeof cell, source + *offset + sizeof cell,
                   step - sizeof cell);
        } else if (code == CL_E_BUSY) {
            cell = cl_skip_cell(segment, (uint32_t)*offset, (uint32_t)step);
            claims++;
        } else if (code != CL_E_ROLLED_BACK) {
            break;
        }
        /* The cell goes last: readers that have the file mapped find the frame whole or not at all.
         */
        cl_store((uint64_t *)(segment->map + *offset), cell);
        *offset += step;
    }
    return claims;
}

int cl_segment_sealed(const cl_segment *segment, cl_header_seal *seal) {
    memcpy(seal, segment->map + CL_HEADER_SEAL_AT, sizeof *seal);
    return seal->sealed == 1 && cl_header_seal_crc(segment->id, seal) == seal->crc ? CL_OK
                                                                                   : CL_E_ABSENT;
}

/* What the commits have counted on their way, where that is all of it; otherwise nothing. */
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
    /* Every process that seals this segment writes the same bytes. */
    memcpy(segment->map + CL_HEADER_SEAL_AT, &seal, sizeof seal);
    cl_segment_let_go(
        segment, 0,
        segment->size); /* where nobody flushes, the system writes it back when it likes */
    return CL_OK;
}
