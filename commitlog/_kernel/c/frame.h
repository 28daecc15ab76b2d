/* clang-format off */
/* The format of a segment file. Each offset and flag is defined here once; Python imports them.
 *
 * A segment is one page of header and then frames, each on an 8-byte boundary:
 *
 * 0        4        8                 16       20       24
 * +--------+--------+-----------------+- - - - + - - - -+------------+- - -+
 * | word   | crc32c | timestamp (ns)  | type   | keylen | key, value | pad |
 * +--------+--------+-----------------+- - - - + - - - -+------------+- - -+
 *
 * Only a frame with the flag EXT has type and keylen. Word and CRC are one 8-byte cell, read and
 * swapped as one. Little-endian throughout. */
/* clang-format on */
#ifndef CL_FRAME_H
#define CL_FRAME_H

#include "base.h"

#define CL_FORMAT_MAJOR 1
#define CL_FORMAT_MINOR 0
#define CL_UUID_SIZE 16u /* bytes in a log's uuid, and in a boot id */

/* Frame. */
#define CL_FRAME_ALIGN 8u
#define CL_FRAME_HEADER 16u    /* word, crc, timestamp */
#define CL_FRAME_EXTENDED 24u  /* and type, keylen */
#define CL_CELL_SIZE 8u        /* word and crc, or word and owner */
#define CL_FRAME_SMALLEST CL_CELL_SIZE /* a SKIP may be one bare cell */
#define CL_FRAME_TIMESTAMP 8u
#define CL_FRAME_TYPE 16u
#define CL_FRAME_KEYLEN 20u
#define CL_FRAME_LIMIT ((1u << 28) - 8u)
#define CL_FRAME_SHARE 8u /* a frame takes at most 1/8 of its segment */
#define CL_FRAME_ADD_LIMIT                                                                         \
    (64u << 10) /* larger frames claim by compare-and-swap, so that they never overshoot */
#define CL_KEYLEN_NONE 0xFFFFFFFFu     /* typed but not keyed; an empty key has keylen 0 */

/* Word. */
#define CL_WORD_LENGTH 0x0FFFFFFFu
#define CL_WORD_CLAIMED 0x10000000u
#define CL_WORD_SKIP 0x20000000u
#define CL_WORD_EXT 0x40000000u
#define CL_WORD_BATCH 0x80000000u /* reserved */
#define CL_WORD_FLAGS 0xF0000000u

/* While CLAIMED, the second half of the cell names the owner. */
#define CL_OWNER_SLOT_BITS 10u
#define CL_OWNER_SLOT_MASK ((1u << CL_OWNER_SLOT_BITS) - 1u)
#define CL_OWNER_GENERATION_MASK (0xFFFFFFFFu >> CL_OWNER_SLOT_BITS)

/* Segment header: one page in four parts, each with its own CRC. */
#define CL_SEGMENT_MAGIC 0x31304745534C4D43ull /* "CMLSEG01" read as a little-endian word */
#define CL_SEGMENT_HEADER 4096u
#define CL_SEGMENT_SMALLEST (64u << 10)
#define CL_SEGMENT_LARGEST (1u << 30)

typedef struct {
    uint64_t magic;
    uint16_t major;
    uint16_t minor;
    uint32_t header_size;
    uint8_t log_uuid[CL_UUID_SIZE];
    uint64_t segment_id; /* random; the seed of every CRC in the segment */
    uint64_t base;
    uint64_t size;
    int64_t created_ns;
    uint32_t crc; /* over all above */
    uint32_t reserved;
} cl_header_identity;

typedef struct {
    uint64_t position; /* everything below was durable when the segment was created; 0: unknown */
    uint32_t crc;      /* over it, seeded with the segment's id */
    uint32_t reserved;
} cl_header_durable;

typedef struct {
    int64_t opened_ns; /* 0: not yet opened; set by one compare-and-swap */
    int64_t cycle;
    uint32_t crc; /* over both, seeded with the segment's id */
    uint32_t reserved;
} cl_header_opened;

