#include "hop.h"

#include <string.h>

/* What is committed stands in the file; what is not, in the pool buffer of its only writer. */
static inline const uint8_t *hop_source(const cl_hop *hop, uint64_t offset) {
    const cl_segment *segment = hop->segment;
    bool in_file =
        !hop->from_buffer || segment->base + offset < cl_load(&hop->log->cursors->committed.value);
    return in_file ? segment->map : segment->bytes;
}

static inline uint64_t hop_cell(const cl_hop *hop, uint64_t offset) {
    return cl_load((const uint64_t *)(hop_source(hop, offset) + offset));
}

int64_t cl_hop_timestamp(const cl_hop *hop, uint64_t at) {
    int64_t timestamp_ns;
    memcpy(&timestamp_ns, hop_source(hop, at) + at + CL_FRAME_TIMESTAMP, sizeof timestamp_ns);
    return timestamp_ns;
}

static inline bool in_file_only(const cl_hop *hop) {
    return !hop->from_buffer && cl_log_pooled(hop->log);
}

/* As in a reader: what another process's pooled log has not committed, or nobody has recovered yet,
 * may be torn. */
static bool is_doubtful(const cl_hop *hop) {
    uint64_t position = hop->segment->base + hop->offset;
    return position >= hop->log->doubtful ||
           (in_file_only(hop) && position >= cl_load(&hop->log->cursors->committed.value));
}

/* A zero cell or a claim. CL_OK: look again. */
static int hop_unpublished(cl_hop *hop, uint64_t cell) {
    cl_log *log = hop->log;
    uint64_t settled =
        cl_load(in_file_only(hop) ? &log->cursors->committed.value : &log->cursors->appended.value);
    if (hop->segment->base + hop->offset < settled) {
        /* The watermark may have passed between the two looks; a cell that it has passed is
         * published or rolled back. */
        if (hop_cell(hop, hop->offset) != cell) {
            return CL_OK;
        }
        return is_doubtful(hop) ? CL_E_END : CL_E_DAMAGE;
    }
    if (in_file_only(hop)) {
        return CL_E_END;
    }
    if (hop->offset < hop->passed) {
        hop->offset +=
            cell == 0 ? CL_FRAME_SMALLEST : cl_frame_aligned(cl_cell_word(cell) & CL_WORD_LENGTH);
        return CL_OK;
    }
    if (hop->watch == NULL) {
        return CL_E_BUSY;
    }
    uint64_t pass;
    int code =
        cl_resolve(log, (cl_segment *)hop->segment, (uint32_t)hop->offset, hop->watch, &pass);
    hop->offset += code == CL_OK ? pass : 0;
    return code == CL_E_END && cell != 0 ? CL_E_BUSY : code;
}

/* CL_OK with a step: a record or a SKIP; without one: look again. */
static int hop_slowly(cl_hop *hop, uint64_t cell, uint64_t *step, bool *record) {
    enum cl_cell_kind kind = cl_cell_read(cell, hop->segment->size - hop->offset, step);
    *record = kind == CL_CELL_RECORD;
    if (kind == CL_CELL_ZERO || kind == CL_CELL_CLAIMED) {
        *step = 0;
        return hop_unpublished(hop, cell);
    }
    bool doubtful = is_doubtful(hop);
    if (kind == CL_CELL_BAD) {
        return doubtful ? CL_E_END : CL_E_DAMAGE;
    }
    if (doubtful || hop->careful) {
        cl_record whole;
        int code =
            cl_record_read(hop->segment, hop_source(hop, hop->offset), hop->offset, &whole, step);
        if (code != CL_OK && code != CL_E_ROLLED_BACK) {
            return doubtful ? CL_E_END : CL_E_DAMAGE;
        }
    }
    return CL_OK;
}

/* The offset up to which a plain record needs no second thought; most of them are plain. */
static inline uint64_t hop_sure(const cl_hop *hop) {
    uint64_t doubtful = hop->log->doubtful;
    if (in_file_only(hop)) {
        uint64_t committed = cl_load(&hop->log->cursors->committed.value);
        doubtful = committed < doubtful ? committed : doubtful;
    }
    return doubtful > hop->segment->base && !hop->careful ? doubtful - hop->segment->base : 0;
}

/* Whether a word is that of a whole record without key and type; with any flag in it, it is none.
 */
static inline bool is_plain(uint32_t word, uint64_t room) {
    return (word & CL_WORD_FLAGS) == 0 && word >= CL_FRAME_HEADER && cl_frame_aligned(word) <= room;
}

size_t cl_hop_plain(cl_hop *hop, uint64_t limit, uint32_t *at, size_t most) {
    const cl_segment *segment = hop->segment;
    const uint64_t size = segment->size, sure = hop_sure(hop);
    const uint8_t *source = segment->map;
    limit = limit < size ? limit : size;
    limit = limit < sure ? limit : sure;
    if (hop->from_buffer) {
        uint64_t committed = cl_load(&hop->log->cursors->committed.value);
        uint64_t in_file = committed > segment->base ? committed - segment->base : 0;
        limit = limit < in_file ? limit : in_file;
    }
    size_t count = 0;
    uint64_t offset = hop->offset;
    while (count < most && offset < limit) {
        uint32_t word = cl_cell_word(cl_load((const uint64_t *)(source + offset)));
        __builtin_prefetch(source + offset + CL_AHEAD);
        if (!is_plain(word, size - offset)) {
            break;
        }
        at[count++] = (uint32_t)offset;
        offset += cl_frame_aligned(word);
    }
    hop->offset = offset;
    return count;
}

int cl_hop_next(cl_hop *hop, uint64_t limit, uint64_t *at) {
    const cl_segment *segment = hop->segment;
    uint64_t size = segment->size;
    limit = limit < size ? limit : size;
    uint64_t sure = hop_sure(hop);
    while (hop->offset < limit) {
        uint64_t cell = hop_cell(hop, hop->offset);
        uint32_t word = cl_cell_word(cell);
        uint64_t step = cl_frame_aligned(word);
        bool record = true;
        if (CL_UNLIKELY(!is_plain(word, size - hop->offset) || hop->offset >= sure)) {
            int code = hop_slowly(hop, cell, &step, &record);
            if (code != CL_OK) {
                return code;
            }
        }
        *at = hop->offset;
        hop->offset += step;
        if (record) {
            return CL_OK;
        }
    }
    return CL_E_ROLL;
}

int cl_hop_whole(cl_hop *hop, uint64_t limit, uint64_t *at) {
    for (;;) {
        int code = cl_hop_next(hop, limit, at);
        if (CL_LIKELY(code != CL_E_DAMAGE)) {
            return code;
        }
        hop->offset = cl_segment_resume(hop->segment, hop->offset);
    }
}

int cl_hop_over(cl_hop *hop, uint64_t limit, uint64_t most, uint64_t *count) {
    uint64_t at;
    int code = CL_OK;
    for (*count = 0; *count < most; ++*count) {
        code = cl_hop_whole(hop, limit, &at);
        if (code != CL_OK) {
            break;
        }
    }
    return code;
}
