#include "stretch.h"

#include "short_frames.h"

static const uint32_t DAMAGE_MARK = 1; /* frames begin at multiples of 8 */

static void stretch_keep(cl_stretch *stretch, uint32_t offset) {
    uint32_t end = stretch->first + stretch->count;
    stretch->offsets[end < stretch->room ? end : end - stretch->room] = offset;
    if (stretch->count < stretch->room) {
        stretch->count++;
    } else {
        stretch->first = stretch->first + 1 < stretch->room ? stretch->first + 1 : 0;
    }
}

/* As long as plain records follow each other. */
static void stretch_keep_plain(cl_stretch *stretch, cl_hop *hop, uint64_t limit) {
    for (;;) {
        uint32_t end = stretch->first + stretch->count;
        end = end < stretch->room ? end : end - stretch->room;
        uint32_t kept =
            (uint32_t)cl_hop_plain(hop, limit, stretch->offsets + end, stretch->room - end);
        if (kept == 0) {
            return;
        }
        uint32_t lost =
            stretch->count + kept > stretch->room ? stretch->count + kept - stretch->room : 0;
        stretch->count += kept - lost;
        stretch->first = (stretch->first + lost) % stretch->room;
    }
}

static uint32_t stretch_last(const cl_stretch *stretch) {
    uint32_t last = stretch->first + stretch->count - 1;
    return stretch->offsets[last < stretch->room ? last : last - stretch->room];
}

int cl_stretch_fill(cl_reader *reader, cl_stretch *stretch, uint64_t from) {
    cl_hop hop = {.log = reader->log,
                  .segment = reader->segment,
                  .offset = from,
                  .from_buffer = reader->from_buffer,
                  .watch = &reader->watch};
    stretch->first = stretch->count = 0;
    stretch->careful = stretch->careful && stretch->number == reader->segment->number;
    stretch->number = reader->segment->number;
    hop.careful = stretch->careful;
    for (;;) {
        uint64_t at;
        stretch_keep_plain(stretch, &hop, reader->offset);
        int code = cl_hop_next(&hop, reader->offset, &at);
        if (code == CL_OK) {
            stretch_keep(stretch, (uint32_t)at);
        } else if (code == CL_E_DAMAGE && !hop.careful) {
            stretch->first = stretch->count = 0;
            hop.careful = stretch->careful = true; /* who knows since when this was the wrong way */
            hop.offset = from;
        } else if (code == CL_E_DAMAGE) {
            stretch_keep(stretch, (uint32_t)hop.offset | DAMAGE_MARK);
            hop.offset = cl_segment_resume(reader->segment, hop.offset);
        } else if (code == CL_E_BUSY) {
            stretch->count = 0;
            stretch->here = 0;
            return code;
        } else {
            if (code == CL_E_END) {
                reader->offset = hop.offset;
            } else if (stretch->count == 0) {
                reader->offset = from; /* nothing but SKIPs */
            }
            stretch->here = reader->offset;
            return CL_OK;
        }
    }
}

int cl_reader_previous(cl_reader *reader, cl_stretch *stretch, cl_record *record) {
    const cl_segment *segment = reader->segment;
    if (CL_UNLIKELY(stretch->count == 0 || stretch->here != reader->offset ||
                    stretch->number != segment->number)) {
        return reader->offset <= CL_SEGMENT_HEADER ? CL_E_ROLL : CL_E_ABSENT;
    }
    uint32_t last = stretch_last(stretch);
    uint64_t offset = last & ~DAMAGE_MARK;
    uint64_t step;
    bool in_file = !reader->from_buffer ||
                   segment->base + offset < cl_load(&reader->log->cursors->committed.value);
    const uint8_t *source = in_file ? segment->map : segment->bytes;
    if (CL_UNLIKELY(last & DAMAGE_MARK)) {
        stretch->damage = offset;
        return CL_E_DAMAGE;
    }
    if (CL_UNLIKELY(cl_record_read(segment, source, offset, record, &step) != CL_OK)) {
        /* Its length may have led over whole records: once more, with care. */
        stretch->careful = true;
        stretch->count = 0;
        return CL_E_ABSENT;
    }
    stretch->count--;
    stretch->here = reader->offset = offset;
    return CL_OK;
}

void cl_stretch_pass(cl_reader *reader, cl_stretch *stretch) {
    stretch->count -= stretch->count != 0;
    stretch->here = reader->offset = stretch->damage;
}

/* Short records that stand in the file and side by side in the ring; whether there were any. */
static bool batch_short(cl_reader *reader, cl_stretch *stretch, const cl_batch *columns,
                        cl_progress *progress, uint64_t committed) {
    uint32_t end = stretch->first + stretch->count;
    uint32_t start = end > stretch->room ? 0 : stretch->first;
    end = end > stretch->room ? end - stretch->room : end;
    if (reader->segment->base + stretch->offsets[end - 1] >= committed) {
        return false;
    }
    size_t took =
        cl_short_frames_read_back(columns, progress, reader->segment, reader->segment->map,
                                  stretch->offsets + start, end - start);
    stretch->count -= (uint32_t)took;
    return took != 0;
}

/* Reads back as long as plain records stand there, as a reader that goes forward does. */
static void batch_plain(cl_reader *reader, cl_stretch *stretch, cl_batch *batch) {
    const cl_segment *segment = reader->segment;
    const cl_batch columns = *batch;
    const uint32_t largest = cl_frame_largest(segment->size);
    const uint64_t committed =
        reader->from_buffer ? cl_load(&reader->log->cursors->committed.value) : UINT64_MAX;
    cl_progress progress = {
        .count = batch->count, .data_size = batch->data_size, .offset = reader->offset};
    if (stretch->here != reader->offset || stretch->number != segment->number) {
        return;
    }
    while (progress.count < columns.most && stretch->count != 0) {
        if (batch_short(reader, stretch, &columns, &progress, committed)) {
            continue;
        }
        uint64_t offset = stretch_last(stretch);
        const uint8_t *source = segment->base + offset < committed ? segment->map : segment->bytes;
        if ((offset & DAMAGE_MARK) != 0 ||
            cl_batch_copy(&columns, progress.count, &progress.data_size, segment, source, offset,
                          largest) == 0) {
            break;
        }
        stretch->count--;
        progress.offset = offset;
        progress.count++;
    }
    stretch->here = reader->offset = progress.offset;
    cl_batch_plain_rows(batch, progress.count, progress.data_size);
}

int cl_stretch_batch(cl_reader *reader, cl_stretch *stretch, cl_batch *batch) {
    for (;;) {
        batch_plain(reader, stretch, batch);
        if (batch->count >= batch->most) {
            return CL_E_FULL;
        }
        cl_record record;
        uint64_t before = reader->offset;
        int code = cl_reader_previous(reader, stretch, &record);
        if (code != CL_OK) {
            return code;
        }
        if (!cl_batch_add(batch, &record)) {
            stretch->count++; /* the ring still has it */
            stretch->here = reader->offset = before;
            return CL_E_FULL;
        }
    }
}
