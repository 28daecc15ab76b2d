/* Iterates over the frames of a segment. A cursor has a source and a limit; cl_frame_read
 * classifies the frame at the cursor from its header alone, and cl_frame_next moves to the next
 * frame. The caller chooses whether the CRC is checked. */
#ifndef CL_FRAME_CURSOR_H
#define CL_FRAME_CURSOR_H

#include <string.h>

#include "atomics.h"
#include "crc32c.h"
#include "segment.h"

typedef struct {
    uint64_t position;
    int64_t timestamp_ns;
    const uint8_t *key; /* NULL: not keyed */
    const uint8_t *value;
    uint32_t key_length;
    uint32_t value_length;
    uint32_t type;
} cl_record;

typedef struct {
    const cl_segment *segment;
    const uint8_t *bytes; /* the source, by offsets in the segment: the mapping, a pool buffer or a
                             part of the file */
    uint64_t size; /* of the segment */
    uint64_t end; /* of the source, which may end inside the last frame */
    uint64_t limit; /* cl_frame_read stops here; at most `end` */
    uint64_t offset; /* of the frame; a multiple of CL_FRAME_ALIGN, as is `end` */
    uint64_t cell; /* set by cl_frame_read */
    uint64_t step; /* from this frame to the next, set by cl_frame_read */
} cl_frame_cursor;

/* A segment's first frame follows its header. */
static inline uint64_t cl_frame_offset(uint64_t offset) {
    return offset < CL_SEGMENT_HEADER ? CL_SEGMENT_HEADER : offset;
}

/* Returns a cursor over a source that holds the whole segment. */
static inline cl_frame_cursor cl_frame_cursor_at(const cl_segment *segment, const uint8_t *bytes,
                                                 uint64_t offset, uint64_t limit) {
    const uint64_t size = segment->size;
    return (cl_frame_cursor){.segment = segment,
                             .bytes = bytes,
                             .size = size,
                             .end = size,
                             .limit = limit < size ? limit : size,
                             .offset = offset};
}

/* Whether a cell holds a published record or a SKIP. */
static inline bool cl_cell_published(uint64_t cell) {
    return cell != 0 && !(cl_cell_word(cell) & CL_WORD_CLAIMED);
}

/* Whether this is the word of a record without key and type that is no longer than `largest`. A
 * word with any flag set is larger. */
static inline bool cl_frame_is_plain(uint32_t word, uint32_t largest) {
    return word >= CL_FRAME_HEADER && word <= largest;
}

/* As cl_frame_read, for a cell with `room` bytes from its start to the segment's end. */
static inline int cl_cell_read(uint64_t cell, uint64_t room, uint64_t *step) {
    uint32_t word = cl_cell_word(cell);
    *step = cl_frame_aligned(word);
    if (CL_LIKELY(cl_frame_is_plain(word, CL_WORD_LENGTH) && *step <= room)) {
        return CL_OK;
    }
    uint32_t length = word & CL_WORD_LENGTH;
    *step = cl_frame_aligned(length);
    if ((word & CL_WORD_FLAGS) == CL_WORD_EXT && length >= CL_FRAME_EXTENDED && *step <= room) {
        return CL_OK;
    }
    if (word & CL_WORD_SKIP) {
        *step = length == 0 ? room : *step;
        bool bad = (length != 0 && length < CL_FRAME_SMALLEST) || *step > room ||
                   (word & CL_WORD_FLAGS) != CL_WORD_SKIP;
        return bad ? CL_E_DAMAGE : CL_E_ROLLED_BACK;
    }
    uint32_t least = word & CL_WORD_EXT ? CL_FRAME_EXTENDED : CL_FRAME_HEADER;
    if (length < least || *step > room || (word & CL_WORD_BATCH)) {
        return cell == 0 ? CL_E_END : CL_E_DAMAGE;
    }
    return CL_E_BUSY;
}

