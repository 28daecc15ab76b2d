/* What writer.c, rows.c and roll.c share: the steps of a claim. */
#ifndef CL_CLAIM_H
#define CL_CLAIM_H

#include "writer.h"

#define CL_NO_SEGMENT UINT64_MAX

/* The code with which appends are refused, or CL_OK. */
static inline int cl_writer_refusal(const cl_writer *writer) {
    if (CL_UNLIKELY(writer->log->refusal != 0)) {
        return -(int)writer->log->refusal;
    }
    return CL_UNLIKELY(cl_log_failed(writer->log)) ? CL_E_FAILED : CL_OK;
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

/* A claim is a range of whole cells in a segment that the writer holds. */
static inline void cl_claim_assert(const cl_writer *writer, const cl_claim *claim, uint32_t need) {
    cl_assert(writer->segment, ==, claim->segment);
    cl_assert(cl_load32(&claim->segment->references), >, 0);
    cl_assert(claim->offset, >=, CL_SEGMENT_HEADER);
    cl_assert(claim->offset % CL_FRAME_ALIGN, ==, 0);
    cl_assert(claim->offset + (uint64_t)need, <=, claim->segment->size);
}

#endif
