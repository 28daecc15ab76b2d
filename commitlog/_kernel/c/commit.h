/* Commit, which makes published records visible to other processes: it raises the watermarks, and
 * copies a pool buffer into its file. */
#ifndef CL_COMMIT_H
#define CL_COMMIT_H

#include "log.h"

/* Commits the published frames, up to `upto` at least if it can. A mapped log only raises its
 * watermarks. CL_E_BUSY: a live claim below `upto` blocks the commit. */
int cl_commit(cl_log *log, uint64_t upto);

#endif
