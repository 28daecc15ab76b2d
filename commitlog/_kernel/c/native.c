#define _GNU_SOURCE
#include "native.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "append.h"
#include "futex.h"

#define SLICE_NS 50000000ll      /* how late a wait sees that the log was closed */
#define ABSENT_NAP_NS 1000000ll  /* no writer announces the file of the next segment: poll */

static int membarrier(int command) { return (int)syscall(SYS_membarrier, command, 0, 0); }

void cl_native_init(cl_native_writer *native, cl_writer *writer) {
    *native =
        (cl_native_writer){.writer = writer, .largest = writer->largest, .forks = cl_tailer_forks};
    native->fenced = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0;
}

/* The native thread stores `busy`, then loads `paused`; a pausing thread stores `paused`, then
 * loads `busy`. One of them must see the other. Only the pausing thread, which is rare, pays for
 * the order of both: membarrier has every running thread of the process pass a fence. */
static inline bool try_enter(cl_native_writer *native) {
    cl_assert(cl_load32(&native->busy), ==, 0);
    __atomic_store_n(&native->busy, 1, __ATOMIC_RELAXED);
    if (CL_UNLIKELY(native->fenced)) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return CL_LIKELY(cl_load32(&native->paused) == 0);
}

static __attribute__((noinline)) void outwait_pause(cl_native_writer *native) {
    do { /* a pause lasts for one short call into the kernel */
        cl_store32(&native->busy, 0);
        while (cl_load32(&native->paused) != 0) {
            sched_yield();
        }
    } while (!try_enter(native));
}

static inline int enter(cl_native_writer *native) {
    if (CL_UNLIKELY(native->forks != cl_tailer_forks)) {
        return CL_E_FORKED;
    }
    if (CL_UNLIKELY(!try_enter(native))) {
        outwait_pause(native);
    }
    return CL_OK;
}

static void leave(cl_native_writer *native) {
    cl_assert(cl_load32(&native->busy), ==, 1);
    cl_store32(&native->busy, 0);
}

