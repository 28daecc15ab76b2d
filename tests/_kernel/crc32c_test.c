/* sources: crc32c.c */
/* Compares each implementation with the definition of the CRC, bit by bit. The buffers end exactly
 * at the last byte of data. */
#include "crc32c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"

#define LONGEST 5000u
#define ALIGNMENTS 9u
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, cl_crc32c_name()); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char *const NAMES[] = {"portable", "sse42", "sse42-pclmul", "armv8", "armv8-pmull"};
#define NAME_COUNT (sizeof NAMES / sizeof NAMES[0])

static uint8_t noise[1 << 20];

static void fill_noise(void) {
    uint64_t state = 0x9E3779B97F4A7C15ull;
    for (size_t i = 0; i < sizeof noise; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise[i] = (uint8_t)(state >> 24);
    }
}

static uint32_t oracle_feed(uint32_t state, const uint8_t *data, size_t length) {
    for (size_t i = 0; i < length; i++) {
        state ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            state = state & 1 ? state >> 1 ^ 0x82F63B78u : state >> 1;
        }
    }
    return state;
}

/* Computed from the segment's id on, without the code under test. */
static uint32_t oracle_frame(uint64_t id, uint64_t offset, uint32_t word, const uint8_t *rest,
                             size_t length) {
    uint32_t state = oracle_feed(0xFFFFFFFFu, (const uint8_t *)&id, 8);
    state = oracle_feed(state, (const uint8_t *)&offset, 8);
    state = oracle_feed(state, (const uint8_t *)&word, 4);
    return ~oracle_feed(state, rest, length);
}

static void check_known_vectors(void) {
    uint8_t bytes[32];
    CHECK(cl_crc32c(0, NULL, 0) == 0);
    CHECK(cl_crc32c(0, "123456789", 9) == 0xE3069283u);
    memset(bytes, 0, sizeof bytes);
    CHECK(cl_crc32c(0, bytes, sizeof bytes) == 0x8A9136AAu);
    memset(bytes, 0xFF, sizeof bytes);
    CHECK(cl_crc32c(0, bytes, sizeof bytes) == 0x62A8AB43u);
    for (int i = 0; i < 32; i++) {
        bytes[i] = (uint8_t)i;
    }
    CHECK(cl_crc32c(0, bytes, sizeof bytes) == 0x46DD794Eu);
    CHECK(cl_crc32c_seed(0x0706050403020100ull) == (uint32_t)~cl_crc32c(0, bytes, 8));
}

/* Allocates a block that ends at the last byte of data, so that the address sanitizer reports every
 * read past it. */
static uint8_t *exact_copy(size_t alignment, size_t length) {
    uint8_t *block = malloc(alignment + length + (alignment + length == 0));
    CHECK(block != NULL);
    if (length != 0) {
        memcpy(block + alignment, noise + alignment, length);
    }
    return block;
}

/* Copies into a frame, as an append does, and out of it, as a batch read does. */
static void check_frame_copy(uint32_t seed, uint64_t offset, size_t head, const uint8_t *value,
                             size_t length) {
    uint32_t word = (uint32_t)(head + length);
    uint8_t *frame = malloc(head + length);
    uint8_t *out = malloc(length + (length == 0));
    CHECK(frame != NULL && out != NULL);
    memcpy(frame, noise + 77, head);
    uint32_t crc = cl_frame_copy_crc(seed, offset, word, frame, head, frame + head, value);
    CHECK(memcmp(frame, noise + 77, head) == 0);
    CHECK(length == 0 || memcmp(frame + head, value, length) == 0);
    CHECK(crc == cl_frame_crc(seed, offset, word, frame + 8, word - 8));
    CHECK(crc == cl_frame_copy_crc(seed, offset, word, frame, head, out, frame + head));
    CHECK(length == 0 || memcmp(out, value, length) == 0);
    free(out);
    free(frame);
}

