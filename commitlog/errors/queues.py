"""The exceptions of work queues."""

from __future__ import annotations

import errno as codes

from commitlog.errors.base import CommitLogError, SystemCallError


class LeaseLostError(CommitLogError, RuntimeError):
    """Raised if a worker accepts, releases, rejects or renews a job that it does not hold any more.

    Its lease ended, so the job goes to another worker, or was purged. Nothing was changed. Take a
    longer `lease=`, or call `renew` while the job runs.
    """


class JobFinishedError(CommitLogError, RuntimeError):
    """Raised if a job is accepted, released, rejected or renewed after one of these. Nothing was
    changed. Call one of them once for each job that `take` returns.
    """


class NoJobError(SystemCallError, TimeoutError, errno=codes.ETIMEDOUT):
    """Raised if `take` gets no job within its timeout. Call it again, or use `take_many`, which
    returns an empty list then.
    """


class QueueNotFoundError(CommitLogError, LookupError):
    """Raised if a log has no queue of that name, and the call does not create it.

    `commitlog queue LOG` lists the queues; `commitlog.queue` creates one.
    """


class CorruptQueueError(CommitLogError, ValueError):
    """Raised if the state of a queue is damaged, or is that of another log.

    The log itself is intact. Restore the folder that the message names, or delete it: then the
    queue begins anew, and all jobs come again.
    """