void cl_native_pause(cl_native_writer *native) {
    cl_assert(cl_load32(&native->paused), ==, 0);
    __atomic_store_n(&native->paused, 1, __ATOMIC_SEQ_CST);
    if (!native->fenced) {
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    while (cl_load32(&native->busy) != 0) { /* the native thread is inside one append */
        sched_yield();
    }
}

void cl_native_resume(cl_native_writer *native) {
    cl_assert(cl_load32(&native->paused), ==, 1);
    cl_store32(&native->paused, 0);
}

/* Whether one attempt appended and left nothing to do. If not, `attend` takes its code. */
static inline bool append_once(cl_native_writer *native, const cl_record_input *input,
                               uint64_t *position, int *code) {
    *code = enter(native);
    if (CL_UNLIKELY(*code != CL_OK)) {
        return false;
    }
    *code = cl_writer_append_upto(native->writer, native->largest, input, position);
    bool owes = native->writer->roll_due;
    leave(native);
    return CL_LIKELY(*code == CL_OK && !owes);
}

static __attribute__((noinline)) int attend_append(cl_native_writer *native, int code,
                                                   const cl_record_input *input,
                                                   uint64_t *position) {
    for (;;) { /* `attend` ends it, or removes what refused the append */
        int next = native->attend(native->owner, code, input);
        if (code == CL_OK || next != CL_OK || append_once(native, input, position, &code)) {
            return next;
        }
    }
}

int cl_native_append(cl_native_writer *native, const cl_record_input *input, uint64_t *position) {
    int code;
    return CL_LIKELY(append_once(native, input, position, &code))
               ? CL_OK
               : attend_append(native, code, input, position);
}

int cl_native_reserve(cl_native_writer *native, const cl_record_input *input,
                      cl_native_claim *claim) {
    for (;;) { /* as in cl_native_append */
        bool owes = false;
        claim->input = *input;
        int code = enter(native);
        if (code == CL_OK) {
            code = cl_writer_claim(native->writer, native->largest, &claim->input, &claim->claim);
            if (code == CL_OK) {
                cl_claim_hold(claim->claim.segment);
            }
            owes = native->writer->roll_due;
            leave(native);
        }
        if (code == CL_OK) {
            cl_assert(claim->claim.length, >=, input->value_length);
            uint32_t head = claim->claim.length - input->value_length;
            claim->value = claim->claim.segment->bytes + claim->claim.offset + head;
            claim->size = input->value_length;
            claim->position = claim->claim.segment->base + claim->claim.offset;
        }
        int next = code == CL_OK && !owes ? 0 : native->attend(native->owner, code, input);
        if (code == CL_OK || next != CL_OK) {
            return next;
        }
    }
}

int cl_native_publish(cl_native_writer *native, cl_native_claim *claim, uint32_t size) {
    int code = enter(native);
    if (code == CL_OK) {
        if (claim->claim.segment == NULL || size > claim->size) {
            leave(native);
            return native->attend(native->owner, CL_E_OPEN_CLAIM, &claim->input);
        }
        claim->input.value_length = size;
        code = cl_claim_publish(native->writer, &claim->claim, &claim->input);
        cl_claim_release(native->writer->log, claim->claim.segment);
        claim->claim.segment = NULL;
        leave(native);
    }
    return code == CL_OK ? CL_OK : native->attend(native->owner, code, &claim->input);
}

void cl_native_abandon(cl_native_writer *native, cl_native_claim *claim) {
    if (claim->claim.segment != NULL && enter(native) == CL_OK) {
        cl_writer_abandon(native->writer, &claim->claim);
        cl_claim_release(native->writer->log, claim->claim.segment);
        claim->claim.segment = NULL;
        leave(native);
    }
}

void cl_native_reader_init(cl_native_reader *native, cl_reader *reader, cl_tailer_mark *mark) {
    *native = (cl_native_reader){.reader = reader, .mark = mark, .forks = cl_tailer_forks};
}

/* Saves a named tailer's position: the record that was handed out last is now done with. False: the
 * interpreter saves it. */
static __attribute__((noinline)) bool save(const cl_reader *reader, cl_tailer_mark *mark) {
    if (reader->segment == NULL) {
        return false;
    }
    uint64_t position = reader->segment->base + reader->offset;
    if (position == mark->saved) {
        return true;
    }
    if (mark->with_care) {
        return false;
    }
    if (mark->count % CL_TAILER_CLOCK_EVERY == 0) {
        mark->now_ns = cl_clock_coarse_ns();
    }
    cl_tailer_save(mark, position);
    return true;
}

int cl_native_next(cl_native_reader *native, cl_record *record) {
    cl_reader *reader = native->reader;
    if (CL_UNLIKELY(native->forks != cl_tailer_forks)) {
        return native->attend(native->owner, CL_E_FORKED, record);
    }
    if (CL_LIKELY(cl_load32(&reader->log->refusal) != (uint32_t)-CL_E_CLOSED) &&
        (CL_LIKELY(native->mark == NULL) || save(reader, native->mark))) {
        if (CL_LIKELY(cl_reader_next_short(reader, record))) {
            return CL_OK;
        }
        int code = reader->segment == NULL ? CL_E_ROLL : cl_reader_next(reader, record);
        if (code == CL_OK) {
            return CL_OK;
        }
        if ((code == CL_E_END || code == CL_E_BUSY) && !cl_log_cut(reader->log)) {
            return CL_NATIVE_END;
        }
    }
    return native->attend(native->owner, CL_E_ROLL, record);
}

int cl_native_wait(cl_native_reader *native, int64_t timeout_ns) {
    cl_reader *reader = native->reader;
    int64_t deadline_ns = cl_clock_monotonic_ns() + timeout_ns;
    for (;;) {
        bool asks = native->asks || cl_log_cut(reader->log);
        int code = asks ? native->attend(native->owner, CL_E_END, NULL) : CL_OK;
        int64_t left_ns = deadline_ns - cl_clock_monotonic_ns();
        if (code != CL_OK || left_ns <= 0) {
            return code != CL_OK ? code : CL_NATIVE_END;
        }
        if (native->forks != cl_tailer_forks ||
            cl_load32(&reader->log->refusal) == (uint32_t)-CL_E_CLOSED) {
            return CL_OK; /* the next read reports it */
        }
        if (reader->segment == NULL || reader->offset >= reader->segment->size) {
            cl_sleep_ns(left_ns < ABSENT_NAP_NS ? left_ns : ABSENT_NAP_NS);
            return CL_OK;
        }
        if (cl_reader_wait(reader, CL_IDLE_BACKOFF, left_ns < SLICE_NS ? left_ns : SLICE_NS)) {
            return CL_OK;
        }
    }
}
