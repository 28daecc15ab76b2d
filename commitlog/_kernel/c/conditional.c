/* Appends on a condition. A handle counts the records from its last conditional append on up to the
 * tail, where every claim must be resolved, and then moves the tail from there with one swap. So
 * no record is between those that it counted and the one that it appends. */
#include "conditional.h"

#include "append.h"
#include "frame_cursor.h"
#include "resolve.h"
#include "rows.h"

#define COUNT_AT_ONCE (1u << 20) /* bytes; the caller counts more of them faster, by seals */
#define MOST_RECOUNTS 100u /* far more than a log with all of its segments needs */
#define MOST_ATTEMPTS 1000u /* a tail that moves so often without a record is a fault */
#define CLAIM_POLLS 64u /* of a claim that another processor is about to publish */

/* The tail, at most at its segment's end. */
static inline uint64_t end_of(const cl_writer *writer, uint64_t packed) {
    uint32_t size = (uint32_t)writer->log->segment_size;
    return CL_LIKELY(cl_tail_offset(packed) <= size) ? packed
                                                     : cl_tail_pack(cl_tail_number(packed), size);
}

void cl_counted_set(cl_writer *writer, uint64_t position, uint64_t sequence) {
    uint64_t size = writer->log->segment_size;
    uint64_t number = position / size, offset = cl_frame_offset(position % size);
    if (offset == CL_SEGMENT_HEADER && number > 0) { /* the tail may still be at the end before */
        number--;
        offset = size;
    }
    uint64_t packed = cl_tail_pack(number, (uint32_t)offset);
    if (packed > writer->counted.packed && packed <= end_of(writer, cl_load(writer->tail))) {
        writer->counted.packed = packed;
        writer->counted.sequence = sequence;
        writer->counted.watch.position = UINT64_MAX;
    }
}

/* Polls the unpublished cell at `offset`. CL_OK: it is resolved. */
static int poll_claim(cl_writer *writer, cl_segment *segment, uint64_t offset) {
    uint64_t pass; /* stays 0: a writer turns dead claims into SKIPs */
    int code = CL_E_BUSY;
    for (uint32_t poll = 0; poll < CLAIM_POLLS && code == CL_E_BUSY; poll++) {
        code = cl_resolve(writer->log, segment, (uint32_t)offset, &writer->counted.watch, &pass);
    }
    return code;
}

/* Counts on in one segment up to the offset `limit`, or at least to the position `enough`. */
static int count_frames(cl_writer *writer, cl_segment *segment, uint32_t limit, uint64_t enough) {
    cl_counted *counted = &writer->counted;
    cl_frame_cursor at = cl_frame_cursor_at(
        segment, segment->bytes, cl_frame_offset(cl_tail_offset(counted->packed)), limit);
    uint64_t sequence = counted->sequence;
    int code = CL_OK;
    for (; segment->base + at.offset < enough; cl_frame_next(&at)) {
        code = cl_frame_read(&at);
        if (CL_LIKELY(code == CL_OK)) {
            sequence++;
            continue;
        }
        if (code == CL_E_END || code == CL_E_BUSY) {
            code = poll_claim(writer, segment, at.offset);
            at.step = 0; /* if it is resolved, the cursor reads it again */
        }
        if (code != CL_OK && code != CL_E_ROLLED_BACK) {
            break;
        }
    }
    if (at.offset > limit) {
        return CL_E_DAMAGE; /* every frame below a tail ends there */
    }
    cl_assert(cl_tail_pack(segment->number, (uint32_t)at.offset), >=, counted->packed);
    cl_assert(sequence, >=, counted->sequence);
    counted->packed = cl_tail_pack(segment->number, (uint32_t)at.offset);
    counted->sequence = sequence;
    return code == CL_E_ROLL || code == CL_E_ROLLED_BACK ? CL_OK : code;
}

/* Counts on in the segment of `counted`, which is below `goal`, or enters the next one. */
static int count_on(cl_writer *writer, uint64_t goal, uint64_t enough) {
    cl_counted *counted = &writer->counted;
    uint64_t number = cl_tail_number(counted->packed);
    uint32_t size = (uint32_t)writer->log->segment_size;
    cl_assert(counted->packed, <, goal);
    if (cl_tail_offset(counted->packed) >= size) {
        counted->packed = cl_tail_pack(number + 1, CL_SEGMENT_HEADER);
        cl_assert(counted->packed, <=, goal);
        return CL_OK;
    }
    cl_segment *segment;
    int code = cl_table_acquire(&writer->log->table, number, &segment);
    if (code == CL_OK) {
        uint32_t limit = number == cl_tail_number(goal) ? cl_tail_offset(goal) : size;
        code = count_frames(writer, segment, limit, enough);
        cl_segment_release(segment);
    }
    return code == CL_E_BUSY || code == CL_E_END ? CL_E_UNRESOLVED : code;
}

