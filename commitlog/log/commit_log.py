"""CommitLog: the public handle of an open log."""

from __future__ import annotations

from collections.abc import Collection
from typing import Self

from commitlog._kernel.engine import LogMethods
from commitlog._kernel.readers import Record
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.html import fields_table
from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import Duration, parse_duration, whole_of
from commitlog.errors import InvalidOptionError, PositionError
from commitlog.log.arrow_methods import ArrowMethods
from commitlog.log.backups import BackupMethods
from commitlog.log.coroutines import AsyncMethods
from commitlog.log.figures import log_stats
from commitlog.log.open_log import OpenLog
from commitlog.log.parts import Mode
from commitlog.log.views import ViewMethods
from commitlog.options import Options
from commitlog.retention.deletion import Waivable
from commitlog.retention.pruner import Pruned
from commitlog.retention.retention import Retention, checked
from commitlog.segment.identity import Identity
from commitlog.stats import LogStats
from commitlog.tail.seek import Direction, Seeker
from commitlog.tail.tailer import Tailer

_FORCE_AFTER_S = 5.0


class CommitLog(ProcessBound, LogMethods, ArrowMethods, AsyncMethods, BackupMethods, ViewMethods):
    """Append to and read an open log; `commitlog.open` returns it.

    It is a context manager, and any thread may use it. If the last reference is dropped without
    `close`, a separate thread closes the log and a `ResourceWarning` is issued.
    """

    _parts: OpenLog

    def __init__(self, parts: OpenLog) -> None:
        """Wrap an opened log; only `commitlog.open` calls this."""

    @property
    def mode(self) -> Mode:
        """Return the mode given to `commitlog.open`."""
        return self._parts.mode

    @property
    def options(self) -> Options:
        """Return the options given to `commitlog.open`."""
        return self._parts.options

    @property
    def identity(self) -> Identity:
        """Return the settings fixed at creation: uuid, segment size, roll cycle, timestamps."""
        return self._parts.identity

    @property
    def closed(self) -> bool:
        """Return whether `close` was called."""
        return self._parts.closed

    def close(self) -> None:
        """Commit and flush everything, even under ``flush="none"``, then release the log.

        A second call does nothing.

        Raises
        ------
        CloseTimeoutError
            `close_timeout` expired. Nothing is dropped: the log continues to drain, and `close` can
            be called again.
        LogFailedError, IOFailureError
            The log has failed, or a system call failed. The log is closed nevertheless, and the
            next open recovers it.
        """
        self._parts.close()

    def __enter__(self) -> Self:
        self._parts.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- reading ----------------------------------------------------------------------------------

    @property
    def first_position(self) -> int:
        """Return the position at which the oldest remaining record starts, or will start."""
        return self._parts.queue.first_number * self.segment_size + HEADER_SIZE

    def read(self, position: int) -> Record:
        """Read the record at a position.

        Raises
        ------
        PositionError
            No record starts there, or it was deleted.
        CorruptRecordError
            The record is damaged.
        """
        with self._tailer_at(position) as tailer:
            record = tailer.read()
        if record is None or record.position != position:
            raise PositionError(
                "no record starts here: use a position that append() returned or that a record has",
                path=self.path,
                position=position,
            )
        return record

    @property
    def last_position(self) -> int | None:
        """Return the position of the last appended record, committed or not; None if none."""
        last = self._last()
        return None if last is None else last.position

    @property
    def first_sequence(self) -> int:
        """Return the sequence of the oldest remaining record; if none, of the next record."""
        self._parts.check_open()
        return self._parts.index.first_sequence(self._parts.queue.first_number)

    @property
    def last_sequence(self) -> int | None:
        """Return the sequence of the last appended record, committed or not; None if none."""
        last = self._last()
        return None if last is None else last.sequence

    def _last(self) -> Record | None:
        self._parts.check_open()
        with self._tailer_at(None, "backward") as tailer:
            return tailer.read()

    def _tailer_at(self, position: int | None, direction: Direction = "forward") -> Tailer:
        index = self._parts.index
        return Tailer(Seeker(index, start=position, direction=direction, visibility="appended"))

    def count(self, first_position: int | None = None, last_position: int | None = None) -> int:
        """Count the records between two positions.

        Parameters
        ----------
        first_position, last_position : int, optional
            Positions of records, or of the end of the log, in either order; by default the first
            record and the end.

        Returns
        -------
        int
            The record at the lower position is counted, the one at the higher position is not.

        Raises
        ------
        PositionError
            No record starts there, or it was deleted.
        SequenceError
            A claim in between is still open.
        """
        self._parts.check_open()
        low = (
            self.first_sequence
            if first_position is None
            else self._sequence_at(first_position, "first_position")
        )
        high = (
            self._parts.index.end()[1]
            if last_position is None
            else self._sequence_at(last_position, "last_position")
        )
        return abs(high - low)

    def _sequence_at(self, position: int, name: str) -> int:
        where, queue = self._position_of(position, name), self._parts.queue
        if where // self.segment_size < queue.first_number or where > self.tail_position:
            first = queue.first_remaining() * self.segment_size
            raise PositionError(
                f"{name} must be the position of a record, at least {first}, or the end of the log",
                path=self.path,
                position=where,
                first_position=first,
            )
        return self._parts.index.sequence_of(where)

    # --- commit, flush, roll, delete --------------------------------------------------------------

    def commit(self, upto: int | None = None) -> bool:
        """Copy published records from the pool's buffers to the segments.

        Other processes then see the records, and a kill of this process no longer loses them. They
        are NOT durable; `flush` makes them durable. A mapped log has nothing to commit.

        Returns
        -------
        bool
            False if an open claim blocks a part of the commit.
        """
        self._parts.writing()
        return self._parts.engine.commit(
            self.tail_position if upto is None else self._position_of(upto, "upto")
        )

    def flush(self, timeout: Duration | None = None) -> int:
        """Commit, then make everything appended so far durable.

        Parameters
        ----------
        timeout : float or str, optional
            Seconds, or text like ``"500ms"``; `sync_timeout` by default.

        Returns
        -------
        int
            The position up to which the log is durable.

        Raises
        ------
        ClaimError
            This thread has an open claim below the tail.
        SyncTimeoutError, LogFailedError
            The records may not be durable.
        """
        self._parts.writing()
        self._parts.make_durable(
            self.options.sync_timeout if timeout is None else parse_duration(timeout, "timeout")
        )
        return self.flushed_position

    def pretouch(self) -> int:
        """Allocate the next segments and pre-fault their pages before returning.

        A separate thread of the log normally does this. Call this if ``prefault=False``, or before
        an expected burst.

        Returns
        -------
        int
            The position up to which pages are in memory.

        Raises
        ------
        InvalidOptionError
            The log is pooled: its buffers are in memory already.
        DiskFullError, IOFailureError
            There is no room, or a system call failed.
        """
        writer = self._parts.writing()
        if writer.lender is not None:
            raise InvalidOptionError(
                "pretouch() does not apply to a pooled log: appends go to its buffers, which are "
                "in memory already",
                path=self.path,
            )
        return writer.allocation.pretouch()

    def roll(self) -> None:
        """Close the current segment early: the next append starts a new one."""
        self._parts.writing()
        self._parts.engine.close_segment()
        self._parts.engine.roll_at_once()

    def delete_before(
        self,
        position: int,
        force_after: Duration = _FORCE_AFTER_S,
        *,
        force: Waivable | Collection[Waivable] = (),
    ) -> list[str]:
        """Delete the whole segments below a position, oldest first, without leaving holes.

        The log keeps segments that are not sealed or not flushed yet, the last sealed one, and what
        its store, the required copies or a required tailer lack. A log message says what stops it.

        Parameters
        ----------
        position : int
            Nothing from this position on is deleted.
        force_after : float or str
            Seconds, or text, to wait for the views and tailers that hold a segment.
        force : {"store", "copies"}, or both
            Delete also what the store, or the required copies, lack; it may be lost.

        Returns
        -------
        list of str
            The deleted files.

        Raises
        ------
        SegmentHeldError
            A view or tailer still holds the next segment; the segments before it are deleted.
        """
        writer = self._parts.writing()
        wanted = self._position_of(position, "position") // self.segment_size
        seconds = parse_duration(force_after, "force_after")
        writer.allocation.give_back_drained()  # a segment is held for as long as it has a buffer
        writer.allocation.sealed_below()
        done = writer.pruner.delete_before(wanted, seconds, force)
        return [removal.path for removal in done.segments]

    def prune(
        self,
        retention: Retention | None = None,
        *,
        dry_run: bool = False,
        force: Waivable | Collection[Waivable] = (),
    ) -> Pruned:
        """Delete the segments that the retention rule no longer keeps, oldest first.

        Parameters
        ----------
        retention : Retention, optional
            The rule to apply; the log's own by default.
        dry_run : bool
            Delete nothing.
        force
            As for `delete_before`.

        Returns
        -------
        Pruned
            What was deleted, and why the first remaining segment stays.

        Raises
        ------
        InvalidOptionError
            Neither this call nor `open` was given a retention.
        """
        writer = self._parts.writing()
        chosen = checked(self.options.retention if retention is None else retention, self.path)
        writer.allocation.give_back_drained()
        writer.allocation.sealed_below()
        return writer.pruner.prune(chosen, dry_run=dry_run, force=force)

    def _position_of(self, value: object, name: str) -> int:
        position = whole_of(value)
        if position is None or not 0 <= position < 1 << 63:
            why = f"{name} must be a position (an int of at least 0), not {value!r}"
            raise InvalidOptionError(why, path=self.path)
        return position

    # --- figures ----------------------------------------------------------------------------------

    def stats(self) -> LogStats:
        """Take a snapshot of the log's watermarks, counters and latencies."""
        return log_stats(self._parts)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"mode {self.mode!r}, tail {self.tail_position}"
        return f"<CommitLog {self.path!r}, {state}>"

    def _repr_html_(self) -> str:
        if self.closed:
            return fields_table(self.path, {"mode": self.mode, "closed": True})
        return fields_table(self.path, {
            "mode": self.mode, "first_position": self.first_position,
            "flushed_position": self.flushed_position,
            "committed_position": self.committed_position, "tail_position": self.tail_position,
            "last_sequence": self.last_sequence, "segment_size": self.segment_size,
        })  # fmt: skip
