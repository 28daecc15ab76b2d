#include "frame_decoder.h"

#include <string.h>

static inline int64_t microseconds(int64_t ns) { return ns / 1000 - (ns % 1000 < 0); }

/* Fills the columns that every row has: all but value and key. */
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

/* Decodes whole records without key and type. Leaves any other frame to decode_one, also one whose
 * CRC does not match. */
static void decode_plain(cl_frame_cursor *cursor, cl_rows_out *out) {
    const cl_frame_cursor source =
        *cursor; /* a copy that nothing points to: no store through a pointer forces a reload */
    const uint32_t seed = source.segment->seed;
    const uint64_t base = source.segment->base;
    const uint32_t largest = cl_frame_largest(source.size);
    cl_rows_out rows = *out;
    uint64_t offset = source.offset;
    while (rows.count < rows.most && offset < source.limit) {
        const uint8_t *at = source.bytes + offset;
        uint64_t cell = cl_load((const uint64_t *)at);
        uint32_t length = cl_cell_word(cell);
        uint32_t step = cl_frame_aligned(length);
        if (!cl_frame_is_plain(length, largest) || step > source.end - offset) {
            break;
        }
        uint32_t crc;
        if (rows.value_ends != NULL) {
            if (length - CL_FRAME_HEADER > rows.values_room - rows.values_size) {
                break;
            }
            uint8_t *to = rows.values + rows.values_size;
            crc = cl_frame_copy_crc(seed, offset, length, at, CL_FRAME_HEADER, to,
                                    at + CL_FRAME_HEADER);
        } else {
            crc = cl_frame_crc(seed, offset, length, at + CL_FRAME_TIMESTAMP,
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
        add_row(&rows, base + offset, timestamp_ns, 0);
        offset += step;
    }
    *out = rows;
    cursor->offset = offset;
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

/* Handles any frame: CL_OK if it was decoded or stepped over. */
static int decode_one(cl_frame_cursor *cursor, uint64_t first, cl_rows_out *out) {
    cl_record record;
    int code = cl_frame_read(cursor);
    if (code == CL_E_ABSENT && cursor->step > cl_frame_largest(cursor->size)) {
        return CL_E_DAMAGE; /* no appender writes such a frame, so the caller must not read on for
                               the rest of it */
    }
    code = cl_frame_verify(cursor, code, &record);
    if (code == CL_OK) {
        if (cursor->offset < first) {
            out->passed++;
        } else if (!add_record(out, &record)) {
            return CL_E_FULL;
        }
    } else if (code != CL_E_ROLLED_BACK) {
        return code;
    }
    cl_frame_next(cursor);
    return CL_OK;
}

int cl_frames_decode(cl_frame_cursor *cursor, uint64_t first, uint64_t limit, cl_rows_out *out) {
    int code = CL_OK;
    while (code == CL_OK && cursor->offset < cursor->limit) {
        if (cursor->offset >= first) {
            decode_plain(cursor, out);
            if (out->count == out->most) {
                return CL_E_FULL;
            }
        }
        code = decode_one(cursor, first, out);
    }
    if ((code == CL_OK || code == CL_E_ROLL) && cursor->offset < limit) {
        cursor->step =
            sizeof cursor->cell; /* the source holds nothing of the next frame, not even its cell */
        return CL_E_ABSENT;
    }
    return code == CL_OK ? CL_E_ROLL : code;
}
