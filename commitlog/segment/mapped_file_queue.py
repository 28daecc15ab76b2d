"""MappedFileQueue: a log's mapped segments in their order, and their holders."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from commitlog._kernel.engine import Committer, Core
from commitlog._kernel.segments import HEADER_SIZE, Segment
from commitlog.base.polling import attempts
from commitlog.base.turn import SHORT_S, Turn
from commitlog.errors import ClosedError, IOFailureError, PositionError, SegmentHeldError
from commitlog.segment.directory import LogDirectory

_MOMENT_S = 1.0  # how long to wait for short-term holders
_POLL_S = 0.001
_HOLD_ATTEMPTS = 100  # each finds another thread that unmaps the segment as idle
_EVERY_SEGMENT = 1 << 62


class _Holder(NamedTuple):
    who: str
    since: float  # seconds since 1970
    briefly: bool  # held only for the duration of one operation


class MappedFile:
    """A mapped segment with a reference count of named holders.

    `hold` adds a holder, `release` removes it; `drain` admits no new holder and waits for the last.
    The model is RocketMQ's ReferenceResource, which after its interval unmaps despite a holder;
    here an error names the hung holder instead, and its mapping stays.

    There is no lock, because appends hold segments: see `commitlog/base/turn.py`. A holder enters
    itself, then checks that it was admitted; who shuts the segment down admits none, then checks
    that there is no holder.
    """

    def __init__(self, core: Core, segment: Segment) -> None:
        self._core = core
        self.segment = segment
        self.number: int = segment.number
        self.base: int = segment.base
        self.size: int = segment.size
        self.path: str = segment.path
        self._tokens = itertools.count(1)
        self._holders: dict[int, _Holder] = {}
        self._available = True

    @property
    def holders(self) -> list[tuple[str, float]]:
        """The holders, and since when (seconds since 1970)."""
        return [(holder.who, holder.since) for holder in self._present()]

    @property
    def staying(self) -> list[str]:
        return [holder.who for holder in self._present() if not holder.briefly]

    def _present(self) -> list[_Holder]:
        return list(self._holders.copy().values())

    def _has_brief(self) -> bool:
        return any(holder.briefly for holder in self._present())

    @property
    def is_idle(self) -> bool:
        """Whether nothing here needs the mapping."""
        try:
            return not self._holders and not self.segment.buffered
        except ClosedError:
            return False  # another thread has unmapped it

    def hold(self, who: str, *, briefly: bool = False) -> int | None:
        """Add a holder. A brief holder must release the segment at once.

        Return a token for `release`; None when the segment is being shut down.
        """
        token = next(self._tokens)
        self._holders[token] = _Holder(who, time.time(), briefly)
        if self._available:
            return token
        self.release(token)
        return None

    def release(self, token: int) -> None:
        """Remove a holder. A token that was released before is no error."""
        self._holders.pop(token, None)

    def forked(self) -> None:
        """In the child of a fork: brief holders are threads of the parent; tailers and views exist
        in the child, too.
        """
        self._holders = {
            token: holder for token, holder in self._holders.items() if not holder.briefly
        }

    def unmap(self) -> None:
        self._core.forget(self.number)
        self.segment.release()

    def retire(self) -> bool:
        """Admit no new holder, if there is none and no deletion waits; return whether so."""
        if not self._available:
            return False
        self._available = False
        if not self._holders:
            return True
        self._available = True
        return False

    def drain(self, force_after: float) -> None:
        """Admit no new holder, and wait for the present ones to release: for the brief ones, then
        for the others at most `force_after` seconds. The mapping stays.

        If it still has holders, `SegmentHeldError` names them, and the segment is available again.
        """
        for _ in attempts(_MOMENT_S, f"the users of {self.path}", interval_s=_POLL_S):
            if not self._has_brief():
                break
        self._available = False
        for _ in attempts(force_after, f"the holders of {self.path}", interval_s=_POLL_S):
            if not self._holders:
                return
        self._available = True
        holders = self.holders
        names = ", ".join(f"{who} for {time.time() - since:.1f} s" for who, since in holders)
        raise SegmentHeldError(
            f"the segment is still held after {force_after:g} s, by {names}: close those, "
            "then try again",
            path=self.path,
            position=self.base,
            holders=holders,
        )


# "created": made, ahead of need or not. "sealed": nothing in it changes any more. "released": this
# handle has unmapped it. "deleted": its file is gone.
Event = Literal["created", "sealed", "released", "deleted"]
Report = Callable[[Event, int], None]


def _ignore(event: Event, number: int) -> None: ...


class MappedFileQueue:
    """The segments of one open log. `report` gets each event of a segment, by its number; it must
    neither wait nor raise. A handle that is not `writable` has nothing to commit or flush, so the
    kernel keeps no segment for it.

    Segments are numbered from 0 by their base; the number of a position is one division away, and
    no lookup walks a list. There is no lock, because appends hold segments: each change is one
    operation on the dictionary.
    """

    def __init__(self, core: Committer, directory: LogDirectory, *, writable: bool = True) -> None:
        self.core = core
        self._writable = writable
        self.directory = directory
        self._files: dict[int, MappedFile] = {}
        self._closed = False
        self._first: int | None = None
        self.report: Report = _ignore
        self._deleted_below = 0
        self._deleted_turn = Turn(SHORT_S)
        self._idle_kept = directory.idle_kept

    def keep_viewed(self) -> None:
        """Keep more segments mapped from now on, for readers that touch few pages of each."""
        self._idle_kept = self.directory.viewed_kept

    def watch(self, report: Report) -> None:
        """Report events from now on."""
        self._deleted_below = self.first_number
        self.report = report

    @property
    def watched(self) -> bool:
        return self.report is not _ignore

    def get(self, number: int) -> MappedFile:
        """Return the segment with that number, and map it if necessary; if there is none, raise
        `PositionError`; if the log was cut at a fork meanwhile, `FencedError`.
        """
        self._check_open()
        file = self._files.get(number) or self._map(number)
        self.core.check_cut()  # after the file was opened by its name: it may be a new one
        return file

    def _map(self, number: int) -> MappedFile:
        """Map a segment; if another thread has mapped it meanwhile, return its file."""
        mapped = MappedFile(self.core, self._open(number))
        file = self._files.setdefault(number, mapped)
        if file is not mapped:
            mapped.segment.release()
            return file
        if self._closed:
            self._files.pop(number, None)
            mapped.unmap()
            self._check_open()
        self._drop_idle(number)
        return file

    def _open(self, number: int) -> Segment:
        self.directory.fetch(number)
        found = self.directory.elsewhere(number)
        try:
            return found or self.core.acquire(number)
        except PositionError:
            # Retention may have deleted it from the disk meanwhile, and a store may have it.
            self.directory.fetch(number)
            return self.directory.elsewhere(number) or self.core.acquire(number)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the log is closed: open it again", path=self.core.path)

    def _drop_idle(self, newest: int) -> None:
        idle = [
            file for number, file in self._files.copy().items() if number != newest and file.is_idle
        ]
        excess = len(idle) - self._idle_kept
        for file in idle[: max(0, excess)]:
            self._drop(file)
        # If another process has deleted a segment, only its mapping keeps its disk space in use.
        # The oldest segments are deleted first.
        for file in sorted(idle[max(0, excess) :], key=lambda each: each.number):
            if self.directory.has(file.number):
                break
            self._drop(file)

    def _drop(self, file: MappedFile) -> None:
        """Unmap a segment, unless it has a holder by now."""
        # Before it admits no holder: a thread that is refused then maps the segment anew.
        taken = self._files.pop(file.number, None)
        if taken is None:
            return  # another thread drops it
        if taken is not file or not file.retire():
            self._files.setdefault(file.number, taken)
            return
        if not self._writable or file.base + file.size <= self.core.flushed_position:
            self.core.forget(file.number)
        file.segment.release()
        self.report("released", file.number)

    def hold(
        self, number: int, who: str, *, briefly: bool = False
    ) -> tuple[MappedFile, int] | None:
        """Return the segment, and the token that releases the hold; None if there is no such
        segment.
        """
        for _ in range(_HOLD_ATTEMPTS):
            try:
                file = self.get(number)
            except PositionError:
                return None
            token = file.hold(who, briefly=briefly)
            if token is not None:
                return file, token
            if self._files.get(number) is file:
                return None  # it is being deleted
        return None

    @contextlib.contextmanager
    def held(self, number: int, who: str) -> Iterator[Segment | None]:
        """Hold a segment for the length of a `with`; None if there is no such segment."""
        held = self.hold(number, who, briefly=True)
        if held is None:
            yield None
            return
        file, token = held
        try:
            yield file.segment
        finally:
            file.release(token)

    def numbers(self) -> list[int]:
        """Return the numbers of all segments, ascending, those allocated ahead included."""
        self._check_open()
        return self.directory.segment_numbers()

    @property
    def first_number(self) -> int:
        """The oldest segment's number. Nothing is ever added before it, so the directory is read
        anew only when it is gone.
        """
        self._check_open()
        first = self._first
        if first is None or not self.directory.has(first):
            numbers = self.numbers()
            first = self._first = numbers[0] if numbers else None
        return first or 0

    def first_remaining(self) -> int:
        """Return the oldest segment's number for an error, however long ago it was looked for."""
        self.directory.look_again()
        return self.first_number

    def delete(self, number: int, force_after: float) -> None:
        """Remove the oldest segment once it has no holder; durably with the directory's next sync.
        If it still has one after `force_after` seconds, it stays: `SegmentHeldError`.
        """
        # The checkpoint may lag; a log without live writers must not seem to end below its start.
        self.core.settle_checkpoint((number + 1) * self.core.segment_size)
        self._flush_header(number + 1)
        try:
            file = self.get(number)
        except PositionError:
            pass  # another process has removed it; its index may remain
        else:
            file.drain(force_after)
            is_listed = self._files.pop(number, None) is not None
            file.unmap()
            if is_listed:
                self.report("released", number)
        self.directory.remove_segment(number)
        self._tell_deleted(number + 1)

    def _tell_deleted(self, below: int) -> None:
        with self._deleted_turn.taken():
            start, self._deleted_below = self._deleted_below, max(self._deleted_below, below)
        for number in range(start, below):
            self.report("deleted", number)

    def drop_deleted(self) -> None:
        """Unmap segments that others have deleted: a mapping keeps their disk space in use."""
        first = self.first_number
        for file in self._files.copy().values():
            if file.number < first and file.is_idle:
                self._drop(file)
        # The search for the end of the log has mapped segments, too.
        self.core.trim(first if self._writable else _EVERY_SEGMENT, 0)
        self._tell_deleted(first)

    def holders(self, number: int) -> list[str]:
        """Return the names of a segment's long-term holders in this process."""
        file = self._files.get(number)
        return [] if file is None else file.staying

    def _flush_header(self, number: int) -> None:
        """Make a seal durable: its predecessors gone, only it records its first sequence."""
        with self.held(number, "seal") as segment:
            if segment is None:
                return
            try:
                segment.flush(0, HEADER_SIZE)
            except IOFailureError as error:
                # Linux reports a writeback error only once. This error may concern records
                # that a flush waits for, so the log fails.
                self.core.fail(error.errno or 0)
                self.core.check_failed()

    def forked(self) -> None:
        """In the child of a fork, where no thread of the parent goes on."""
        self._deleted_turn.forked()
        self.report = _ignore
        for file in self._files.values():
            file.forked()

    def close(self) -> None:
        """Release every mapping that is held here. Views and tailers keep theirs."""
        self._closed = True
        while self._files:
            number = next(iter(self._files.copy()))
            file = self._files.pop(number, None)
            if file is not None:
                file.unmap()
                self.report("released", number)
