/* Assertions on the tail, watermarks, claims and references.
 *
 * They state what the code itself guarantees. The bytes of a file are input: a fault in them
 * returns a result code, and never fails an assertion. Compiled in with CL_ASSERT, as `make test`
 * does; a release build has none. */
#ifndef CL_ASSERTION_H
#define CL_ASSERTION_H

#ifdef CL_ASSERT

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static __attribute__((noreturn, cold, noinline, unused)) void
cl_assertion_failed(const char *file, int line, const char *expression, uint64_t left,
                    uint64_t right) {
    fprintf(stderr, "%s:%d: assertion failed: %s: %llu and %llu\n", file, line, expression,
            (unsigned long long)left, (unsigned long long)right);
    abort();
}

/* Aborts unless `left relation right`, both taken as unsigned 64-bit integers. Evaluates each
 * operand once. */
#define cl_assert(left, relation, right)                                                           \
    do {                                                                                           \
        uint64_t cl_left = (uint64_t)(left), cl_right = (uint64_t)(right);                         \
        if (__builtin_expect(!(cl_left relation cl_right), 0)) {                                   \
            cl_assertion_failed(__FILE__, __LINE__, #left " " #relation " " #right, cl_left,       \
                                cl_right);                                                         \
        }                                                                                          \
    } while (0)

#else

/* Evaluates nothing; the operands count as used. */
#define cl_assert(left, relation, right) ((void)sizeof((left)relation(right)))

#endif
#endif
