"""Pruner: delete a log's old segments by its retention, oldest first; once, or at intervals."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, get_args

from commitlog.base.host import host
from commitlog.base.option import check_switches
from commitlog.base.progress import Meter, Progress
from commitlog.base.service import Service
from commitlog.errors import CommitLogError, SegmentHeldError
from commitlog.retention.deletion import (
    Below,
    Deletion,
    Limits,
    OldestSegment,
    Waivable,
    Wish,
    waived,
)
from commitlog.retention.holds import Ends, read_holds
from commitlog.retention.retention import Retention
from commitlog.segment import producers_file
from commitlog.segment.directory import LogDirectory
from commitlog.segment.seal_table import SealTable

_logger = logging.getLogger("commitlog.keep")
_EVERYTHING = 1 << 63


@dataclass(frozen=True)
class Removal:
    """A segment that was deleted, or would be.

    Attributes
    ----------
    path : str
        The segment's file.
    position : int
        The segment's base.
    bytes : int
        The disk space of the file.
    reason : {"max_age", "max_bytes", "min_free"}
        The limit that it exceeds.
    """

    path: str
    position: int
    bytes: int
    reason: str


@dataclass(frozen=True)
class Pruned:
    """Describe the outcome of one prune.

    Attributes
    ----------
    segments : tuple of Removal
        The deleted segments, or those that a dry run would delete, oldest first.
    first_position : int
        The base of the first segment that stays.
    stopped_by : str
        Why that segment stays, in a sentence.
    complete : bool
        Whether every segment that exceeds a limit was deleted.
    dry_run : bool
        Nothing was deleted.
    kept : bool
        The segments were archived, and nothing was deleted.
    """

    segments: tuple[Removal, ...]
    first_position: int
    stopped_by: str
    complete: bool
    dry_run: bool
    kept: bool = False

    @property
    def bytes(self) -> int:
        """Return the disk space of all segments."""
        return sum(removal.bytes for removal in self.segments)


class Archive(Protocol):
    """Where segments are kept before they are deleted."""

    def check(self, number: int) -> object:
        """Raise if `put` would be refused."""

    def put(self, number: int) -> object:
        """Keep a sealed segment."""


@dataclass(frozen=True)
class LogState:
    """What a pruner must know of the log beyond its files.

    `ends` returns where the durable part ends, and what the required copies have. `holders` names
    those in this process that hold a segment. `remove` deletes the oldest segment, unless it is
    held for so many seconds; `check` raises what `remove` would, and changes nothing.
    """

    ends: Callable[[], Ends]
    holders: Callable[[int], list[str]]
    remove: Callable[[int, float], object]
    check: Callable[[], object]


class Pruner:
    """Delete the old segments of one log. Any thread may call; one prune runs at a time."""

    def __init__(self, directory: LogDirectory, state: LogState) -> None:
        self.path = directory.path
        self._directory = directory
        self._state = state
        self._size = directory.segment_size
        self._lock = threading.RLock()  # a handler of a warning may prune
        self._producers_below = 0

    def forked(self) -> None:
        """In the child of a fork: another thread of the parent may have held the lock."""
        self._lock = threading.RLock()

    def prune(
        self,
        retention: Retention,
        archive: Archive | None = None,
        *,
        dry_run: bool = False,
        keep: bool = False,
        force: object = (),
        progress: Progress | None = None,
    ) -> Pruned:
        """Archive and delete the segments that exceed a limit, unless it is a dry run.

        Without an archive, they are only deleted. With `keep`, they are only archived; then the
        last sealed segment and segments that a hold keeps are archived, too. If one cannot be
        deleted or archived, this raises; the segments before it are deleted.
        """
        check_switches(dry_run=dry_run, keep=keep)
        with self._lock:
            plan = self._plan(self._limits(retention), waived(force), copies_only=keep)
            meter = Meter(progress, sum(removal.bytes for removal in plan.removals))
            gone: list[Removal] = []
            try:
                for removal in plan.removals:
                    act = self._check if dry_run else self._remove
                    act(plan, removal, archive, keep=keep)
                    gone.append(removal)
                    meter.add(removal.bytes)
                meter.end()
            except SegmentHeldError as error:
                # A holder appeared after the check.
                first = plan.removals[len(gone)].position
                return Pruned(tuple(gone), first, error.message, complete=False, dry_run=False)
            finally:
                if gone and not dry_run and not keep:
                    self._directory.sync()
            return plan.done(gone, dry_run=dry_run, kept=keep)

    def delete_before(self, number: int, force_after_s: float, force: object = ()) -> Pruned:
        """Delete the segments below a number, and wait for holders of this process; if a segment is
        held longer, raise `SegmentHeldError`: the segments before it are deleted.
        """
        with self._lock:
            plan = self._plan(Below(number), waived(force), waits=True)
            gone: list[Removal] = []
            try:
                for removal in plan.removals:
                    self._keep_producers(plan)
                    self._state.remove(removal.position // self._size, force_after_s)
                    gone.append(removal)
            finally:
                if gone:
                    self._directory.sync()
        hold = plan.deletion.stopping
        if hold is not None:
            _logger.log(
                logging.WARNING if hold.name in get_args(Waivable) else logging.INFO,
                "%s: delete_before stops at the segment at position %d: %s",
                self._directory.path,
                plan.first * self._size,
                hold.reason,
            )
        return plan.done(gone)

    def wanted_end(self, retention: Retention) -> int:
        """Return where the segments end that exceed a limit, and that are not durable yet; 0 if
        there is none.
        """
        with self._lock:
            everything = replace(self._state.ends(), flushed=_EVERYTHING)
            plan = self._plan(self._limits(retention), frozenset(), ends=everything)
        return plan.removals[-1].position + self._size if plan.removals else 0

    def _plan(
        self,
        wish: Wish,
        without: frozenset[str],
        *,
        ends: Ends | None = None,
        copies_only: bool = False,
        waits: bool = False,
    ) -> _Plan:
        seals = SealTable(self._directory)
        known = self._state.ends() if ends is None else ends
        holds = read_holds(self._directory, seals, known, without)
        deletion = Deletion(wish, holds, copies_only=copies_only, waits=waits)
        by_age = isinstance(wish, Limits) and wish.oldest_ns is not None
        plan = _Plan(deletion, self._size)
        numbers = self._directory.segment_numbers()
        for number in numbers:
            segment = OldestSegment(
                number,
                self._directory.disk_bytes(number),
                sealed=seals.get(number) is not None,
                followed=seals.get(number + 1) is not None,
                rolled_ns=self._rolled_ns(number) if by_age else None,
                holders=self._state.holders(number),
            )
            reason = deletion.decide(segment)
            if reason is None:
                plan.first = number
                return plan
            path = self._directory.segment_path(number)
            plan.removals.append(Removal(path, number * self._size, segment.disk_bytes, reason))
        plan.first = numbers[-1] + 1 if numbers else 0
        return plan

    def _limits(self, retention: Retention) -> Limits:
        now_ns = host.time_ns()
        excess = 0
        if retention.max_bytes is not None:
            numbers = self._directory.segment_numbers()
            excess = sum(map(self._directory.disk_bytes, numbers)) - retention.max_bytes
        age = retention.max_age
        return Limits(
            excess_bytes=excess,
            missing_bytes=self._room_missing(retention),
            oldest_ns=None if age is None else now_ns - int(age.total_seconds() * 1e9),
            closed=None
            if retention.acts_at(now_ns)
            else f"the time of day is outside {retention.between} ({retention.time_zone}), and the "
            "disk has enough free space",
        )

    def _room_missing(self, retention: Retention) -> int:
        if retention.min_free_bytes is None and retention.min_free_percent is None:
            return 0
        status = os.fstatvfs(self._directory.fd)
        return (
            retention.room_wanted(status.f_blocks * status.f_frsize)
            - status.f_bavail * status.f_frsize
        )

    def _rolled_ns(self, number: int) -> int | None:
        """Return when the log rolled past a segment, from its successor's header, or None."""
        with (
            contextlib.suppress(CommitLogError),
            self._directory.opened_segment(number + 1) as segment,
        ):
            return segment.opened_ns or None
        return None

    def _check(self, plan: _Plan, removal: Removal, archive: Archive | None, *, keep: bool) -> None:
        """Raise what `_remove` would, and change nothing."""
        if archive is not None:
            archive.check(removal.position // self._size)
        if not keep:
            self._state.check()

    def _remove(
        self, plan: _Plan, removal: Removal, archive: Archive | None, *, keep: bool
    ) -> None:
        number = removal.position // self._size
        if archive is not None:
            archive.put(number)
        if not keep:
            self._keep_producers(plan)
            self._state.remove(number, 0.0)

    def _keep_producers(self, plan: _Plan) -> None:
        """Bring the file `producers` up to the segments that are about to be deleted, once for all
        of them and for some later ones.
        """
        if plan.first > self._producers_below:
            self._producers_below = producers_file.keep(self._directory, plan.first)


@dataclass
class _Plan:
    """The segments to delete, oldest first, and the number of the first one that stays."""

    deletion: Deletion
    size: int
    first: int = 0
    removals: list[Removal] = field(default_factory=list)

    def done(self, gone: list[Removal], *, dry_run: bool = False, kept: bool = False) -> Pruned:
        return Pruned(
            tuple(gone),
            self.first * self.size,
            self.deletion.stopped_by,
            self.deletion.complete,
            dry_run,
            kept,
        )


class RetentionService(Service):
    """Prune at the retention's interval; RocketMQ's CleanCommitLogService.

    `flush` makes the log durable up to a position. It is for logs that no thread flushes: without
    it, none of their segments could be deleted.
    """

    def __init__(
        self,
        path: str,
        retention: Retention,
        pruner: Pruner,
        *,
        flush: Callable[[int], object] | None = None,
    ) -> None:
        super().__init__(f"commitlog retention {path}")
        self._path = path
        self._retention = retention
        self._pruner = pruner
        self._flush = flush
        self._warned = ""

    def run(self) -> None:
        while not self.ending.wait(self._retention.interval):
            try:
                if self._flush is not None:
                    self._flush(self._pruner.wanted_end(self._retention))
                self._report(self._pruner.prune(self._retention))
            except (CommitLogError, OSError) as error:
                self._warn_once(f"retention failed and will try again: {error}")

    def _report(self, pruned: Pruned) -> None:
        if pruned.segments:
            _logger.info(
                "%s: retention deleted %d segments, %d bytes",
                self._path,
                len(pruned.segments),
                pruned.bytes,
            )
        if pruned.complete:
            self._warned = ""
        else:
            self._warn_once(
                f"retention stops at the segment at position {pruned.first_position}: "
                f"{pruned.stopped_by}"
            )

    def _warn_once(self, what: str) -> None:
        if what != self._warned:
            self._warned = what
            _logger.warning("%s: %s", self._path, what)