typedef struct {
    uint64_t end; /* offset one past the last frame that is not the closing SKIP */
    uint64_t first_sequence;
    uint64_t record_count;
    int64_t first_timestamp_ns;
    int64_t last_timestamp_ns;
    int64_t largest_timestamp_ns;
    uint32_t crc; /* over all above, seeded with the segment's id; written last */
    uint32_t sealed; /* 1 */
} cl_header_seal;

#define CL_HEADER_IDENTITY_AT 0u
#define CL_HEADER_DURABLE_AT 72u
#define CL_HEADER_OPENED_AT 128u
#define CL_HEADER_SEAL_AT 256u
/* Each part's CRC, from the part's beginning. */
#define CL_HEADER_IDENTITY_CRC 64u
#define CL_HEADER_OPENED_CRC 16u
#define CL_HEADER_SEAL_CRC 48u

_Static_assert(sizeof(cl_header_identity) == 72, "the identity part is 72 bytes");
_Static_assert(offsetof(cl_header_identity, log_uuid) == 16, "uuid at 16");
_Static_assert(offsetof(cl_header_identity, segment_id) == 32, "segment id at 32");
_Static_assert(offsetof(cl_header_identity, base) == 40, "base at 40");
_Static_assert(offsetof(cl_header_identity, size) == 48, "size at 48");
_Static_assert(offsetof(cl_header_identity, created_ns) == 56, "created at 56");
_Static_assert(offsetof(cl_header_identity, crc) == CL_HEADER_IDENTITY_CRC, "CRC at 64");
_Static_assert(sizeof(cl_header_durable) == 16, "the durable part is 16 bytes");
_Static_assert(CL_HEADER_DURABLE_AT >= sizeof(cl_header_identity) &&
                   CL_HEADER_DURABLE_AT + sizeof(cl_header_durable) <= CL_HEADER_OPENED_AT,
               "the durable part is between identity and opened");
_Static_assert(sizeof(cl_header_opened) == 24, "the opened part is 24 bytes");
_Static_assert(offsetof(cl_header_opened, cycle) == 8, "cycle at 128 + 8");
_Static_assert(offsetof(cl_header_opened, crc) == CL_HEADER_OPENED_CRC, "CRC at 128 + 16");
_Static_assert(sizeof(cl_header_seal) == 56, "the seal is 56 bytes");
_Static_assert(offsetof(cl_header_seal, crc) == CL_HEADER_SEAL_CRC, "CRC at 256 + 48");
_Static_assert(CL_FRAME_HEADER % CL_FRAME_ALIGN == 0 && CL_FRAME_EXTENDED % CL_FRAME_ALIGN == 0,
               "frames stay aligned");
_Static_assert((CL_WORD_LENGTH | CL_WORD_FLAGS) == 0xFFFFFFFFu &&
                   (CL_WORD_LENGTH & CL_WORD_FLAGS) == 0,
               "a word is length and flags");
_Static_assert(CL_FRAME_LIMIT <= CL_WORD_LENGTH, "the largest frame fits the length");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");

static inline uint32_t cl_frame_aligned(uint32_t length) {
    return (length + (CL_FRAME_ALIGN - 1u)) & ~(CL_FRAME_ALIGN - 1u);
}

static inline uint32_t cl_frame_largest(uint64_t segment_size) {
    uint64_t share = segment_size / CL_FRAME_SHARE;
    return share < CL_FRAME_LIMIT ? (uint32_t)share : CL_FRAME_LIMIT;
}

/* A cell as one 64-bit value: the word in the low half, the CRC (or the owner) in the high half. */
static inline uint64_t cl_cell(uint32_t word, uint32_t high) { return (uint64_t)high << 32 | word; }
static inline uint32_t cl_cell_word(uint64_t cell) { return (uint32_t)cell; }
static inline uint32_t cl_cell_high(uint64_t cell) { return (uint32_t)(cell >> 32); }

/* The packed form of the tail and of each watermark: segment number in the high half, offset in the
 * low. */
static inline uint64_t cl_tail_pack(uint64_t number, uint32_t offset) {
    return number << 32 | offset;
}
static inline uint64_t cl_tail_number(uint64_t packed) { return packed >> 32; }
static inline uint32_t cl_tail_offset(uint64_t packed) { return (uint32_t)packed; }

#endif
