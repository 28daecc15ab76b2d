/* What the C API's handles do in C: append and read without the interpreter's lock. */
#ifndef CL_NATIVE_H
#define CL_NATIVE_H

#include "claim.h"
#include "reader.h"
#include "tailer_page.h"

/* What the functions below and `attend` return, besides CL_OK. */
enum { CL_NATIVE_END = 1, CL_NATIVE_DROPPED = 2, CL_NATIVE_ERROR = -1 };

/* An appender of the C API. One native thread appends with the writer of a handle. The writer's own
 * `largest` is 0 meanwhile, so that appends from Python are refused. A Python thread changes the
 * writer only between cl_native_pause and cl_native_resume. */
typedef struct cl_native_writer {
    cl_writer *writer;
    uint32_t largest; /* of a frame, padding included */
    uint32_t busy;    /* 1 while the native thread is in the writer */
    uint32_t paused;  /* 1 while a Python thread needs the writer idle */
    uint32_t forks;   /* the fork count of the process that opened it */
    bool fenced;      /* Linux has no membarrier: each append has a fence */
    /* Takes the interpreter's lock and handles a refused append or, with CL_OK, the work that
     * remains after an append. CL_OK: try again. Other values are returned to the caller. */
    int (*attend)(void *owner, int code, const cl_record_input *input);
    void *owner;
} cl_native_writer;

typedef struct {
    void *value;
    uint32_t size;
    uint64_t position;
    cl_record_input input;
    cl_claim claim;
} cl_native_claim;

/* Requires the interpreter's lock, as pause and resume do. */
void cl_native_init(cl_native_writer *native, cl_writer *writer);
void cl_native_pause(cl_native_writer *native);
void cl_native_resume(cl_native_writer *native);

int cl_native_append(cl_native_writer *native, const cl_record_input *input, uint64_t *position);
int cl_native_reserve(cl_native_writer *native, const cl_record_input *input,
                      cl_native_claim *claim);
int cl_native_publish(cl_native_writer *native, cl_native_claim *claim, uint32_t size);
void cl_native_abandon(cl_native_writer *native, cl_native_claim *claim);

/* A reader of the C API; it reads through a tailer's cursor. */
typedef struct {
    cl_reader *reader;
    cl_tailer_mark *mark; /* NULL: the tailer has no name */
    uint32_t forks;
    bool asks; /* a wait first calls `attend` with CL_E_END */
    /* Takes the interpreter's lock, and reads the next record or, with CL_E_END, prepares a wait.
     */
    int (*attend)(void *owner, int code, cl_record *record);
    void *owner;
} cl_native_reader;

void cl_native_reader_init(cl_native_reader *native, cl_reader *reader, cl_tailer_mark *mark);
int cl_native_next(cl_native_reader *native, cl_record *record);
int cl_native_wait(cl_native_reader *native, int64_t timeout_ns);

#endif