static void check_every_length(void) {
    for (size_t alignment = 0; alignment < ALIGNMENTS; alignment++) {
        uint32_t expected = 0xFFFFFFFFu;
        uint64_t id = 0x1122334455667788ull * (alignment + 1);
        uint32_t seed = cl_crc32c_seed(id);
        for (size_t length = 0; length <= LONGEST; length++) {
            uint8_t *block = exact_copy(alignment, length);
            uint8_t *data = block + alignment;
            CHECK(cl_crc32c(0, data, length) == (uint32_t)~expected);
            uint64_t offset = 4096 + length * 8;
            uint32_t word = CL_WORD_EXT | (uint32_t)(length + 8);
            uint32_t chained = cl_crc32c(0, &id, 8);
            chained = cl_crc32c(chained, &offset, 8);
            chained = cl_crc32c(chained, &word, 4);
            CHECK(cl_frame_crc(seed, offset, word, data, length) ==
                  cl_crc32c(chained, data, length));
            check_frame_copy(seed, offset, length % 3 == 0 ? 16 : 24 + length % 50, data, length);
            free(block);
            expected = oracle_feed(expected, noise + alignment + length, 1);
        }
    }
}

static void check_frames_from_the_definition(void) {
    for (size_t length = 0; length < 600; length += 7) {
        uint64_t id = 0xFEDCBA9876543210ull - length, offset = 4096 + 64 * length;
        uint32_t word = (uint32_t)length + 8;
        CHECK(cl_frame_crc(cl_crc32c_seed(id), offset, word, noise, length) ==
              oracle_frame(id, offset, word, noise, length));
    }
    /* The first and the last frame of the example in docs/format.md. */
    uint32_t seed = cl_crc32c_seed(0x1122334455667788ull);
    uint8_t rest[13] = {0x01, 0x00, 0xFA, 0xED, 0x51, 0x72, 0x86, 0x18, 'h', 'e', 'l', 'l', 'o'};
    CHECK(cl_frame_crc(seed, 4096, 21, rest, sizeof rest) == 0x382CA43Bu);
    CHECK(cl_frame_crc(seed, 4168, CL_WORD_SKIP, NULL, 0) == 0xB5903564u);
    uint32_t skip = CL_WORD_SKIP | 8;
    CHECK(cl_frame_crc(cl_crc32c_seed(5), 4096, skip, NULL, 0) ==
          oracle_frame(5, 4096, skip, NULL, 0));
}

static void check_large_and_chained(void) {
    static const size_t lengths[] = {65536, 100003, sizeof noise};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        size_t length = lengths[i];
        uint32_t whole = ~oracle_feed(0xFFFFFFFFu, noise, length);
        CHECK(cl_crc32c(0, noise, length) == whole);
        for (size_t cut = 1; cut < length; cut = cut * 3 + 1) {
            CHECK(cl_crc32c(cl_crc32c(0, noise, cut), noise + cut, length - cut) == whole);
        }
        check_frame_copy(cl_crc32c_seed(9), 4096, 16, noise, length);
    }
}

int main(void) {
    const char *best = cl_crc32c_name();
    size_t available = 0;
    fill_noise();
    CHECK(cl_crc32c_choose("none of that name") == CL_E_ABSENT);
    for (size_t i = 0; i < NAME_COUNT; i++) {
        if (cl_crc32c_choose(NAMES[i]) != CL_OK) {
            CHECK(strcmp(cl_crc32c_name(), NAMES[i]) != 0);
            continue;
        }
        CHECK(strcmp(cl_crc32c_name(), NAMES[i]) == 0);
        available++;
        check_known_vectors();
        check_every_length();
        check_frames_from_the_definition();
        check_large_and_chained();
        printf("%s: as defined%s\n", NAMES[i],
               strcmp(NAMES[i], best) == 0 ? ", and chosen by itself" : "");
    }
    CHECK(available >= 1);
    CHECK(cl_crc32c_choose(best) == CL_OK);
    return 0;
}
