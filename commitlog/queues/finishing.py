"""Finishing: the ends of jobs, each durable before it has an effect."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Sequence
from typing import Any

from commitlog.base.failpoint import failpoint
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import LeaseLostError, SyncTimeoutError
from commitlog.queues import notes
from commitlog.queues.compiled.leases import (
    DYING,
    LEASE_ENDED,
    SUSPECT,
    WORKER_DIED,
    Lease,
    key_hash,
    note_of,
)
from commitlog.queues.dead_letters import DeadLetters
from commitlog.queues.job import Job
from commitlog.queues.notes import Place, Tried, failure
from commitlog.queues.parts import Parts
from commitlog.queues.terms import backoff_s
from commitlog.queues.worker import boot_ns

_CAUSES = {LEASE_ENDED: "the lease ended", WORKER_DIED: "the worker died"}
_RETRY_S = 1.0  # until a job comes again whose dead letter could not be written


class Finishing:
    """Accept, release, reject and renew the jobs of this process."""

    def __init__(self, parts: Parts, dead: DeadLetters) -> None:
        self.parts = parts
        self.dead = dead
        self.path = parts.folder
        self._table = parts.table
        self._state = parts.state.log

    # --- accept -----------------------------------------------------------------------------------

    def accept(self, jobs: list[Job], sync: bool | None = None) -> None:
        """Accept jobs that are not finished; those whose leases are lost are in the error."""
        if not jobs:
            return
        held, note = self._table.begin_accept(jobs, self._state.tail_position)
        if note:
            self._finish(held, note, notes.DONE, self.parts.sync if sync is None else sync)
            for job in held:
                job.finished = "accepted"
        if len(held) < len(jobs):
            kept = set(map(id, held))
            lost = [job for job in jobs if id(job) not in kept]
            lost[0].check()
            raise self._lost(lost, "accepted")

    def _finish(self, held: list[Any], note: bytes, kind: int, sync: bool) -> None:
        """Note jobs as done, then free their slots."""
        parts = self.parts
        try:
            if sync:
                parts.make_durable(max(job.stop for job in held))
            self._state.append(note, type=kind, sync=sync)
        except SyncTimeoutError:
            self._table.finish(held)  # the note is there, and counts
            raise
        except BaseException:
            self._table.undo_accept(held)
            raise
        failpoint("noted as done")
        self._table.finish(held, len(held) if kind == notes.DEAD else 0)

    def complete(self, adopted: list[Lease]) -> None:
        """Complete what a dead worker had begun to accept."""
        if adopted:
            self._finish(adopted, note_of(adopted), notes.DONE, False)

    def _lost(self, jobs: Sequence[Job], what: str) -> LeaseLostError:
        for job in jobs:
            job.finished = "lost"
        lease_s = self._table.terms[0] / 1e9
        count = f"{len(jobs)} jobs were" if len(jobs) > 1 else "the job was"
        return LeaseLostError(
            f"{count} not {what}: the lease of {lease_s:g} s ended, and the job comes again; take "
            "a longer lease=, or call renew() while it runs",
            path=self.path,
            position=jobs[0].position,
        )

    # --- release, renew ---------------------------------------------------------------------------

    def release(self, job: Job, after: Duration | None, reason: str) -> None:
        """Give a job back, and note first when it comes again."""
        if after is None:
            wait_s = backoff_s(self.parts.terms, job.attempt, random.random())
        else:
            wait_s = parse_duration(after, "after")
        self._give_back(job, wait_s, reason)

    def give_back(self, job: Job, error: Exception) -> None:
        """Release a job whose block has raised. If its lease is lost, the error goes on alone."""
        text = f"{type(error).__name__}: {error}"
        try:
            self.release(job, None, text)
        except LeaseLostError as lost:
            error.add_note(str(lost))

    def give_back_left(self, job: Job) -> None:
        """Release the job of a loop that was left; its lease may have ended."""
        with contextlib.suppress(LeaseLostError):
            self.release(job, None, "the loop was left")

    def _give_back(self, job: Job, wait_s: float, reason: str) -> None:
        table, wait_ns = self._table, int(wait_s * 1e9)
        if not table.is_held(job):
            raise self._lost([job], "released")
        now_ns = time.time_ns()
        known = self.history(job)
        tried = Tried(
            place_of(job),
            2 * job.attempt + 1,
            now_ns + wait_ns if wait_ns else 0,
            (*known, failure(job.attempt, "released", reason, now_ns)),
        )
        (at,) = self.parts.state.append_tried([tried], sync=False)
        failpoint("wait noted")
        table.set_history(job, at)
        if not table.release(job, boot_ns() + wait_ns if wait_ns else 0, True):
            raise self._lost([job], "released")
        job.finished = "released"
        self.wake()

    def return_untried(self, jobs: Sequence[Job]) -> None:
        """Give jobs back that were not begun: the attempt does not count."""
        for job in jobs:
            if not job.is_finished and self._table.release(job, 0, False):
                job.finished = "released"
        self.wake()

    def renew(self, job: Job) -> None:
        if not self._table.renew(job, boot_ns()):
            raise self._lost([job], "renewed")

    def wake(self) -> None:
        """Wake a worker that waits: one that sleeps, or the one that the log's appends wake."""
        self._table.wake()
        if self._table.is_watched:
            self.parts.view.wake_readers()

    def history(self, job: Lease) -> tuple[dict[str, Any], ...]:
        """Return the failures of a job that are noted."""
        known = self.parts.state.read_tried(job.history)
        return () if known is None or known.place.position != job.position else known.history

    def history_until(self, job: Lease, attempts: int) -> tuple[dict[str, Any], ...]:
        """Return them with the last one, of a job that was handed out so often before."""
        known = self.history(job)
        if job.cause not in _CAUSES:
            return known
        return (*known, failure(attempts, _CAUSES[job.cause], "", time.time_ns()))

    # --- dead letters -----------------------------------------------------------------------------

    def reject(self, job: Job, reason: str) -> None:
        """Make a held job a dead letter. That it was rejected is durable before there is one."""
        table, now_ns = self._table, time.time_ns()
        known = self.history(job)
        history = (*known, failure(job.attempt, "rejected", reason, now_ns))
        tried = Tried(place_of(job), 2 * job.attempt + 1, 0, history)
        if not table.is_held(job):
            raise self._lost([job], "rejected")
        (at,) = self.parts.state.append_tried([tried], sync=True)
        failpoint("rejection noted")
        table.set_history(job, at)
        if not table.doom(job):
            raise self._lost([job], "rejected")
        self._bury(job, reason, history)
        job.finished = "rejected"

    def bury_spent(self, job: Job) -> None:
        """Bury a job that was handed out for the last time, or whose burial was not completed."""
        history = self.history_until(job, job.attempt)
        last = history[-1] if history else {"what": "", "reason": ""}
        reason = last["reason"]
        if last["what"] != "rejected":
            reason = f"all {job.attempt} attempts have failed"
            reason += f", the last one: {last['reason'] or last['what']}" if history else ""
        try:
            self._bury(job, reason, history)
        except BaseException:
            self._table.release(job, boot_ns() + int(_RETRY_S * 1e9), False)
            job.finished = "released"
            raise
        job.finished = "rejected"

    def discard(self, job: Job, reason: str) -> None:
        """Bury a job whose record is lost."""
        self._table.doom(job)
        self._bury(job, reason, self.history_until(job, job.attempt))
        job.finished = "rejected"

    def _bury(self, job: Job, reason: str, history: Sequence[dict[str, Any]]) -> None:
        """Append the dead letter of a held job, which is doomed, then note it as done.

        If a process died in between, or the machine, the letter may be there already.
        """
        place = place_of(job)
        if not job.flags & (SUSPECT | DYING) or not self.dead.has(place):
            self.dead.append(place, job.record, job.attempt, reason=reason, history=history)
        failpoint("letter written")
        held, note = self._table.begin_accept([job], self.parts.state.end)
        if not held:
            raise self._lost([job], "rejected")
        self._finish(held, note, notes.DEAD, self.parts.sync)


def place_of(job: Lease) -> Place:
    record = job.record
    key = 0 if record is None else key_hash(record.key)
    return Place(job.start, job.position, job.stop, key, job.print)