/* Classifies the frame at the cursor: CL_OK a published record, CL_E_ROLLED_BACK a SKIP, CL_E_BUSY
 * a claim, CL_E_END a zero cell, CL_E_DAMAGE no frame, CL_E_ABSENT a record of which the source
 * holds only a part, CL_E_ROLL the limit. Does not check the CRC. */
static inline int cl_frame_read(cl_frame_cursor *cursor) {
    if (CL_UNLIKELY(cursor->offset >= cursor->limit)) {
        return CL_E_ROLL;
    }
    cursor->cell = cl_load((const uint64_t *)(cursor->bytes + cursor->offset));
    int code = cl_cell_read(cursor->cell, cursor->size - cursor->offset, &cursor->step);
    return CL_UNLIKELY(code == CL_OK && cursor->step > cursor->end - cursor->offset) ? CL_E_ABSENT
                                                                                     : code;
}

static inline void cl_frame_next(cl_frame_cursor *cursor) { cursor->offset += cursor->step; }

static inline int64_t cl_frame_timestamp(const cl_frame_cursor *cursor) {
    int64_t timestamp_ns;
    memcpy(&timestamp_ns, cursor->bytes + cursor->offset + CL_FRAME_TIMESTAMP, sizeof timestamp_ns);
    return timestamp_ns;
}

/* Fills in a record. Returns false if the key would end past the frame's end. */
static inline bool cl_record_fill(const uint8_t *at, uint32_t word, cl_record *record) {
    uint32_t length = word & CL_WORD_LENGTH;
    uint32_t header = CL_FRAME_HEADER;
    memcpy(&record->timestamp_ns, at + CL_FRAME_TIMESTAMP, sizeof record->timestamp_ns);
    record->type = 0;
    record->key = NULL;
    record->key_length = 0;
    if (word & CL_WORD_EXT) {
        header = CL_FRAME_EXTENDED;
        memcpy(&record->type, at + CL_FRAME_TYPE, sizeof record->type);
        uint32_t key_length;
        memcpy(&key_length, at + CL_FRAME_KEYLEN, sizeof key_length);
        if (key_length != CL_KEYLEN_NONE) {
            if (key_length > length - header) {
                return false;
            }
            record->key = at + header;
            record->key_length = key_length;
        }
    }
    record->value = at + header + record->key_length;
    record->value_length = length - header - record->key_length;
    return true;
}

/* Returns the code of cl_frame_read, or CL_E_DAMAGE if the CRC of the record or SKIP does not
 * match. Fills in *record for a record. */
static inline int cl_frame_verify(const cl_frame_cursor *cursor, int code, cl_record *record) {
    const cl_segment *segment = cursor->segment;
    const uint8_t *at = cursor->bytes + cursor->offset;
    uint32_t word = cl_cell_word(cursor->cell);
    if (CL_LIKELY(code == CL_OK)) {
        uint32_t length = word & CL_WORD_LENGTH;
        if (length > cl_frame_largest(cursor->size)) {
            return CL_E_DAMAGE; /* no appender writes such a frame, and its CRC would take long to
                                   compute */
        }
        if (cl_frame_crc(segment->seed, cursor->offset, word, at + CL_FRAME_TIMESTAMP,
                         length - CL_FRAME_TIMESTAMP) != cl_cell_high(cursor->cell)) {
            return CL_E_DAMAGE;
        }
        record->position = segment->base + cursor->offset;
        return cl_record_fill(at, word, record) ? CL_OK : CL_E_DAMAGE;
    }
    if (code == CL_E_ROLLED_BACK &&
        cl_frame_crc(segment->seed, cursor->offset, word, NULL, 0) != cl_cell_high(cursor->cell)) {
        return CL_E_DAMAGE;
    }
    return code;
}

/* Moves to the next frame at or after the cursor that has a valid CRC; false at the limit. */
bool cl_frame_find(cl_frame_cursor *cursor);

#endif
