/* Going from record to record by their cells. A length that is damaged may lead astray, over
 * records and into their bodies: whoever is not careful has to notice by where he arrives, and then
 * be it. */
#ifndef CL_HOP_H
#define CL_HOP_H

#include "scan.h"

typedef struct {
    cl_log *log;
    const cl_segment *segment; /* a reference is held by whoever gave it */
    uint64_t offset;           /* of the next cell */
    bool careful;              /* a frame is stepped over only after its CRC */
    bool from_buffer; /* what is not committed is looked for in the pool buffer: only under the
                         interpreter's lock */
    uint64_t passed; /* below this offset an unpublished cell was found to be dead before, and is
                        stepped over */
    cl_watch *watch; /* NULL: any other unpublished cell ends the way at once, dead or not */
} cl_hop;

/* The next record below `limit`; *at is its offset, and hop->offset the one behind it. CL_E_ROLL:
 * the limit is reached. CL_E_END, CL_E_BUSY: nothing to see from hop->offset on, or not yet.
 * CL_E_DAMAGE: no frame stands at hop->offset, where one should. */
int cl_hop_next(cl_hop *hop, uint64_t limit, uint64_t *at);

/* Notes the offsets of the next plain records below `limit`, at most so many, and goes over them;
 * how many there were. What ends it, also what is not committed yet, is for cl_hop_next to look at.
 */
size_t cl_hop_plain(cl_hop *hop, uint64_t limit, uint32_t *at, size_t most);

/* As cl_hop_next, past damage: what is lost there has no ordinal. */
int cl_hop_whole(cl_hop *hop, uint64_t limit, uint64_t *at);

/* Goes over `most` records or up to `limit`; *count is over how many. */
int cl_hop_over(cl_hop *hop, uint64_t limit, uint64_t most, uint64_t *count);

/* Of a record. */
int64_t cl_hop_timestamp(const cl_hop *hop, uint64_t at);

#endif
