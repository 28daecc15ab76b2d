#include "stretch.h"

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

static uint32_t stretch_last(const cl_stretch *stretch) {
    uint32_t last = stretch->first + stretch->count - 1;
    return stretch->offsets[last < stretch->room ? last : last - stretch->room];
}

int cl_stretch_fill(cl_reader *reader, cl_stretch *stretch, uint64_t from) {
    cl_hop hop = {
        .log = reader->log, .segment = reader->segment, .offset = from, .from_buffer = reader->from_buffer, .watch = &reader->watch};
    stretch->first = stretch->count = 0;
    stretch->careful = stretch->careful && stretch->number == reader->segment->number;
    stretch->number = reader->segment->number;
    hop.careful = stretch->careful;
    for (;;) {
        uint64_t at;
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
    if (CL_UNLIKELY(stretch->count == 0 || stretch->here != reader->offset || stretch->number != segment->number)) {
        return reader->offset <= CL_SEGMENT_HEADER ? CL_E_ROLL : CL_E_ABSENT;
    }
    uint32_t last = stretch_last(stretch);
    uint64_t offset = last & ~DAMAGE_MARK;
    uint64_t step;
    bool in_file = !reader->from_buffer || segment->base + offset < cl_load(&reader->log->cursors->committed.value);
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

/* Reads back as long as plain records stand there, as a reader that goes forward does. */
static void batch_plain(cl_reader *reader, cl_stretch *stretch, cl_batch *batch) {
    const cl_segment *segment = reader->segment;
    const cl_batch columns = *batch;
    const uint32_t largest = cl_frame_largest(segment->size);
    const uint64_t committed = reader->from_buffer ? cl_load(&reader->log->cursors->committed.value) : UINT64_MAX;
    size_t count = batch->count, data_size = batch->data_size;
    if (stretch->here != reader->offset || stretch->number != segment->number) {
        return;
    }
    while (count < columns.most && stretch->count != 0) {
        uint64_t offset = stretch_last(stretch);
        const uint8_t *source = segment->base + offset < committed ? segment->map : segment->bytes;
        if ((offset & DAMAGE_MARK) != 0 || cl_batch_copy(&columns, count, &data_size, segment, source, offset, largest) == 0) {
            break;
        }
        stretch->count--;
        stretch->here = reader->offset = offset;
        count++;
    }
    cl_batch_plain_rows(batch, count, data_size);
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
