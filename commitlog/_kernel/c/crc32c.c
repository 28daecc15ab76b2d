#include "crc32c.h"

#include <string.h>

#include "crc32c_steps.h"

#if defined(__x86_64__)
#include <wmmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

#define POLYNOMIAL 0x82F63B78u /* reflected */

typedef struct {
    const char *name;
    uint32_t (*feed)(uint32_t state, const uint8_t *data,
                     size_t length); /* feeds bytes to the bare register */
    uint32_t (*frame)(uint32_t seed, uint64_t offset, uint32_t word, const void *rest,
                      size_t length);
    uint32_t (*frame_copy)(uint32_t seed, uint64_t offset, uint32_t word, const void *frame,
                           size_t head, void *to, const void *from);
} implementation;

/* Portable: eight bytes a step through eight tables. slices[n][b] is the register after byte b and
 * n zero bytes. */

static uint32_t slices[8][256];

static void fill_slices(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++) {
            state = state >> 1 ^ (state & 1 ? POLYNOMIAL : 0);
        }
        slices[0][byte] = state;
    }
    for (int slice = 1; slice < 8; slice++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = slices[slice - 1][byte];
            slices[slice][byte] = before >> 8 ^ slices[0][before & 0xFF];
        }
    }
}

INLINED uint32_t step_portable(uint32_t state, uint64_t word) {
    word ^= state;
    return slices[7][word & 0xFF] ^ slices[6][word >> 8 & 0xFF] ^ slices[5][word >> 16 & 0xFF] ^
           slices[4][word >> 24 & 0xFF] ^ slices[3][word >> 32 & 0xFF] ^
           slices[2][word >> 40 & 0xFF] ^ slices[1][word >> 48 & 0xFF] ^ slices[0][word >> 56];
}

static uint32_t feed_portable(uint32_t state, const uint8_t *data, size_t length) {
    for (; length >= 8; data += 8, length -= 8) {
        state = step_portable(state, load_u64(data));
    }
    for (; length > 0; data++, length--) {
        state = state >> 8 ^ slices[0][(state ^ *data) & 0xFF];
    }
    return state;
}

static uint32_t frame_portable(uint32_t seed, uint64_t offset, uint32_t word, const void *rest,
                               size_t length) {
    uint32_t state =
        feed_portable(step_portable(seed, offset), (const uint8_t *)&word, sizeof word);
    return ~feed_portable(state, rest, length);
}

static uint32_t frame_copy_portable(uint32_t seed, uint64_t offset, uint32_t word,
                                    const void *frame, size_t head, void *to, const void *from) {
    size_t length = (word & CL_WORD_LENGTH) - head;
    if (length > 0) {
        memcpy(to, from, length);
    }
    uint32_t state =
        feed_portable(step_portable(seed, offset), (const uint8_t *)&word, sizeof word);
    state = feed_portable(state, (const uint8_t *)frame + CL_FRAME_TIMESTAMP,
                          head - CL_FRAME_TIMESTAMP);
    return ~feed_portable(state, to, length);
}

/* With CRC instructions. What differs between the processors is in crc32c_steps.h and in these; the
 * rest is common. */

#if defined(__x86_64__)
#define WITH_MULTIPLY __attribute__((target(X86_CRC ",pclmul")))
#define NAME_CRC "sse42"
#define NAME_MULTIPLY "sse42-pclmul"

WITH_MULTIPLY INLINED uint64_t multiply(uint32_t left, uint32_t right) {
    __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)left), _mm_cvtsi32_si128((int)right), 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

static bool has_crc(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}

static bool has_multiply(void) { return has_crc() && __builtin_cpu_supports("pclmul"); }

#elif defined(__aarch64__)
#define WITH_MULTIPLY __attribute__((target("+crc+crypto")))
#define NAME_CRC "armv8"
#define NAME_MULTIPLY "armv8-pmull"
#define CAPABILITY_PMULL (1ul << 4) /* bits of AT_HWCAP, as the Linux ABI has them */
#define CAPABILITY_CRC32 (1ul << 7)

