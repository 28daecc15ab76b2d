"""Make the leases of a queue anew, of its state log and its log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

from commitlog import CommitLog, Record
from commitlog.base.failpoint import failpoint
from commitlog.errors import CommitLogError
from commitlog.queues.compiled.leases import (
    AGAIN,
    DYING,
    SLOTS,
    SUSPECT,
    LeaseTable,
    fingerprint,
    key_hash,
)
from commitlog.queues.dead_letters import DeadLetters
from commitlog.queues.notes import Place, Print
from commitlog.queues.replay import Replay, Settled
from commitlog.queues.spans import Span
from commitlog.queues.state_log import Loaded, StateLog
from commitlog.queues.worker import boot_ns

_logger = logging.getLogger("commitlog")


def settled(log: CommitLog, path: str, loaded: Loaded, dead: DeadLetters) -> Settled:
    """Return what is left of a queue."""
    replay = loaded.replay
    replay.compare(*dead.of_copy(replay.wants_letter, loaded.last_ns))

    def has(print: Print) -> bool:
        return has_record(log, print)

    end = replay.trusted_end(has)
    if end < replay.noted_end:
        _logger.warning(
            "queue %s: its log has other records behind position %d than those that were done "
            "there: it was cut, or is another copy; these jobs come again",
            path,
            end,
        )
    return replay.settle(end, has)


def agree(log: CommitLog, state: StateLog, table: LeaseTable, replay: Replay) -> bool:
    """Return whether leases without workers are of the same moment as the log and the state.

    A backup that was restored over them is older or newer, although file and boot are the same.
    """
    top, print = table.top
    if table.scan > log.tail_position or state.end <= max(table.noted, table.base):
        return False
    if print and not has_record(log, Print(top, table.scan, print)):
        return False
    held = [job[1] for job in table.snapshot()[1] if job[6] != "accepting"]
    return replay.agrees(table.scan, held)


def has_record(log: CommitLog, print: Print) -> bool:
    """Return whether the log has a record, or has deleted it."""
    if print.position < log.first_position:
        return True
    try:
        return bool(fingerprint(log.read(print.position)) == print.print)
    except CommitLogError:  # there is none, or it is damaged
        return False


def restore(
    log: CommitLog,
    state: StateLog,
    table: LeaseTable,
    settled: Settled,
    wants: Callable[[Record], bool] | None,
    *,
    is_suspect: bool,
) -> None:
    """Add the jobs that are not done to an empty table of leases."""
    count = 0
    if settled.prints:
        table.top = settled.prints[-1].position, settled.prints[-1].print
    for gap in settled.gaps:
        for place in _places(log, gap, wants):
            tried = settled.tried.get(place.position)
            if tried is not None and tried.place.print != place.print:
                tried = None
            if count == SLOTS:
                table.scan = place.start  # those behind are found again by a scan
                return
            attempt, until_ns, history, flags = 0, 0, -1, SUSPECT if is_suspect else 0
            if tried is not None:
                attempt, until_ns = tried.attempt, _boot_time(tried.not_before_ns)
                if tried.history:
                    flags |= DYING if tried.history[-1]["what"] == "rejected" else 0
                    (history,) = state.append_tried([tried], sync=False)
            if place.position in settled.letters and not flags & DYING:
                flags |= AGAIN  # its letter is removed when it is handed out
            table.restore(tuple(place), attempt, until_ns, history, flags)
            count += 1
            if place.position > table.top[0]:
                table.top = place.position, place.print
    failpoint("jobs restored")


def _places(log: CommitLog, gap: Span, wants: Callable[[Record], bool] | None) -> Iterator[Place]:
    """Yield the jobs of a span of the log."""
    start, stop = gap
    start = max(start, log.first_position)
    if start >= stop:
        return
    before: Record | None = None
    with log.tailer(on_damage="skip") as tailer:
        tailer.seek(start)
        for record in tailer:
            if record.position >= stop:
                break
            if wants is not None and not wants(record):
                continue
            if before is not None:
                yield _place(before, start, record.position)
                start = record.position
            before = record
        if before is not None:
            yield _place(before, start, stop)


def _place(record: Record, start: int, stop: int) -> Place:
    return Place(start, record.position, stop, key_hash(record.key), fingerprint(record))


def _boot_time(not_before_ns: int) -> int:
    """Convert a time of the wall clock to one of CLOCK_BOOTTIME; 0 if it is over."""
    wait_ns = not_before_ns - time.time_ns()
    return boot_ns() + wait_ns if not_before_ns and wait_ns > 0 else 0


def wall_time(until_ns: int) -> int:
    """Convert a time of CLOCK_BOOTTIME to one of the wall clock."""
    return until_ns - boot_ns() + time.time_ns() if until_ns else 0
