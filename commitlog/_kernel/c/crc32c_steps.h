/* The steps of a frame's CRC where the processor has an instruction for them, to be inlined into
 * functions that make many of them. The register is 32 bits wide; it is carried as 64 so that no
 * instruction in the chain of steps only widens it.
 *
 * A file that includes this may run what is marked WITH_CRC only where cl_crc32c_steps is set. */
#ifndef CL_CRC32C_STEPS_H
#define CL_CRC32C_STEPS_H

#include <string.h>

#include "frame.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#endif

#define INLINED static inline __attribute__((always_inline))
#define INTERLEAVED_LEAST 256u /* bytes; below, one chain of steps is fastest */

INLINED uint64_t load_u64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

#if defined(__x86_64__)
#define HAS_INSTRUCTIONS 1
#ifdef __clang__
#define X86_CRC "sse4.2,crc32" /* clang keeps these instructions apart from SSE 4.2 */
#else
#define X86_CRC "sse4.2"
#endif
#define WITH_CRC __attribute__((target(X86_CRC)))
WITH_CRC INLINED uint64_t step_u64(uint64_t state, uint64_t word) {
    return _mm_crc32_u64(state, word);
}
WITH_CRC INLINED uint32_t step_u32(uint32_t state, uint32_t word) {
    return _mm_crc32_u32(state, word);
}
#elif defined(__aarch64__)
#define HAS_INSTRUCTIONS 1
#define WITH_CRC __attribute__((target("+crc")))
WITH_CRC INLINED uint64_t step_u64(uint64_t state, uint64_t word) {
    return __crc32cd((uint32_t)state, word);
}
WITH_CRC INLINED uint32_t step_u32(uint32_t state, uint32_t word) { return __crc32cw(state, word); }
#endif

#ifdef HAS_INSTRUCTIONS

/* Loads the word at `from`, opaque to the compiler. It must be read only once, because the word
 * stored must be the word fed even while another thread changes the source. */
INLINED uint64_t take_u64(const uint8_t *from) {
    uint64_t word = load_u64(from);
    __asm__ volatile("" : "+r"(word));
    return word;
}

/* One to seven bytes as a word. */
INLINED uint64_t take_few(const uint8_t *from, size_t length) {
    uint64_t word = 0;
    for (size_t at = 0; at < length; at++) {
        word |= (uint64_t)((const volatile uint8_t *)from)[at] << at * 8;
    }
    return word;
}

/* Feeds the last one to seven bytes, which stand in `word` above its lowest `fed` bits; those bits
 * are zero. Zeroes leave a zero register as it is, so the register goes in with the first byte of
 * the bytes instead; what of it has no room there goes to the result. */
WITH_CRC INLINED uint64_t step_last(uint64_t state, uint64_t word, unsigned fed) {
    return step_u64(0, word ^ state << fed) ^ state >> (64 - fed);
}

/* Out of line, like everything else that few frames need: the registers that it takes cost the
 * others nothing. */
WITH_CRC static __attribute__((noinline)) uint64_t feed_few(uint64_t state, uint8_t *to,
                                                            const uint8_t *from, size_t length) {
    if (length == 0) {
        return state;
    }
    uint64_t word = take_few(from, length);
    if (to != NULL) {
        memcpy(to, &word, length);
    }
    return step_last(state, word << (64 - length * 8), (unsigned)(64 - length * 8));
}

/* One chain, which copies what it feeds where `copies` (a constant at each call). What is left
 * after the whole words takes one step whatever its length and has no branch, because the lengths
 * of real records are not to be predicted: it is read as the upper part of the last eight bytes. */
WITH_CRC INLINED uint64_t feed_chain(uint64_t state, uint8_t *to, const uint8_t *from,
                                     size_t length, const bool copies) {
    if (CL_UNLIKELY(length < 8)) {
        return feed_few(state, copies ? to : NULL, from, length);
    }
    uint64_t word = 0;
    size_t at = 0;
    for (; at <= length - 8; at += 8) {
        word = take_u64(from + at);
        if (copies) {
            memcpy(to + at, &word, 8);
        }
        state = step_u64(state, word);
    }
    if (at == length) {
        return state;
    }
    unsigned fed = (unsigned)(at - (length - 8)) *
                   8; /* bits of the last eight bytes that are fed already: 8 to 56 */
    uint64_t last = take_u64(from + length - 8) >> fed << fed;
    if (copies) {
        uint64_t joined = last | word >> (64 - fed);
        memcpy(to + length - 8, &joined, 8);
    }
    return step_last(state, last, fed);
}

/* What a frame's CRC covers first. */
WITH_CRC INLINED uint64_t feed_position(uint32_t seed, uint64_t offset, uint32_t word) {
    return step_u32((uint32_t)step_u64(seed, offset), word);
}

#endif /* HAS_INSTRUCTIONS */
#endif
