/* Shared by the fuzz targets of the kernel's readers: a segment made of an input's bytes, the
 * repair of its CRCs, and a `main` that replays files where there is no fuzzer.
 *
 * An input is 16 bytes of choices and then the frames of a segment. Bytes at random almost never
 * have a valid CRC, so the mutator computes most of them anew: what the readers do behind the CRC
 * is reached, too. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crc32c.h"
#include "frame_cursor.h"
#include "headers.h"
#include "mark.h"
#include "scan.h"

#define CHOICES 16u   /* bytes in front of the frames */
#define LARGEST 8192u /* bytes of an input */
#define SEGMENT_ID 0x0123456789ABCDEFull
#define UNUSED __attribute__((unused))
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

static const uint8_t fuzz_uuid[CL_UUID_SIZE] = "a log's identity";

/* The choices of an input, taken from its first bytes; zero where it is too short. */
typedef struct {
    uint8_t bytes[CHOICES];
    const uint8_t *frames;
    size_t size; /* of the frames, a multiple of their alignment */
} fuzz_input;

static UNUSED fuzz_input input_of(const uint8_t *data, size_t size) {
    fuzz_input input = {.frames = data + size};
    memcpy(input.bytes, data, size < CHOICES ? size : CHOICES);
    if (size > CHOICES) {
        input.frames = data + CHOICES;
        input.size = (size - CHOICES) / CL_FRAME_ALIGN * CL_FRAME_ALIGN;
    }
    return input;
}

static UNUSED uint16_t choice16(const fuzz_input *input, size_t at) {
    return (uint16_t)(input->bytes[at] | input->bytes[at + 1] << 8);
}

/* An offset of the segment, from two bytes of the choices. */
static UNUSED uint64_t offset_of(const fuzz_input *input, size_t at, uint64_t size) {
    uint64_t offset = CL_SEGMENT_HEADER + (uint64_t)choice16(input, at) * CL_FRAME_ALIGN;
    return offset < size ? offset : size;
}

/* A segment whose bytes end exactly at its end, so that the address sanitizer sees what reads
 * beyond it. */
static UNUSED cl_segment segment_of(const fuzz_input *input, uint64_t number) {
    uint64_t size = CL_SEGMENT_HEADER + input->size;
    uint8_t *bytes = aligned_alloc(CL_FRAME_ALIGN, size);
    REQUIRE(bytes != NULL);
    memset(bytes, 0, CL_SEGMENT_HEADER);
    memcpy(bytes + CL_SEGMENT_HEADER, input->frames, input->size);
    return (cl_segment){.number = number,
                        .base = number * size,
                        .size = size,
                        .extent = size,
                        .id = SEGMENT_ID,
                        .seed = cl_crc32c_seed(SEGMENT_ID),
                        .fd = -1,
                        .map = bytes,
                        .bytes = bytes,
                        .references = 2,
                        .tallied = CL_SEGMENT_HEADER,
                        .tally = {.end = CL_SEGMENT_HEADER}};
}

/* --- the mutator ------------------------------------------------------------------------------ */

