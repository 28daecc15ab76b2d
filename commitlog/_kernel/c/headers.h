/* Headers of a record: small named bytes, in a SKIP in front of it, in the same claim.
 *
 *  0       8       12       16                    L-16    L-12         L-8      L-4
 *  +-------+-------+--------+-----------+- - - - -+-------+------------+--------+--------+
 *  | cell  | magic | length | headers   | zeros   | magic | record_crc | length | crc32c |
 *  +-------+-------+--------+-----------+- - - - -+-------+------------+--------+--------+
 *
 * A reader comes from the record behind them, a scan from the front: so both ends say what this
 * is. If the record has a mark of a producer, too, that mark is between the two. */
#ifndef CL_HEADERS_H
#define CL_HEADERS_H

#include "frame_cursor.h"

#define CL_HEADERS_MOST 64u
#define CL_HEADERS_LARGEST (64u << 10) /* bytes of all of them, as encoded */
#define CL_HEADER_NAME_MOST 255u
#define CL_HEADER_FIXED 3u /* bytes of a header in front of its name */
#define CL_HEADERS_AT 16u /* from the cell */
#define CL_HEADERS_TRAILER 16u
/* As far before a record its headers may begin: a mark of a producer may be between them. */
#define CL_HEADERS_BACK (CL_HEADERS_AT + CL_HEADERS_LARGEST + CL_HEADERS_TRAILER + 32u)

/* Encoded headers. Each is the size of its name (1 byte), the length of its value (2 bytes), name
 * and value. `length` is 0 if the record has none. */
typedef struct {
    const uint8_t *bytes;
    uint32_t length;
} cl_headers;

/* Bytes of the SKIP that has them; 0 without headers. */
static inline uint32_t cl_headers_size(const cl_headers *headers) {
    return headers->length == 0
               ? 0
               : cl_frame_aligned(CL_HEADERS_AT + headers->length + CL_HEADERS_TRAILER);
}

/* Writes all of the SKIP but its cell, which is returned. `record_crc` is the CRC in the cell of
 * the record. */
uint64_t cl_headers_write(const cl_segment *segment, uint32_t offset, const cl_headers *headers,
                          uint32_t record_crc);

/* Finds the headers of the record at an offset of the source; zeros may follow them in *found.
 * CL_E_ABSENT: the source has no record there. CL_E_DAMAGE: the record has headers, and their CRC
 * does not match. */
int cl_headers_find(const cl_segment *segment, const uint8_t *bytes, uint64_t offset,
                    cl_headers *found);

/* Whether the SKIP at the cursor has headers, and whether these are damaged. By value: a loop that
 * gives away the address of its cursor keeps it in memory. */
bool cl_headers_begin(cl_frame_cursor at);
bool cl_headers_damaged(cl_frame_cursor at);

/* Makes the SKIP of `length` bytes at an offset of the file one without headers. */
void cl_headers_erase(cl_segment *segment, uint64_t offset, uint64_t length);

#endif
