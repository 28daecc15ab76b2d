"""HandingOut: gives available jobs to this process."""

from __future__ import annotations

from commitlog.base.failpoint import failpoint
from commitlog.queues.compiled.leases import AGAIN, DYING, PENDING
from commitlog.queues.finishing import Finishing, place_of
from commitlog.queues.job import Job
from commitlog.queues.notes import Tried
from commitlog.queues.parts import Parts
from commitlog.queues.upkeep import Upkeep
from commitlog.queues.worker import boot_ns

_ROUNDS = 64  # scans of a call, if other workers are faster


class HandingOut:
    """Take jobs of the leases, and add those that the log has new."""

    def __init__(self, parts: Parts, finishing: Finishing, upkeep: Upkeep) -> None:
        self._parts = parts
        self._finishing = finishing
        self._upkeep = upkeep
        self._table = parts.table
        self._scanner = parts.scanner

    def take(self, most: int, *, purges: bool = False) -> list[Job]:
        """Take up to `most` jobs without waiting; to purge them, as they are, also if the queue is
        paused.
        """
        parts = self._parts
        for _ in range(_ROUNDS):
            with self._scanner as scanner:
                now_ns = boot_ns()
                jobs, limit = self._table.acquire(Job, self._finishing, most, now_ns, purges)
                if not jobs:
                    if limit or (parts.table.paused and not purges) or not scanner.scan(most):
                        return []
                    continue
                if purges:
                    return jobs
                lost = scanner.read(jobs)
            if now_ns > self._upkeep.due_ns:
                self._run_upkeep(jobs, now_ns)
            if parts.decode is not None or lost or _has_special(jobs):
                jobs = self._ready(jobs, lost)
            if jobs:
                return jobs
        return []

    def _run_upkeep(self, jobs: list[Job], now_ns: int) -> None:
        try:
            self._upkeep.run(now_ns)
        except BaseException:
            self._finishing.return_untried(jobs)
            raise

    def _ready(self, jobs: list[Job], lost: list[Job]) -> list[Job]:
        """Make attempts durable that are not the first, bury jobs that are dead, and decode."""
        finishing, left = self._finishing, jobs
        try:
            for job in lost:
                finishing.discard(job, "its record is not in the log any more")
            spent = [job for job in jobs if job.flags & DYING and job not in lost]
            for job in spent:
                finishing.bury_spent(job)
            left = [job for job in jobs if not job.is_finished]
            # A process that made them jobs again may have died before it removed their letters.
            finishing.dead.remove_places(place_of(job) for job in left if job.flags & AGAIN)
            pending = [job for job in left if job.flags & PENDING]
            if pending:
                self._note_attempts(pending)
                held = set(map(id, self._parts.table.confirm(pending)))
                left = [job for job in left if not job.flags & PENDING or id(job) in held]
            if self._parts.decode is not None:
                left = [job for job in left if self._decode(job)]
        except BaseException:
            finishing.return_untried(left)
            raise
        return left

    def _note_attempts(self, jobs: list[Job]) -> None:
        tried = []
        for job in jobs:
            history = self._finishing.history_until(job, job.attempt - 1)
            tried.append(Tried(place_of(job), 2 * job.attempt, 0, history))
        places = self._parts.state.append_tried(tried, sync=True)
        failpoint("attempt noted")
        for job, at in zip(jobs, places, strict=True):
            self._parts.table.set_history(job, at)

    def _decode(self, job: Job) -> bool:
        """Decode the value; a job that cannot be decoded becomes a dead letter."""
        assert self._parts.decode is not None
        try:
            job.set_message(self._parts.decode(job.record))
        except (ValueError, RecursionError) as error:
            self._finishing.reject(job, f"it cannot be decoded: {error}")
            return False
        return True


def _has_special(jobs: list[Job]) -> bool:
    """Return whether one is not handed out for the first time."""
    return jobs[0].flags != 0 if len(jobs) == 1 else any(job.flags for job in jobs)
