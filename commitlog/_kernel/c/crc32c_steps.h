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
WITH_CRC INLINED uint64_t step_u32(uint64_t state, uint32_t word) {
    __asm__("crc32l %1, %k0" : "+r"(state) : "rm"(word)); /* leaves the upper half zero */
    return state;
}
#elif defined(__aarch64__)
#define HAS_INSTRUCTIONS 1
#define WITH_CRC __attribute__((target("+crc")))
WITH_CRC INLINED uint64_t step_u64(uint64_t state, uint64_t word) {
    return __crc32cd((uint32_t)state, word);
}
WITH_CRC INLINED uint64_t step_u32(uint64_t state, uint32_t word) {
    return __crc32cw((uint32_t)state, word);
}
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

WITH_CRC INLINED uint64_t feed_word(uint64_t state, uint8_t *to, const uint8_t *from,
                                    const bool copies) {
    uint64_t word = copies ? take_u64(from) : load_u64(from);
    if (copies) {
        memcpy(to, &word, sizeof word);
    }
    return step_u64(state, word);
}

/* Feeds the whole words of a short value of `length` bytes, which end at `from`, and, if `copies`,
 * copies them to where they end at `to`. One jump leads to as many steps as there are words: a loop
 * would take as long as the steps. */
WITH_CRC INLINED uint64_t feed_words(uint64_t state, uint8_t *to, const uint8_t *from,
                                     uint32_t length, const bool copies) {
#define WORD(n)                                                                                    \
    case n:                                                                                        \
        state = feed_word(state, copies ? to - (n) * 8 : NULL, from - (n) * 8, copies);            \
        __attribute__((fallthrough));
#define FOUR_WORDS(n) WORD(n) WORD((n) - 1) WORD((n) - 2) WORD((n) - 3)
    _Static_assert(INTERLEAVED_LEAST == 32 * 8, "a short value has at most 31 whole words");
    switch ((uint8_t)length / 8) { /* 0 to 31 by its type: the jump needs no check */
        WORD(31)
        WORD(30)
        WORD(29)
        FOUR_WORDS(28)
        FOUR_WORDS(24)
        FOUR_WORDS(20)
        FOUR_WORDS(16)
        FOUR_WORDS(12)
        FOUR_WORDS(8)
        FOUR_WORDS(4)
    default:
        return state;
    }
#undef FOUR_WORDS
#undef WORD
}

/* Feeds a short value and copies it to its place in a frame, padded with zeros to whole words. */
WITH_CRC INLINED uint64_t feed_into_frame(uint64_t state, uint8_t *to, const uint8_t *from,
                                          uint32_t length) {
    const uint32_t whole = length & ~7u;
    state = feed_words(state, to + whole, from + whole, length, true);
    if (whole == length) {
        return state;
    }
    const unsigned fed = (8 - length % 8) * 8;
    uint64_t rest =
        CL_LIKELY(whole != 0) ? take_u64(from + length - 8) >> fed : take_rest(from, length);
    memcpy(to + whole, &rest, 8);
    return step_last(state, rest << fed, fed);
}

/* Feeds the lowest bytes of `rest`, which follow the whole words of a value of `length` bytes. */
WITH_CRC INLINED uint64_t feed_rest(uint64_t state, uint64_t rest, uint32_t length) {
    const unsigned fed = (8 - length % 8) * 8;
    return step_last(state, rest << fed, fed);
}

/* Feeds what follows the whole words of a short value in its frame and, if `copies`, copies it,
 * both with up to seven bytes of the padding behind it. */
WITH_CRC INLINED uint64_t feed_end_from_frame(uint64_t state, uint8_t *to, const uint8_t *from,
                                              uint32_t length, const bool copies) {
    const uint32_t whole = length & ~7u;
    if (whole == length) {
        return state;
    }
    uint64_t rest = copies ? take_u64(from + whole) : load_u64(from + whole);
    if (copies) {
        memcpy(to + whole, &rest, 8);
    }
    return feed_rest(state, rest, length);
}

/* Feeds a short value in its frame and, if `copies`, copies it with its padding. */
WITH_CRC INLINED uint64_t feed_from_frame(uint64_t state, uint8_t *to, const uint8_t *from,
                                          uint32_t length, const bool copies) {
    const uint32_t whole = length & ~7u;
    state = feed_words(state, copies ? to + whole : NULL, from + whole, length, copies);
    return feed_end_from_frame(state, to, from, length, copies);
}

/* As feed_from_frame, in a loop: the jump is mispredicted where lengths vary. */
WITH_CRC INLINED uint64_t feed_varied_from_frame(uint64_t state, uint8_t *to, const uint8_t *from,
                                                 uint32_t length, const bool copies) {
    const uint32_t whole = length & ~7u;
    for (uint32_t at = 0; at < whole; at += 8) {
        state = feed_word(state, copies ? to + at : NULL, from + at, copies);
    }
    return feed_end_from_frame(state, to, from, length, copies);
}

/* Feeds the offset and the word, with which a frame's CRC begins. */
WITH_CRC INLINED uint64_t feed_position(uint32_t seed, uint64_t offset, uint32_t word) {
    return step_u32(step_u64(seed, offset), word);
}

/* The CRC register after the part of a frame without key and type that precedes its value. */
WITH_CRC INLINED uint64_t feed_plain_head(uint32_t seed, uint64_t offset, uint32_t length,
                                          uint64_t timestamp) {
    return step_u64(feed_position(seed, offset, length), timestamp);
}

/* Writes all of a short frame without key and type but its cell, at `at`, and returns the cell. */
WITH_CRC INLINED uint64_t write_plain_frame(uint32_t seed, uint64_t offset, uint8_t *at,
                                            const uint8_t *from, uint32_t length,
                                            int64_t timestamp_ns) {
    uint64_t state = feed_plain_head(seed, offset, length, (uint64_t)timestamp_ns);
    memcpy(at + CL_FRAME_TIMESTAMP, &timestamp_ns, sizeof timestamp_ns);
    state = feed_into_frame(state, at + CL_FRAME_HEADER, from, length - CL_FRAME_HEADER);
    return cl_cell(length, (uint32_t)~state);
}

#endif /* HAS_INSTRUCTIONS */
#endif