WITH_MULTIPLY INLINED uint64_t multiply(uint32_t left, uint32_t right) {
    return vgetq_lane_u64(vreinterpretq_u64_p128(vmull_p64((poly64_t)left, (poly64_t)right)), 0);
}

static bool has_crc(void) { return (getauxval(AT_HWCAP) & CAPABILITY_CRC32) != 0; }
static bool has_multiply(void) {
    return has_crc() && (getauxval(AT_HWCAP) & CAPABILITY_PMULL) != 0;
}
#endif

#ifdef HAS_INSTRUCTIONS

/* Three chains side by side: each instruction waits three cycles for its register, but one can
 * start in every cycle. A register is carried over n words by multiplying it with x^(64n - 33); the
 * step that then reduces the product adds the missing 33. */

#define LANE_WORDS 128u /* the most that one lane takes at a time */

static uint32_t powers[2 * LANE_WORDS + 1]; /* x^(64n - 33), reflected, for n from 1 */

WITH_CRC static void fill_powers(void) {
    powers[1] = 1; /* x^31 */
    for (unsigned words = 2; words <= 2 * LANE_WORDS; words++) {
        powers[words] = (uint32_t)step_u64(0, powers[words - 1]);
    }
}

WITH_MULTIPLY INLINED uint64_t feed_lanes(uint64_t state, const uint8_t *data, size_t words) {
    const size_t second = words * 8, third = words * 16;
    uint64_t state_second = 0, state_third = 0;
    for (size_t at = 0; at < second; at += 8) {
        state = step_u64(state, load_u64(data + at));
        state_second = step_u64(state_second, load_u64(data + second + at));
        state_third = step_u64(state_third, load_u64(data + third + at));
    }
    return state_third ^ step_u64(0, multiply((uint32_t)state, powers[2 * words]) ^
                                         multiply((uint32_t)state_second, powers[words]));
}

WITH_MULTIPLY static __attribute__((noinline)) uint64_t feed_long(uint64_t state,
                                                                  const uint8_t *data,
                                                                  size_t length) {
    while (length >= INTERLEAVED_LEAST) {
        size_t words = length / 24 < LANE_WORDS ? length / 24 : LANE_WORDS;
        state = feed_lanes(state, data, words);
        data += words * 24;
        length -= words * 24;
    }
    return feed_chain(state, NULL, data, length, false);
}

WITH_CRC static uint32_t feed_crc(uint32_t state, const uint8_t *data, size_t length) {
    return (uint32_t)feed_chain(state, NULL, data, length, false);
}

WITH_MULTIPLY static uint32_t feed_multiply(uint32_t state, const uint8_t *data, size_t length) {
    return (uint32_t)(length < INTERLEAVED_LEAST ? feed_crc(state, data, length)
                                                 : feed_long(state, data, length));
}

WITH_CRC static uint32_t frame_crc(uint32_t seed, uint64_t offset, uint32_t word, const void *rest,
                                   size_t length) {
    return (uint32_t)~feed_chain(feed_position(seed, offset, word), NULL, rest, length, false);
}

WITH_MULTIPLY static uint32_t frame_multiply(uint32_t seed, uint64_t offset, uint32_t word,
                                             const void *rest, size_t length) {
    if (CL_UNLIKELY(length >= INTERLEAVED_LEAST)) {
        return (uint32_t)~feed_long(feed_position(seed, offset, word), rest, length);
    }
    return frame_crc(seed, offset, word, rest, length);
}

WITH_CRC static __attribute__((noinline)) uint64_t feed_extension(uint64_t state,
                                                                  const uint8_t *frame,
                                                                  size_t head) {
    return feed_chain(state, NULL, frame + CL_FRAME_HEADER, head - CL_FRAME_HEADER, false);
}

/* What a frame's CRC covers before its value. Most frames have no more there than a timestamp. */
WITH_CRC INLINED uint64_t feed_head(uint32_t seed, uint64_t offset, uint32_t word,
                                    const uint8_t *frame, size_t head) {
    uint64_t state =
        step_u64(feed_position(seed, offset, word), load_u64(frame + CL_FRAME_TIMESTAMP));
    return CL_LIKELY(head == CL_FRAME_HEADER) ? state : feed_extension(state, frame, head);
}

