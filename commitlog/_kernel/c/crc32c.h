/* CRC-32C (Castagnoli): of plain bytes, and of frames.
 *
 * The CRC of a frame covers the segment's id, the frame's offset, its final word and its bytes from
 * 8 to its length. The id is fed once for a segment; what the register then holds is the segment's
 * seed, and every frame continues from it. */
#ifndef CL_CRC32C_H
#define CL_CRC32C_H

#include "base.h"

/* The CRC of some bytes, continuing from `crc`, the CRC of those before them; 0 to start. */
uint32_t cl_crc32c(uint32_t crc, const void *data, size_t length);

/* The bare register, not inverted, after the eight bytes of a segment's id. */
uint32_t cl_crc32c_seed(uint64_t segment_id);

/* The next three are set when the library is loaded, so that the choice costs an append nothing. */

/* The CRC of a frame: `rest` is the frame from its byte 8 on, `length` the bytes there; 0 for a
 * SKIP, whose CRC covers no more than its word. */
extern uint32_t (*cl_frame_crc)(uint32_t seed, uint64_t offset, uint32_t word, const void *rest,
                                size_t length);

/* Copies a frame's value and computes the frame's CRC in the same pass, which for values below 256
 * bytes is faster than one after the other. The bytes of `frame` from 8 to `head` (timestamp,
 * extension, key) are in place; the value is copied from `from` to `to`, and the word gives its
 * length. Either pointer may be the value's place in the frame. The CRC covers the bytes written,
 * even if another thread changes the value meanwhile. */
extern uint32_t (*cl_frame_copy_crc)(uint32_t seed, uint64_t offset, uint32_t word,
                                     const void *frame, size_t head, void *to, const void *from);

/* Whether the implementation in use has CRC instructions; crc32c_steps.h has its steps inline. */
extern bool cl_crc32c_steps;

/* The implementation in use: "portable", "sse42", "sse42-pclmul", "armv8" or "armv8-pmull". */
const char *cl_crc32c_name(void);

/* Changes the implementation, for tests; not while another thread computes. CL_E_ABSENT: this
 * machine has no implementation of that name. */
int cl_crc32c_choose(const char *name);

#endif
