#include "piece.h"

#include <string.h>

#include "crc32c.h"

static inline int64_t microseconds(int64_t ns) { return ns / 1000 - (ns % 1000 < 0); }

/* What all rows have: everything but value and key. */
static inline void add_row(cl_rows_out *out, uint64_t position, int64_t timestamp_ns,
                           uint32_t type) {
    size_t at = out->count;
    if (out->positions != NULL) {
        out->positions[at] = (int64_t)position;
    }
    if (out->timestamps_us != NULL) {
        out->timestamps_us[at] = microseconds(timestamp_ns);
    }
    if (out->types != NULL) {
        out->types[at] = (int64_t)type;
    }
    if (out->value_ends != NULL) {
        out->value_ends[at] = (int32_t)out->values_size;
    }
    if (out->key_ends != NULL) {
        out->key_ends[at] = (int32_t)out->keys_size;
    }
    out->count++;
}

/* Decodes on as long as whole records without key and type stand there. All else, also what fails
 * its CRC, is left to decode_one. */
static uint64_t decode_plain(const cl_piece *piece, uint64_t offset, uint64_t limit,
                             cl_rows_out *out) {
    const cl_segment *segment = piece->segment;
    const uint8_t *bytes = piece->bytes - piece->start;
    const uint32_t largest = cl_frame_largest(segment->size);
    const uint64_t end = limit < piece->stop ? limit : piece->stop;
    cl_rows_out rows = *out; /* a copy that nothing points to: no store through its pointers makes
                                it be loaded again */
    while (rows.count < rows.most && offset < end) {
        const uint8_t *at = bytes + offset;
        uint64_t cell = cl_load((const uint64_t *)at);
        uint32_t length = cl_cell_word(cell); /* with any flag in it, longer than the largest */
        uint32_t step = cl_frame_aligned(length);
        if (length < CL_FRAME_HEADER || length > largest || step > piece->stop - offset) {
            break;
        }
        uint32_t crc;
        if (rows.value_ends != NULL) {
            if (length - CL_FRAME_HEADER > rows.values_room - rows.values_size) {
                break;
            }
            uint8_t *to = rows.values + rows.values_size;
            crc = cl_frame_copy_crc(segment->seed, offset, length, at, CL_FRAME_HEADER, to,
                                    at + CL_FRAME_HEADER);
        } else {
            crc = cl_frame_crc(segment->seed, offset, length, at + CL_FRAME_TIMESTAMP,
                               length - CL_FRAME_TIMESTAMP);
        }
        if (crc != cl_cell_high(cell)) {
            break;
        }
        if (rows.value_ends != NULL) {
            rows.values_size += length - CL_FRAME_HEADER;
        }
        if (rows.key_ends != NULL) {
            rows.key_bits[rows.count / 8] &= (uint8_t)~(1u << rows.count % 8);
        }
        int64_t timestamp_ns;
        memcpy(&timestamp_ns, at + CL_FRAME_TIMESTAMP, sizeof timestamp_ns);
        add_row(&rows, segment->base + offset, timestamp_ns, 0);
        offset += step;
    }
    *out = rows;
    return offset;
}

static bool add_record(cl_rows_out *out, const cl_record *record) {
    bool with_value = out->value_ends != NULL, with_key = out->key_ends != NULL;
    if (out->count == out->most ||
        (with_value && record->value_length > out->values_room - out->values_size) ||
        (with_key && record->key_length > out->keys_room - out->keys_size)) {
        return false;
    }
    if (with_value) {
        memcpy(out->values + out->values_size, record->value, record->value_length);
        out->values_size += record->value_length;
    }
    if (with_key) {
        uint8_t bit = (uint8_t)(1u << out->count % 8);
        uint8_t *bits = &out->key_bits[out->count / 8];
        *bits = (uint8_t)(record->key != NULL ? *bits | bit : *bits & ~bit);
        if (record->key_length != 0) {
            memcpy(out->keys + out->keys_size, record->key, record->key_length);
            out->keys_size += record->key_length;
        }
    }
    add_row(out, record->position, record->timestamp_ns, record->type);
    return true;
}

/* Any frame: CL_OK when it was decoded or stepped over. */
static int decode_one(const cl_piece *piece, uint64_t *offset, uint64_t first, cl_rows_out *out,
                      uint64_t *step) {
    const cl_segment *segment = piece->segment;
    const uint8_t *bytes = piece->bytes - piece->start;
    *step = sizeof(uint64_t);
    if (piece->stop - *offset < sizeof(uint64_t)) {
        return CL_E_ABSENT;
    }
    uint64_t cell = cl_load((const uint64_t *)(bytes + *offset));
    if (cl_cell_read(cell, segment->size - *offset, step) == CL_CELL_RECORD) {
        if (*step > cl_frame_largest(segment->size)) {
            return CL_E_DAMAGE;
        }
        if (*step > piece->stop - *offset) {
            return CL_E_ABSENT;
        }
    }
    cl_record record;
    int code = cl_record_read(segment, bytes, *offset, &record, step);
    if (code == CL_OK) {
        if (*offset < first) {
            out->passed++;
        } else if (!add_record(out, &record)) {
            return CL_E_FULL;
        }
    } else if (code != CL_E_ROLLED_BACK) {
        return code;
    }
    *offset += *step;
    return CL_OK;
}

int cl_piece_decode(const cl_piece *piece, uint64_t *offset, uint64_t first, uint64_t limit,
                    cl_rows_out *out, uint64_t *step) {
    *step = 0;
    while (*offset < limit) {
        if (*offset >= piece->stop) {
            *step = sizeof(uint64_t);
            return CL_E_ABSENT;
        }
        if (*offset >= first) {
            *offset = decode_plain(piece, *offset, limit, out);
            if (out->count == out->most) {
                return CL_E_FULL;
            }
            if (*offset >= limit || *offset >= piece->stop) {
                continue;
            }
        }
        int code = decode_one(piece, offset, first, out, step);
        if (code != CL_OK) {
            return code;
        }
    }
    return CL_E_ROLL;
}

uint64_t cl_piece_resume(const cl_piece *piece, uint64_t offset, uint64_t limit) {
    uint64_t end = limit < piece->stop ? limit : piece->stop;
    for (offset += CL_FRAME_ALIGN; offset < end; offset += CL_FRAME_ALIGN) {
        uint64_t step;
        uint64_t cell = cl_load((const uint64_t *)(piece->bytes + (offset - piece->start)));
        enum cl_cell_kind kind = cl_cell_read(cell, piece->segment->size - offset, &step);
        /* Of a record, the cell behind it is looked at, too. */
        uint64_t needed = kind == CL_CELL_RECORD && offset + step < piece->segment->size
                              ? step + sizeof cell
                              : step;
        if (kind == CL_CELL_SKIP || (kind == CL_CELL_RECORD && needed <= piece->stop - offset)) {
            if (cl_segment_certain(piece->segment, piece->bytes - piece->start, offset, &step)) {
                return offset;
            }
        }
    }
    return limit;
}
