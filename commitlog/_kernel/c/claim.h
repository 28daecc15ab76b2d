/* The steps of a claim, which append.c, rows.c, roll.c and the claims of users share. */
#ifndef CL_CLAIM_H
#define CL_CLAIM_H

#include "frame_writer.h"
#include "writer.h"

#define CL_AHEAD_OF_NEXT                                                                           \
    128u /* bytes: the second swap from here would otherwise wait for a cache miss */

typedef struct {
    cl_segment *segment;
    uint32_t offset;
    uint32_t length; /* before padding */
} cl_claim;

/* The slot's counter is odd between the two calls: its owner may have moved the tail, and no cell
 * names the owner yet. */
static inline void cl_slot_enter(cl_slot *slot) {
    cl_assert(slot->counter % 2, ==, 0);
    __atomic_store_n(&slot->counter, slot->counter + 1, __ATOMIC_RELEASE);
}
static inline void cl_slot_leave(cl_slot *slot) {
    cl_assert(slot->counter % 2, ==, 1);
    __atomic_store_n(&slot->counter, slot->counter + 1, __ATOMIC_RELEASE);
}

/* Pads from `offset` to the segment's end. A swap that fails means that an observer has marked the
 * range already. */
void cl_pad_to_end(cl_segment *segment, uint32_t offset);

/* A claim is a range of whole cells in a segment that the writer holds. */
static inline void cl_claim_assert(const cl_writer *writer, const cl_claim *claim, uint32_t need) {
    cl_assert(writer->segment, ==, claim->segment);
    cl_assert(cl_load32(&claim->segment->references), >, 0);
    cl_assert(need, >=, CL_FRAME_SMALLEST);
    cl_assert(claim->offset, >=, CL_SEGMENT_HEADER);
    cl_assert(claim->offset % CL_FRAME_ALIGN, ==, 0);
    cl_assert(claim->offset + (uint64_t)need, <=, claim->segment->size);
}

/* What a plain claim does that does not end within the room last seen. */
int cl_plain_pass_room(cl_writer *writer, uint64_t packed, uint32_t need);

/* Requires one lock around every append. The frame is written at the tail and the tail moves last,
 * so that no other thread finds a zero cell below it. */
static inline int cl_plain_claim(cl_writer *writer, uint32_t need, cl_claim *claim) {
    uint64_t packed = cl_load_relaxed(writer->tail);
    uint32_t offset = cl_tail_offset(packed);
    cl_assert(writer->plain, ==, true);
    cl_assert(need % CL_FRAME_ALIGN, ==, 0);
    if (CL_UNLIKELY(!cl_writer_at(writer, cl_tail_number(packed)))) {
        int code = cl_writer_switch(writer, cl_tail_number(packed));
        if (code != CL_OK) {
            return code;
        }
    }
    if (CL_UNLIKELY(offset + need > writer->room)) {
        int code = cl_plain_pass_room(writer, packed, need);
        if (code != CL_OK) {
            return code;
        }
    }
    claim->segment = writer->segment;
    claim->offset = offset;
    cl_claim_assert(writer, claim, need);
    return CL_OK;
}

/* Publishes the frame at `at`, from `packed` to `end`. */
static inline void cl_plain_store(cl_writer *writer, uint8_t *at, uint64_t cell, uint64_t packed,
                                  uint64_t end) {
    cl_assert(cell, !=, 0);
    cl_assert(packed, <, end);
    cl_assert(cl_tail_number(packed), ==, cl_tail_number(end));
    cl_assert(cl_load_relaxed(writer->tail), ==, packed); /* no other append came in between */
    cl_store((uint64_t *)at, cell);
    cl_store(writer->tail, end);
}
static inline void cl_plain_publish(cl_writer *writer, uint32_t offset, uint32_t need,
                                    uint64_t cell) {
    uint64_t packed = cl_tail_pack(writer->segment->number, offset);
    cl_plain_store(writer, writer->segment->bytes + offset, cell, packed, packed + need);
}

/* Step 2 of the protocol: the cell names its owner. Returns false if an observer has marked the
 * range. */
static inline bool cl_claim_swap(uint8_t *at, uint32_t need, uint64_t claimed) {
    uint64_t zero = 0;
    cl_assert(cl_cell_word(claimed) & CL_WORD_CLAIMED, !=, 0);
    cl_assert(cl_cell_high(claimed), !=, 0); /* the owner */
    bool mine = cl_swap((uint64_t *)at, &zero, claimed);
    cl_prefetch_write(at + need + CL_AHEAD_OF_NEXT);
    return mine;
}
/* Steps 1 and 2 at the tail `packed`, where the claim begins. CL_E_MOVED: the tail is elsewhere. */
int cl_claim_at(cl_writer *writer, uint64_t packed, uint32_t need, uint32_t length,
                cl_claim *claim);
/* Steps 1 and 2, once. The slot is odd from before the add until the cell names its owner. */
int cl_claim_try(cl_writer *writer, uint32_t need, uint32_t length, cl_claim *claim);
/* Step 2 after an add on the tail, which was `packed`; then the slot is even. */
int cl_claim_name(cl_writer *writer, uint64_t packed, uint32_t need, uint32_t length,
                  cl_claim *claim);
/* Counts a failed attempt, and returns whether to give up. */
bool cl_claim_gives_up(cl_writer *writer);

/* Claims room for a record with swaps, in either kind of log, and completes its timestamp. Codes as
 * for cl_writer_append_upto. */
int cl_writer_claim(cl_writer *writer, uint32_t largest, cl_record_input *input, cl_claim *claim);
/* Publishes the claim with the given cell. CL_E_ROLLED_BACK: another handle turned the claim into a
 * SKIP, so that no reader saw the record. */
int cl_writer_publish(cl_writer *writer, const cl_claim *claim, uint64_t cell, uint32_t records);
/* As cl_writer_publish, for a value that is already in the claim and may be shorter than it. */
int cl_claim_publish(cl_writer *writer, const cl_claim *claim, const cl_record_input *input);
/* A claim that stays open keeps its segment, and the segment's buffer, in place. The last release
 * wakes the allocation service, which may wait for the buffer. */
void cl_claim_hold(cl_segment *segment);
void cl_claim_release(cl_log *log, cl_segment *segment);
void cl_writer_abandon(cl_writer *writer, const cl_claim *claim);

/* Claims room for one batch of `length` bytes; `length` and each frame's size are multiples of 8.
 * A timestamp below 0 becomes the clock's. The caller writes frames into it with cl_frame_write,
 * and the first frame's cell last, with cl_batch_publish. */
int cl_batch_claim(cl_writer *writer, uint32_t length, int64_t *timestamp_ns, cl_claim *claim);
int cl_batch_publish(cl_writer *writer, const cl_claim *claim, uint64_t first_cell,
                     uint32_t records);

#endif
