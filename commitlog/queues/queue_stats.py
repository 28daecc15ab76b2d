"""QueueStats: the figures of a queue."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from commitlog.errors import CommitLogError, PositionError
from commitlog.queues.dead_letters import DeadLetters
from commitlog.queues.parts import Parts
from commitlog.queues.worker import boot_ns


@dataclass(frozen=True)
class HeldJob:
    """A job that a worker holds. Ages and ends are in seconds."""

    position: int
    attempt: int
    worker: int
    pid: int
    age_s: float
    lease_left_s: float


@dataclass(frozen=True)
class QueueStats:
    """The figures of a queue.

    Attributes
    ----------
    depth : int or None
        Jobs that are not finished; None while an open claim hides how many records there are.
    lag_bytes : int
        Bytes of the log that no worker has looked at yet.
    available, waiting, held : int
        Jobs that were looked at: those that can be taken, or wait for a time or for another job of
        their key; and those that workers hold.
    taken, accepted, released, expired, orphaned, died : int
        How often that happened since the leases were made; `expired` by the end of a lease,
        `orphaned` by the death of a worker.
    dead : int
        Dead letters.
    oldest_s : float or None
        The age of the oldest record that is not finished.
    paused : bool
        No job is handed out.
    jobs : tuple of HeldJob
        The jobs that workers hold, the oldest record first.
    workers : tuple of (int, int)
        The pid of each worker, and how many jobs it holds.
    """

    name: str
    depth: int | None
    lag_bytes: int
    available: int
    waiting: int
    held: int
    taken: int
    accepted: int
    released: int
    expired: int
    orphaned: int
    died: int
    dead: int
    oldest_s: float | None
    paused: bool
    jobs: tuple[HeldJob, ...] = field(default=())
    workers: tuple[tuple[int, int], ...] = field(default=())


def queue_stats(parts: Parts, dead: DeadLetters) -> QueueStats:
    """Return the figures of a queue, as its files say now."""
    table, log = parts.table, parts.log
    now_ns = boot_ns()
    counts = table.counts()
    scan, jobs = table.snapshot()
    workers = table.workers()
    pids = {number: pid for number, pid, _, _ in workers}
    end = log.tail_position
    held = tuple(
        HeldJob(
            job[1],
            job[5],
            job[7],
            pids.get(job[7], 0),
            (now_ns - job[9]) / 1e9,
            max(0.0, (job[8] - now_ns) / 1e9),
        )
        for job in jobs
        if job[6] == "acquired"
    )
    return QueueStats(
        name=parts.name,
        depth=_depth(parts, scan, len(jobs)),
        lag_bytes=max(0, end - scan),
        available=sum(job[6] == "available" for job in jobs),
        waiting=sum(job[6] == "waiting" for job in jobs),
        held=len(held),
        taken=counts["taken"],
        accepted=counts["accepted"],
        released=counts["released"],
        expired=counts["expired"],
        orphaned=counts["orphaned"],
        died=counts["dead"],
        dead=len(dead),
        oldest_s=_oldest_s(parts, scan, jobs),
        paused=table.paused,
        jobs=held,
        workers=tuple((pid, count) for _, pid, count, _ in workers),
    )


def _depth(parts: Parts, scan: int, seen: int) -> int | None:
    """Count the jobs that are not finished; of a queue of a topic, records of others, too."""
    view = parts.view
    try:
        end = view.sequence_of(view.committed_position)
        return seen + max(0, end - view.sequence_of(max(scan, parts.log.first_position)))
    except (CommitLogError, IndexError):
        return None


def _oldest_s(parts: Parts, scan: int, jobs: list[tuple[int, ...]]) -> float | None:
    start = jobs[0][1] if jobs else max(scan, parts.log.first_position)
    try:
        with parts.log.tailer(start=start) as tailer:
            record = tailer.read()
    except PositionError:
        return None
    return None if record is None else max(0.0, (time.time_ns() - record.timestamp_ns) / 1e9)
