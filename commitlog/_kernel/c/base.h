/* Result codes, small types and branch hints shared by every part of the kernel. */
#ifndef CL_BASE_H
#define CL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "assertion.h"

#define CL_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define CL_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#define CL_PAGE_SMALLEST 4096u /* bytes: no system that commitlog runs on has smaller pages */

/* Bytes. A reader passes frames faster than the hardware prefetches them, and each cell says where
 * the next one is: fetching this far ahead overlaps the cache misses. A prefetch past the end has
 * no effect. */
#define CL_AHEAD 1024u

/* Functions return 0 or one of these. If a system call is the cause, errno is kept for the
 * caller. */
enum cl_code {
    CL_OK = 0,
    CL_E_SYSTEM = -1,      /* a system call failed: see errno */
    CL_E_TOO_LARGE = -2,   /* the frame is larger than the log's largest frame */
    CL_E_ROLL = -3,        /* the tail is at or past the segment's end: the caller must roll */
    CL_E_ABSENT = -4,      /* there is no such segment file */
    CL_E_TRUNCATED = -5,   /* the segment file is shorter than its header or its log requires */
    CL_E_HEADER = -6,      /* the first page is not a segment header, or its CRC does not match */
    CL_E_FOREIGN = -7,     /* the segment has another log's uuid, another base or another size */
    CL_E_VERSION = -8,     /* written by a newer format */
    CL_E_END = -9,         /* nothing (more) to read here at present */
    CL_E_BUSY = -10,       /* a live writer's claim is here: wait */
    CL_E_DAMAGE = -11,     /* an impossible frame, or one whose CRC does not match */
    CL_E_ROLLED_BACK = -12, /* the claim was turned into a SKIP before it was published */
    CL_E_FAILED = -13,     /* the log has failed: nothing more is acknowledged */
    CL_E_TIMEOUT = -14,    /* the time limit passed */
    CL_E_CLOSED = -15,     /* the handle is closed */
    CL_E_INTERRUPTED = -16, /* a signal is pending for the interpreter */
    CL_E_MEMORY = -17,     /* malloc failed */
    CL_E_SLOTS = -18,      /* every writer slot is taken */
    CL_E_OPEN_CLAIM = -19, /* an open claim of this handle blocks the operation */
    CL_E_FULL = -20,       /* the caller's output arrays are full */
    CL_E_READ_ONLY = -21,  /* opened with mode "r" */
    CL_E_FORKED = -22,     /* a pooled log in the child of a fork */
    CL_E_CYCLE = -23, /* the clock has passed the end of the cycle: the caller closes its segment
                         and calls again */
    CL_E_LAG = -24, /* a required tailer may lag too far: the caller checks, and may wait */
    CL_E_IRREGULAR =
        -25, /* a directory, a link, a FIFO or the like has the name of a segment file */
    CL_E_GROW = -26, /* the segment needs more blocks: the caller allocates them and calls again */
    CL_E_MOVED = -27, /* the tail is not where the append was to begin */
    CL_E_CONFLICT = -28, /* the log does not end at the sequence that the append expects */
    CL_E_UNCOUNTED = -29, /* the caller counts the log's records, and calls again */
    CL_E_UNRESOLVED = -30 /* a claim below the tail is open: the caller waits, and calls again */
};

#endif