WITH_CRC INLINED uint32_t copy_short(uint32_t seed, uint64_t offset, uint32_t word,
                                     const void *frame, size_t head, void *to, const void *from) {
    return (uint32_t)~feed_chain(feed_head(seed, offset, word, frame, head), to, from,
                                 (word & CL_WORD_LENGTH) - head, true);
}

WITH_CRC static uint32_t frame_copy_crc(uint32_t seed, uint64_t offset, uint32_t word,
                                        const void *frame, size_t head, void *to,
                                        const void *from) {
    return copy_short(seed, offset, word, frame, head, to, from);
}

/* For long values memcpy's wide stores and three chains win. It is the copy that is fed, so that
 * the CRC fits what was written. */
WITH_MULTIPLY static __attribute__((noinline)) uint64_t copy_long(uint64_t state, uint8_t *to,
                                                                  const uint8_t *from,
                                                                  size_t length) {
    memcpy(to, from, length);
    return feed_long(state, to, length);
}

WITH_MULTIPLY static uint32_t frame_copy_multiply(uint32_t seed, uint64_t offset, uint32_t word,
                                                  const void *frame, size_t head, void *to,
                                                  const void *from) {
    size_t length = (word & CL_WORD_LENGTH) - head;
    if (CL_UNLIKELY(length >= INTERLEAVED_LEAST)) {
        return (uint32_t)~copy_long(feed_head(seed, offset, word, frame, head), to, from, length);
    }
    return copy_short(seed, offset, word, frame, head, to, from);
}

#endif /* HAS_INSTRUCTIONS */

/* The implementation in use, chosen when the library is loaded. */

static const implementation portable = {"portable", feed_portable, frame_portable,
                                        frame_copy_portable};
#ifdef HAS_INSTRUCTIONS
static const implementation with_crc = {NAME_CRC, feed_crc, frame_crc, frame_copy_crc};
static const implementation with_multiply = {NAME_MULTIPLY, feed_multiply, frame_multiply,
                                             frame_copy_multiply};
#endif

static const implementation *chosen;
bool cl_crc32c_steps;
uint32_t (*cl_frame_crc)(uint32_t seed, uint64_t offset, uint32_t word, const void *rest,
                         size_t length);
uint32_t (*cl_frame_copy_crc)(uint32_t seed, uint64_t offset, uint32_t word, const void *frame,
                              size_t head, void *to, const void *from);

static void choose(const implementation *wanted) {
    chosen = wanted;
    cl_crc32c_steps = wanted != &portable;
    cl_frame_crc = wanted->frame;
    cl_frame_copy_crc = wanted->frame_copy;
}

/* Runs before any thread can call us: nothing has to be ordered, and no call pays for a test. */
__attribute__((constructor)) static void choose_best(void) {
    fill_slices();
    choose(&portable);
#ifdef HAS_INSTRUCTIONS
    if (has_crc()) {
        choose(&with_crc);
    }
    if (has_multiply()) {
        fill_powers();
        choose(&with_multiply);
    }
#endif
}

int cl_crc32c_choose(const char *name) {
    const implementation *wanted = strcmp(name, portable.name) == 0 ? &portable : NULL;
#ifdef HAS_INSTRUCTIONS
    if (strcmp(name, with_crc.name) == 0 && has_crc()) {
        wanted = &with_crc;
    }
    if (strcmp(name, with_multiply.name) == 0 && has_multiply()) {
        wanted = &with_multiply;
    }
#endif
    if (wanted == NULL) {
        return CL_E_ABSENT;
    }
    choose(wanted);
    return CL_OK;
}

const char *cl_crc32c_name(void) { return chosen->name; }

uint32_t cl_crc32c(uint32_t crc, const void *data, size_t length) {
    return ~chosen->feed(~crc, data, length);
}

uint32_t cl_crc32c_seed(uint64_t segment_id) {
    return chosen->feed(0xFFFFFFFFu, (const uint8_t *)&segment_id, sizeof segment_id);
}
