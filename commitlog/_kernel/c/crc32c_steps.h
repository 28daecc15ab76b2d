/* The steps of a frame's CRC on processors with a CRC instruction, inlined into their callers. The
 * CRC register has 32 bits; it is carried as 64, so that the chain of steps needs no widening.
 *
 * Call functions that are marked WITH_CRC only if cl_crc32c_steps is set. */
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
#define SHORT_LENGTH (CL_FRAME_HEADER + INTERLEAVED_LEAST - 1)

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

/* Loads the word at `from` exactly once: the compiler must not read it again, because another
 * thread may change the source, and the stored word must be the one that the CRC covers. */
INLINED uint64_t take_u64(const uint8_t *from) {
    uint64_t word = load_u64(from);
    __asm__ volatile("" : "+r"(word));
    return word;
}

INLINED uint32_t take_u32(const uint8_t *from) {
    uint32_t word;
    memcpy(&word, from, sizeof word);
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

/* Feeds the last one to seven bytes, the upper bits of `word`; its lowest `fed` bits are zero. Zero
 * bits do not change a zero register, so the step starts from 0, and the register is XORed into the
 * word instead; its bits that do not fit are XORed into the result. */
WITH_CRC INLINED uint64_t step_last(uint64_t state, uint64_t word, unsigned fed) {
    return step_u64(0, word ^ state << fed) ^ state >> (64 - fed);
}

/* Out of line: few frames need it, and inlined it would take registers from all others. */
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

/* One chain of steps, which also copies the bytes if `copies`, a constant at each call. The bytes
 * after the last whole word take one step without a branch, because record lengths are not
 * predictable: they are read as the upper part of the last eight bytes. */
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

/* One to seven bytes as a word: overlapping parts, without a loop. Each byte that is read twice is
 * the same in both, or the other thread that changes it gets either. */
INLINED uint64_t take_rest(const uint8_t *from, size_t length) {
    if (length >= 4) {
        uint64_t first = take_u32(from), last = take_u32(from + length - 4);
        return first | last << (length - 4) * 8;
    }
    const volatile uint8_t *bytes = from;
    return bytes[0] | (uint64_t)bytes[length / 2] << length / 2 * 8 |
           (uint64_t)bytes[length - 1] << (length - 1) * 8;
}

/* Keeps the compiler from deriving more variables from one that counts a loop: short loops pay more
 * for them than they save. */
#define HIDE(variable) __asm__("" : "+r"(variable))

WITH_CRC INLINED uint64_t copy_word(uint64_t state, uint8_t *to, const uint8_t *from) {
    uint64_t word = take_u64(from);
    memcpy(to, &word, sizeof word);
    return step_u64(state, word);
}

/* Feeds a value and copies it to its place in a frame, padded with zeros to whole words. */
WITH_CRC INLINED uint64_t feed_into_frame(uint64_t state, uint8_t *to, const uint8_t *from,
                                          size_t length) {
    const ptrdiff_t size = (ptrdiff_t)length;
    ptrdiff_t at = 0;
    for (; at <= size - 32; at += 32) {
        state = copy_word(state, to + at, from + at);
        state = copy_word(state, to + at + 8, from + at + 8);
        state = copy_word(state, to + at + 16, from + at + 16);
        state = copy_word(state, to + at + 24, from + at + 24);
        HIDE(at);
    }
    for (; at <= size - 8; at += 8) {
        state = copy_word(state, to + at, from + at);
        HIDE(at);
    }
    if (at == size) {
        return state;
    }
    const unsigned fed = (unsigned)(8 - (size - at)) * 8;
    uint64_t rest = CL_LIKELY(at != 0) ? take_u64(from + size - 8) >> fed : take_rest(from, length);
    memcpy(to + at, &rest, 8);
    return step_last(state, rest << fed, fed);
}

/* Feeds a value in its frame, whose padding may be read, too. */
WITH_CRC INLINED uint64_t feed_from_frame(uint64_t state, const uint8_t *from, size_t length) {
    const ptrdiff_t size = (ptrdiff_t)length;
    ptrdiff_t at = 0;
    for (; at <= size - 32; at += 32) {
        state = step_u64(state, load_u64(from + at));
        state = step_u64(state, load_u64(from + at + 8));
        state = step_u64(state, load_u64(from + at + 16));
        state = step_u64(state, load_u64(from + at + 24));
        HIDE(at);
    }
    for (; at <= size - 8; at += 8) {
        state = step_u64(state, load_u64(from + at));
        HIDE(at);
    }
    if (at == size) {
        return state;
    }
    const unsigned fed = (unsigned)(8 - (size - at)) * 8;
    return step_last(state, load_u64(from + at) << fed, fed);
}

/* Feeds the offset and the word, with which a frame's CRC begins. */
WITH_CRC INLINED uint64_t feed_position(uint32_t seed, uint64_t offset, uint32_t word) {
    return step_u32((uint32_t)step_u64(seed, offset), word);
}

/* The CRC register after the part of a frame without key and type that precedes its value. */
WITH_CRC INLINED uint64_t feed_plain_head(uint32_t seed, uint64_t offset, uint32_t length,
                                          uint64_t timestamp) {
    return step_u64(feed_position(seed, offset, length), timestamp);
}

#endif /* HAS_INSTRUCTIONS */
#endif