static UNUSED uint32_t next_number(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* As in mark.c: the CRC of a mark is over producer, number and the CRC of the record behind it. */
static UNUSED void repair_mark(uint8_t *at, uint64_t offset, const uint8_t *end) {
    const uint64_t place[2] = {SEGMENT_ID, offset};
    uint32_t record_crc, crc;
    if (end - at < (ptrdiff_t)(CL_MARK_LENGTH + CL_CELL_SIZE)) {
        return;
    }
    memcpy(&record_crc, at + CL_MARK_LENGTH + 4, sizeof record_crc);
    memcpy(at + 24, &record_crc, sizeof record_crc);
    crc = cl_crc32c(cl_crc32c(0, place, sizeof place), at + CL_CELL_SIZE, 20);
    memcpy(at + 28, &crc, sizeof crc);
}

/* As in headers.c: a SKIP of that length becomes one with headers of the record behind it, or of
 * the one behind a mark. */
static UNUSED void repair_headers(uint8_t *at, uint32_t length, uint64_t offset,
                                  const uint8_t *end) {
    const uint64_t place[2] = {SEGMENT_ID, offset};
    const uint32_t magic = 0x53524448u;
    const uint8_t *record = at + length;
    uint32_t word, record_crc, crc;
    if (end - record < (ptrdiff_t)(CL_MARK_LENGTH + CL_CELL_SIZE)) {
        return;
    }
    memcpy(&word, record, sizeof word);
    record += word == (CL_WORD_SKIP | CL_MARK_LENGTH) ? CL_MARK_LENGTH : 0;
    memcpy(&record_crc, record + 4, sizeof record_crc);
    memcpy(at + CL_CELL_SIZE, &magic, sizeof magic);
    memcpy(at + CL_CELL_SIZE + 4, &length, sizeof length);
    memcpy(at + length - 16, &magic, sizeof magic);
    memcpy(at + length - 12, &record_crc, sizeof record_crc);
    memcpy(at + length - 8, &length, sizeof length);
    crc =
        cl_crc32c(cl_crc32c(0, place, sizeof place), at + CL_CELL_SIZE, length - CL_CELL_SIZE - 4);
    memcpy(at + length - 4, &crc, sizeof crc);
}

/* Computes the CRC of each frame that a walk from the first one meets, but of one in 16. */
static UNUSED void repair_frames(uint8_t *frames, size_t size, uint32_t *state) {
    const uint32_t seed = cl_crc32c_seed(SEGMENT_ID);
    size_t at = 0, mark = SIZE_MAX;
    while (at + CL_CELL_SIZE <= size) {
        uint64_t step, cell, offset = CL_SEGMENT_HEADER + at;
        memcpy(&cell, frames + at, sizeof cell);
        int code = cl_cell_read(cell, size - at, &step);
        uint32_t word = cl_cell_word(cell), length = word & CL_WORD_LENGTH;
        if (code != CL_OK && code != CL_E_ROLLED_BACK) {
            if (code != CL_E_BUSY || step == 0 || step > size - at) {
                break;
            }
            at += step;
            continue;
        }
        if (next_number(state) % 16 != 0) {
            bool record = code == CL_OK;
            uint32_t crc =
                cl_frame_crc(seed, offset, word, record ? frames + at + CL_FRAME_TIMESTAMP : NULL,
                             record ? length - CL_FRAME_TIMESTAMP : 0);
            memcpy(frames + at + 4, &crc, sizeof crc);
        }
        if (mark != SIZE_MAX && mark + CL_MARK_LENGTH == at) {
            repair_mark(frames + mark, CL_SEGMENT_HEADER + mark, frames + size);
        }
        mark = word == (CL_WORD_SKIP | CL_MARK_LENGTH) ? at : SIZE_MAX;
        at += step;
    }
    /* Then those of headers, which have the CRC of a record behind them. */
    for (at = 0; at + CL_CELL_SIZE <= size;) {
        uint64_t step, cell;
        memcpy(&cell, frames + at, sizeof cell);
        int code = cl_cell_read(cell, size - at, &step);
        uint32_t length = cl_cell_word(cell) & CL_WORD_LENGTH;
        if ((code != CL_OK && code != CL_E_ROLLED_BACK) || step == 0) {
            break;
        }
        if (code == CL_E_ROLLED_BACK && length >= 40 && length % CL_FRAME_ALIGN == 0 &&
            next_number(state) % 2 != 0) {
            repair_headers(frames + at, length, CL_SEGMENT_HEADER + at, frames + size);
        }
        at += step;
    }
}

/* Appends a frame of any kind, with few bytes. */
static UNUSED size_t add_frame(uint8_t *data, size_t size, size_t most, uint32_t *state) {
    static const uint32_t flags[] = {0,
                                     0,
                                     0,
                                     CL_WORD_EXT,
                                     CL_WORD_SKIP,
                                     CL_WORD_CLAIMED,
                                     CL_WORD_CLAIMED | CL_WORD_EXT,
                                     CL_WORD_BATCH};
    uint32_t word = flags[next_number(state) % 8];
    uint32_t length = word == CL_WORD_SKIP && next_number(state) % 2 != 0
                          ? CL_MARK_LENGTH
                          : CL_FRAME_SMALLEST + next_number(state) % 64;
    size_t step = cl_frame_aligned(length);
    size = CHOICES + (size - CHOICES) / CL_FRAME_ALIGN * CL_FRAME_ALIGN;
    if (size + step > most) {
        return size;
    }
    for (size_t byte = 0; byte < step; byte++) {
        data[size + byte] = (uint8_t)next_number(state);
    }
    word |= length;
    memcpy(data + size, &word, sizeof word);
    if (word & CL_WORD_EXT && step >= CL_FRAME_EXTENDED) {
        uint32_t key = next_number(state) % 4 == 0 ? CL_KEYLEN_NONE : next_number(state) % 48;
        memcpy(data + size + CL_FRAME_KEYLEN, &key, sizeof key);
    }
    return size + step;
}

static UNUSED size_t mutate_frames(uint8_t *data, size_t size, size_t most, unsigned seed) {
    uint32_t state = seed;
    if (size >= CHOICES && next_number(&state) % 3 == 0) {
        size = add_frame(data, size, most, &state);
    } else {
        size = LLVMFuzzerMutate(data, size, most);
    }
    if (size > CHOICES && next_number(&state) % 8 != 0) {
        repair_frames(data + CHOICES, (size - CHOICES) / CL_FRAME_ALIGN * CL_FRAME_ALIGN, &state);
    }
    return size;
}

#define MUTATES_FRAMES                                                                             \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {       \
        return mutate_frames(data, size, most, seed);                                              \
    }

/* --- replay ----------------------------------------------------------------------------------- */

#ifdef REPLAY

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) {
    (void)data;
    return size < most ? size : most;
}

/* Takes each file that it is given. */
int main(int count, char **names) {
    static uint8_t bytes[1u << 20];
    for (int at = 1; at < count; at++) {
        FILE *file = fopen(names[at], "rb");
        REQUIRE(file != NULL);
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        uint8_t *data = malloc(size == 0 ? 1 : size); /* ends exactly at the input's end */
        REQUIRE(data != NULL);
        memcpy(data, bytes, size);
        LLVMFuzzerTestOneInput(data, size);
        free(data);
    }
    printf("%d inputs\n", count - 1);
    return 0;
}

#endif
#endif
