"""Pruner: finds the segments of a log that may go, and lets them go, oldest first."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from commitlog.errors import CommitLogError, SegmentHeldError
from commitlog.retention import retention as clock
from commitlog.retention.archive import Archiver
from commitlog.retention.retention import Retention
from commitlog.segment.directory import LogDirectory
from commitlog.segment.seal_table import SealTable


@dataclass(frozen=True)
class Removal:
    """A segment that went, or would.

    Attributes
    ----------
    path : str
        Its file.
    position : int
        Its base.
    bytes : int
        What it takes on the disk.
    reason : {"max_age", "max_bytes", "min_free"}
        What asked for it.
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
        """What all of them take on the disk."""
        return sum(removal.bytes for removal in self.segments)


@dataclass(frozen=True)
class LogState:
    """What a pruner must know of the log beyond its files.

    Attributes
    ----------
    flushed_position : callable
        Up to where the log is durable.
    lowest_required : callable
        The position of the required named tailer that is farthest behind; None where there is none.
    holders : callable
        Who holds a segment, by its number.
    remove : callable
        Delete the oldest segment, by its number, never under a holder.
    settle : callable
        Make the deletions so far durable.
    check : callable
        Raise what `remove` would, and change nothing.
    """

    flushed_position: Callable[[], int]
    lowest_required: Callable[[], int | None]
    holders: Callable[[int], list[str]]
    remove: Callable[[int], object]
    settle: Callable[[], object]
    check: Callable[[], object]


class Pruner:
    """Deletes the segments of one log. Any thread may ask; one look is taken at a time.

    Parameters
    ----------
    directory : LogDirectory
        Where the segments are.
    state : LogState
        What else it must know.
    """

    def __init__(self, directory: LogDirectory, state: LogState) -> None:
        self._directory = directory
        self._state = state
        self._size = directory.segment_size
        self._lock = threading.Lock()

    def prune(self, retention: Retention, *, dry_run: bool = False, keep: bool = False) -> Pruned:
        """Look at the segments once; archive and delete what may go, unless it is a dry run. With
        `keep` they are archived alone, and then neither the last sealed one is spared nor one that
        somebody needs.

        Raises
        ------
        CommitLogError
            A segment could not be deleted or archived; those before it are gone.
        """
        with self._lock:
            look = _Look(self._directory, self._state, retention, keep=keep)
            archiver = (
                None if retention.archive is None else Archiver(self._directory, retention.archive)
            )
            gone: list[Removal] = []
            try:
                for removal in look.removals():
                    let_go = self._check if dry_run else self._let_go
                    let_go(removal, archiver, keep=keep)
                    gone.append(removal)
            except SegmentHeldError as error:
                # A holder appeared after the check.
                return Pruned(
                    tuple(gone),
                    look.first * self._size,
                    error.message,
                    complete=False,
                    dry_run=False,
                )
            finally:
                if gone and not dry_run and not keep:
                    self._state.settle()
            return Pruned(
                tuple(gone), look.first * self._size, look.stopped_by, look.complete, dry_run, keep
            )

    def _check(self, removal: Removal, archiver: Archiver | None, *, keep: bool) -> None:
        """Raise what `_let_go` would, and change nothing."""
        if archiver is not None:
            archiver.check(removal.position // self._size)
        if not keep:
            self._state.check()

    def _let_go(self, removal: Removal, archiver: Archiver | None, *, keep: bool) -> None:
        number = removal.position // self._size
        if archiver is not None:
            archiver.put(number)
        if not keep:
            self._state.remove(number)

    def limit_of_tailers(self) -> int | None:
        """The number of the segment that the slowest required tailer has yet to read from; None
        where there is none.
        """
        return _Look(self._directory, self._state, None).required_number()


class _Look:
    """One look at the segments: what may go, and why no more than that."""

    def __init__(
        self,
        directory: LogDirectory,
        state: LogState,
        retention: Retention | None,
        *,
        keep: bool = False,
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
        """The segments that may go, oldest first. Each is asked for when the one before it is
        gone.
        """
        numbers = self._directory.segment_numbers()
        on_disk = {number: self._directory.disk_bytes(number) for number in numbers}
        assert self._retention is not None
        acts = self._retention.acts_at(self._now_ns)
        excess = (
            sum(on_disk.values()) - self._retention.max_bytes
            if acts and self._retention.max_bytes is not None
            else 0
        )
        missing = self._room_missing()
        required = self.required_number()
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
        """What asks for a segment; None, and why not, where nothing does."""
        assert self._retention is not None
        if missing > 0:
            return "min_free"
        if excess > 0:
            return "max_bytes"
        if acts and self._retention.max_age is not None and self._seals.get(number) is not None:
            rolled_ns = self._rolled_ns(number)
            if (
                rolled_ns is not None
                and self._now_ns - rolled_ns >= self._retention.max_age_s * 1e9
            ):
                return "max_age"
        self.stopped_by = (
            "no more has to go"
            if acts
            else f"the time of day is not {self._retention.between} "
            f"({self._retention.time_zone}), and there is room on the disk"
        )
        return None

    def _room_missing(self) -> int:
        assert self._retention is not None
        if self._retention.min_free_bytes is None and self._retention.min_free_percent is None:
            return 0
        status = os.fstatvfs(self._directory.fd)
        return (
            self._retention.room_wanted(status.f_blocks * status.f_frsize)
            - status.f_bavail * status.f_frsize
        )

    def _rolled_ns(self, number: int) -> int | None:
        """Return when the log rolled past a segment, from its successor's header.

        None if that cannot be read (any more).
        """
        with (
            contextlib.suppress(CommitLogError),
            self._directory.opened_segment(number + 1) as segment,
        ):
            return segment.opened_ns or None
        return None

    def _obstacle(self, number: int, flushed: int, required: int | None) -> str | None:
        """Why a segment that should go cannot."""
        if self._seals.get(number) is None:
            return "it is not sealed yet"
        if number >= flushed:
            return "it is not durable yet"
        if self._keep:
            return None
        # Its seal says with which sequence the next one begins.
        if self._seals.get(number + 1) is None:
            return "it is the last sealed segment, which always stays"
        if required is not None and number >= required:
            return f"a required tailer has yet to read from position {required * self._size} on"
        holders = self._state.holders(number)
        return f"it is held by {', '.join(holders)}" if holders else None

    def required_number(self) -> int | None:
        """The first segment with a record that the slowest required tailer has yet to read."""
        position = self._state.lowest_required()
        if position is None:
            return None
        number, offset = divmod(position, self._size)
        seal = self._seals.get(number)
        # Behind the end there is nothing but the SKIP that closes the segment.
        return number + 1 if seal is not None and offset >= seal.end else number
