"""Pruner: delete a log's old segments by its retention, oldest first; once, or at intervals."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from commitlog.base.service import Service
from commitlog.errors import CommitLogError, SegmentHeldError
from commitlog.retention import retention as clock
from commitlog.retention.archiver import Archiver
from commitlog.retention.retention import Retention
from commitlog.segment.directory import LogDirectory
from commitlog.segment.seal_table import SealTable
from commitlog.tail.tailer_state import lowest_required

_logger = logging.getLogger("commitlog.keep")


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


@dataclass(frozen=True)
class LogState:
    """What a pruner must know of the log beyond its files.

    `flushed_position` is where the durable part ends, and `holders` names those that hold a
    segment. `remove` deletes the oldest segment, unless it is held; `check` raises what `remove`
    would, and changes nothing.
    """

    flushed_position: Callable[[], int]
    holders: Callable[[int], list[str]]
    remove: Callable[[int], object]
    check: Callable[[], object]


class Pruner:
    """Delete the old segments of one log. Any thread may call; one prune runs at a time."""

    def __init__(self, directory: LogDirectory, state: LogState) -> None:
        self._directory = directory
        self._state = state
        self._size = directory.segment_size
        self._lock = threading.Lock()

    def prune(
        self,
        retention: Retention,
        archiver: Archiver | None = None,
        *,
        dry_run: bool = False,
        keep: bool = False,
    ) -> Pruned:
        """Archive and delete the segments that exceed a limit, unless it is a dry run.

        Without an archiver, they are only deleted. With `keep`, they are only archived; then the
        last sealed segment and segments that a tailer or a holder needs are archived, too. If one
        cannot be deleted or archived, this raises; the segments before it are deleted.
        """
        with self._lock:
            survey = _Survey(self._directory, self._state, retention, keep=keep)
            gone: list[Removal] = []
            try:
                for removal in survey.removals():
                    act = self._check if dry_run else self._remove
                    act(removal, archiver, keep=keep)
                    gone.append(removal)
            except SegmentHeldError as error:
                # A holder appeared after the check.
                return Pruned(
                    tuple(gone),
                    survey.first * self._size,
                    error.message,
                    complete=False,
                    dry_run=False,
                )
            finally:
                if gone and not dry_run and not keep:
                    self._directory.sync()
            return Pruned(
                tuple(gone),
                survey.first * self._size,
                survey.stopped_by,
                survey.complete,
                dry_run,
                keep,
            )

    def _check(self, removal: Removal, archiver: Archiver | None, *, keep: bool) -> None:
        """Raise what `_remove` would, and change nothing."""
        if archiver is not None:
            archiver.check(removal.position // self._size)
        if not keep:
            self._state.check()

    def _remove(self, removal: Removal, archiver: Archiver | None, *, keep: bool) -> None:
        number = removal.position // self._size
        if archiver is not None:
            archiver.put(number)
        if not keep:
            self._state.remove(number)

    def limit_of_tailers(self) -> int | None:
        """Return the first segment that the slowest required tailer has yet to read, or None."""
        return _required_number(self._directory, SealTable(self._directory))


class _Survey:
    """The state of the segments at one prune: which may be deleted, and what stops the prune."""

    def __init__(
        self,
        directory: LogDirectory,
        state: LogState,
        retention: Retention,
        *,
        keep: bool,
    ) -> None:
        self._directory = directory
        self._state = state
        self._retention = retention
        self._keep = keep
        self._size = directory.segment_size
        self._seals = SealTable(directory)
        self._now_ns = clock.now_ns()
        self.first = 0
        self.stopped_by = "the log has no segments"
        self.complete = True

    def removals(self) -> Iterator[Removal]:
        """Yield the segments to delete, oldest first, each after the one before it is deleted."""
        numbers = self._directory.segment_numbers()
        on_disk = {number: self._directory.disk_bytes(number) for number in numbers}
        acts = self._retention.acts_at(self._now_ns)
        excess = (
            sum(on_disk.values()) - self._retention.max_bytes
            if acts and self._retention.max_bytes is not None
            else 0
        )
        missing = self._room_missing()
        required = _required_number(self._directory, self._seals)
        flushed = self._state.flushed_position() // self._size
        for number in numbers:
            self.first = number
            reason = self._reason(number, acts=acts, excess=excess, missing=missing)
            if reason is None:
                return
            self.complete = False
            obstacle = self._obstacle(number, flushed, required)
            if obstacle is not None:
                self.stopped_by = obstacle
                return
            self.complete = True
            path = self._directory.segment_path(number)
            yield Removal(path, number * self._size, on_disk[number], reason)
            excess -= on_disk[number]
            missing -= on_disk[number]
        self.first = numbers[-1] + 1 if numbers else 0

    def _reason(self, number: int, *, acts: bool, excess: int, missing: int) -> str | None:
        """Return the limit that a segment exceeds; None, and set `stopped_by`, if there is none."""
        if missing > 0:
            return "min_free"
        if excess > 0:
            return "max_bytes"
        if acts and self._retention.max_age is not None and self._seals.get(number) is not None:
            rolled_ns = self._rolled_ns(number)
            if (
                rolled_ns is not None
                and self._now_ns - rolled_ns >= self._retention.max_age.total_seconds() * 1e9
            ):
                return "max_age"
        self.stopped_by = (
            "the remaining segments are within every limit"
            if acts
            else f"the time of day is outside {self._retention.between} "
            f"({self._retention.time_zone}), and the disk has enough free space"
        )
        return None

    def _room_missing(self) -> int:
        if self._retention.min_free_bytes is None and self._retention.min_free_percent is None:
            return 0
        status = os.fstatvfs(self._directory.fd)
        return (
            self._retention.room_wanted(status.f_blocks * status.f_frsize)
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

    def _obstacle(self, number: int, flushed: int, required: int | None) -> str | None:
        """Return why a segment that exceeds a limit must stay, or None."""
        if self._seals.get(number) is None:
            return "it is not sealed yet"
        if number >= flushed:
            return "it is not durable yet"
        if self._keep:
            return None
        # The last seal holds the sequence with which the next segment begins.
        if self._seals.get(number + 1) is None:
            return "it is the last sealed segment, which always stays"
        if required is not None and number >= required:
            return f"a required tailer has yet to read from position {required * self._size} on"
        holders = self._state.holders(number)
        return f"it is held by {', '.join(holders)}" if holders else None


def _required_number(directory: LogDirectory, seals: SealTable) -> int | None:
    """Return the first segment that the slowest required tailer has yet to read, or None."""
    position = lowest_required(directory)
    if position is None:
        return None
    number, offset = divmod(position, directory.segment_size)
    seal = seals.get(number)
    # Behind the end there is only the SKIP that closes the segment.
    return number + 1 if seal is not None and offset >= seal.end else number


class RetentionService(Service):
    """Prune at the retention's interval; RocketMQ's CleanCommitLogService."""

    def __init__(self, path: str, retention: Retention, pruner: Pruner) -> None:
        super().__init__(f"commitlog retention {path}")
        self._path = path
        self._retention = retention
        self._pruner = pruner
        self._warned = ""

    def run(self) -> None:
        while not self.ending.wait(self._retention.interval):
            try:
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