/* Counts up to `goal`, which is not beyond its segment's end. */
static __attribute__((noinline)) int count_to(cl_writer *writer, uint64_t goal,
                                              cl_condition *condition) {
    cl_counted *counted = &writer->counted;
    uint64_t enough = cl_log_position(writer->log, counted->packed) + COUNT_AT_ONCE;
    int code = counted->packed == 0 ? CL_E_UNCOUNTED : CL_OK;
    while (code == CL_OK && counted->packed < goal) { /* each round ends or enters a segment */
        code = count_on(writer, goal, enough);
        bool pauses = cl_log_position(writer->log, counted->packed) >= enough;
        if (code == CL_OK && pauses && counted->packed < goal) {
            code = CL_E_UNCOUNTED;
        }
    }
    if (code == CL_E_ABSENT && condition->recounts < MOST_RECOUNTS) {
        counted->packed = 0; /* the segment was deleted: the caller counts from a later one */
        code = CL_E_UNCOUNTED;
    }
    if (code == CL_E_UNCOUNTED && condition->recounts++ >= MOST_RECOUNTS) {
        code = CL_E_DAMAGE;
    }
    return code;
}

/* CL_OK: a claim of `length` bytes may begin at the tail *packed, below which every claim is
 * resolved and `expect` records are. */
static int meet(cl_writer *writer, uint64_t length, cl_condition *condition, uint64_t *packed) {
    cl_counted *counted = &writer->counted;
    int code = cl_writer_refusal(writer);
    if (CL_UNLIKELY(code != CL_OK)) {
        return code;
    }
    if (CL_UNLIKELY(length > writer->largest)) {
        return CL_E_TOO_LARGE;
    }
    *packed = cl_load(writer->tail);
    uint64_t end = end_of(writer, *packed);
    if (CL_UNLIKELY(end != counted->packed)) {
        /* The goal stays between attempts: later appends must not prolong the count. */
        if (condition->goal <= counted->packed) {
            condition->goal = end;
        }
        code = count_to(writer, condition->goal, condition);
        if (code != CL_OK && !(code == CL_E_UNRESOLVED && counted->sequence > condition->expect)) {
            return code;
        }
    }
    if (CL_UNLIKELY(counted->sequence != condition->expect)) {
        return CL_E_CONFLICT;
    }
    return CL_LIKELY(end == counted->packed) ? CL_OK : CL_E_MOVED;
}

/* Whether another attempt may follow one with this code. */
static bool tries_again(cl_condition *condition, int *code) {
    if (*code != CL_E_MOVED && *code != CL_E_ROLLED_BACK) {
        return false;
    }
    if (++condition->attempts >= MOST_ATTEMPTS) {
        *code = CL_E_BUSY;
        return false;
    }
    return true;
}

int cl_append_expected(cl_writer *writer, const cl_record_input *input, cl_condition *condition,
                       uint64_t *position) {
    uint64_t length = cl_input_length(input), packed = 0;
    int code;
    do { /* MOST_ATTEMPTS rounds at most */
        code = meet(writer, length, condition, &packed);
        if (CL_LIKELY(code == CL_OK)) {
            code = cl_append_at(writer, packed, input, position);
        }
        if (CL_LIKELY(code == CL_OK)) {
            writer->counted.packed = packed + cl_frame_aligned((uint32_t)length);
            writer->counted.sequence = condition->expect + 1;
            cl_assert(writer->counted.packed, <=, cl_load(writer->tail));
            cl_assert(*position, ==, cl_log_position(writer->log, packed));
            return CL_OK;
        }
    } while (tries_again(condition, &code));
    return code;
}

int cl_append_records_expected(cl_writer *writer, const cl_record_input *records,
                               const cl_headers *headers, size_t count, uint64_t length,
                               cl_condition *condition, int64_t *positions) {
    uint64_t packed = 0;
    int code;
    do { /* MOST_ATTEMPTS rounds at most */
        code = meet(writer, length, condition, &packed);
        if (code == CL_OK && condition->place != 0 && packed != condition->place) {
            return CL_E_MOVED;
        }
        if (CL_LIKELY(code == CL_OK)) {
            code = cl_append_records_at(writer, packed, records, headers, count, length, positions);
        }
    } while (tries_again(condition, &code));
    return code;
}

int cl_append_records_at(cl_writer *writer, uint64_t packed, const cl_record_input *records,
                         const cl_headers *headers, size_t count, uint64_t length,
                         int64_t *positions) {
    int64_t now_ns = -1;
    cl_claim claim;
    int code = cl_writer_admit(writer, &now_ns);
    if (CL_UNLIKELY(code != CL_OK)) {
        return code;
    }
    if (CL_UNLIKELY(length > writer->largest)) {
        return CL_E_TOO_LARGE;
    }
    cl_assert(length % CL_FRAME_ALIGN, ==, 0);
    if (CL_UNLIKELY(cl_load(writer->tail) != packed)) {
        return CL_E_MOVED;
    }
    code = cl_claim_at(writer, packed, (uint32_t)length, (uint32_t)length, &claim);
    if (CL_UNLIKELY(code != CL_OK)) {
        return code;
    }
    cl_assert(cl_tail_pack(claim.segment->number, claim.offset), ==, packed);
    return cl_batch_append(writer, &claim, records, headers, count, now_ns, positions);
}
