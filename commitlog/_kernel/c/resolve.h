/* Resolves claims that will never be published. */
#ifndef CL_RESOLVE_H
#define CL_RESOLVE_H

#include "log.h"

/* Whether an owner is certainly dead: its slot has another generation, or no process locks it. */
bool cl_owner_dead(const cl_log *log, uint32_t slot, uint32_t generation);

/* Resolves the unpublished cell at `offset`, if its owner is dead. CL_OK: read again, *pass bytes
 * further on if that is not 0 (a handle that may not write steps over dead claims). CL_E_END:
 * nothing is claimed there. CL_E_BUSY: a live claim, whose owner has until the claim timeout. */
int cl_resolve(cl_log *log, cl_segment *segment, uint32_t offset, cl_watch *watch, uint64_t *pass);

#endif
