/* What writer.c, claim.c, append.c, rows.c and roll.c share: the steps of a claim. */
#ifndef CL_CLAIM_H
#define CL_CLAIM_H

#include "writer.h"

#define CL_NO_SEGMENT UINT64_MAX
#define CL_AHEAD_OF_NEXT                                                                           \
    128u /* bytes: the second swap from here would otherwise wait for a cache miss */

/* The code with which appends are refused, or CL_OK. */
static inline int cl_writer_refusal(const cl_writer *writer) {
    const cl_log *log = writer->log;
    return CL_LIKELY(log->refusal == 0 && !cl_log_failed(log)) ? CL_OK : cl_log_refusal(log);
}

/* As cl_writer_refusal, and replaces a timestamp below 0 by the clock's. CL_E_CYCLE: the clock, and
 * not a timestamp that the caller gave, says that the cycle may have ended. */
static inline int cl_writer_admit(const cl_writer *writer, int64_t *timestamp_ns) {
    int code = cl_writer_refusal(writer);
    if (CL_UNLIKELY(code != CL_OK)) {
        return code;
    }
    if (*timestamp_ns >= 0 && writer->cycle_end_ns == INT64_MAX) {
        return CL_OK;
    }
    int64_t now_ns = cl_clock_ns(writer->clock);
    *timestamp_ns = *timestamp_ns < 0 ? now_ns : *timestamp_ns;
    return CL_UNLIKELY(now_ns >= writer->cycle_end_ns) ? CL_E_CYCLE : CL_OK;
}

/* Whether the writer holds segment `number`; if not, `cl_writer_switch` replaces its segment. */
static inline bool cl_writer_at(const cl_writer *writer, uint64_t number) {
    return writer->segment != NULL && writer->segment->number == number;
}
int cl_writer_switch(cl_writer *writer, uint64_t number);

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

/* Determines how far claims may reach in segment `number`. A segment never loses blocks, and the
 * other segments have all of theirs: once claims may reach the end, the writer adds without
 * checking again. */
void cl_writer_measure(cl_writer *writer, uint64_t number);
/* Sets `fast_below` and `fast_length`; 0: no append is fast. */
void cl_writer_set_fast(cl_writer *writer, uint64_t below);
/* Sets them after a change of what they depend on. */
void cl_writer_plan(cl_writer *writer);

/* Called every wake_bytes, and at the limit: wakes the commit loop of a pooled log and its
 * allocation service, and refuses the next append if it must wait for a required tailer. The record
 * just published stays. */
void cl_writer_see_to(cl_writer *writer, uint64_t packed);

static inline void cl_writer_count(cl_writer *writer, uint32_t records, uint32_t bytes) {
    writer->counters.appends++;
    writer->counters.records += records;
    writer->counters.bytes += bytes;
}

/* Called after a publish. On a mapped log each publish wakes sleeping readers. */
static inline void cl_writer_tell(cl_writer *writer, uint64_t packed, uint32_t records,
                                  uint32_t bytes) {
    cl_writer_count(writer, records, bytes);
    if (CL_UNLIKELY(packed >= writer->wake_tail)) {
        cl_writer_see_to(writer, packed);
    }
    if (!writer->log->pooled) {
        cl_log_wake_readers(writer->log);
    }
}

/* A claim is a range of whole cells in a segment that the writer holds. */
static inline void cl_claim_assert(const cl_writer *writer, const cl_claim *claim, uint32_t need) {
    cl_assert(writer->segment, ==, claim->segment);
    cl_assert(cl_load32(&claim->segment->references), >, 0);
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
    bool mine = cl_swap((uint64_t *)at, &zero, claimed);
    cl_prefetch_write(at + need + CL_AHEAD_OF_NEXT);
    return mine;
}
/* Steps 1 and 2 at the tail `packed`, where the claim begins. CL_E_MOVED: the tail is elsewhere. */
int cl_claim_at(cl_writer *writer, uint64_t packed, uint32_t need, uint32_t length,
                cl_claim *claim);
/* Appends one record at the tail `packed`. A timestamp below 0 is the clock's. CL_E_MOVED: the tail
 * is elsewhere. CL_E_ROLLED_BACK: another handle turned the claim into a SKIP. */
int cl_append_at(cl_writer *writer, uint64_t packed, const cl_record_input *input,
                 uint64_t *position);
/* Steps 1 and 2, once. The slot is odd from before the add until the cell names its owner. */
int cl_claim_try(cl_writer *writer, uint32_t need, uint32_t length, cl_claim *claim);
/* Step 2 after an add on the tail, which was `packed`; then the slot is even. */
int cl_claim_name(cl_writer *writer, uint64_t packed, uint32_t need, uint32_t length,
                  cl_claim *claim);
/* Counts a failed attempt, and returns whether to give up. */
bool cl_claim_gives_up(cl_writer *writer);

#endif
