"""CommitLog: an open log, as its users have it."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self, Unpack

import numpy as np
import numpy.typing as npt

from commitlog._kernel.engine import LogMethods
from commitlog._kernel.readers import Record
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.path import path_of, telling_of_refusals
from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import Duration, parse_duration, whole_of
from commitlog.errors import InvalidOptionError, PositionError
from commitlog.log.coroutines import AsyncMethods
from commitlog.log.figures import log_stats
from commitlog.log.open_log import OpenLog
from commitlog.log.opening import check_mode, open_for_reading, open_for_writing
from commitlog.log.parts import Mode
from commitlog.log.tailers import TailerMethods
from commitlog.options import OptionOverrides, Options
from commitlog.retention.pruner import Pruned
from commitlog.retention.retention import Retention
from commitlog.segment.identity import Identity
from commitlog.stats import LogStats
from commitlog.tail.seek import Direction, Seeker
from commitlog.tail.tailer import Tailer

_FORCE_AFTER_S = 5.0


class CommitLog(ProcessBound, LogMethods, AsyncMethods, TailerMethods):
    """An open log, from `commitlog.open`. A context manager; any thread may use it.

    If it is dropped without `close`, it is closed in a thread of its own, with a `ResourceWarning`.
    """

    _parts: OpenLog

    def __init__(self, parts: OpenLog) -> None:
        """Made by `commitlog.open`."""

    @property
    def mode(self) -> Mode:
        """As given to `commitlog.open`."""
        return self._parts.mode

    @property
    def options(self) -> Options:
        """As given to `commitlog.open`."""
        return self._parts.options

    @property
    def identity(self) -> Identity:
        """What was fixed when the log was created: uuid, segment size, roll cycle, timestamps."""
        return self._parts.identity

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._parts.closed

    def close(self) -> None:
        """Commit and flush everything, whatever ``flush=`` is, then let go of the log. Idempotent.

        Raises
        ------
        CloseTimeoutError
            `close_timeout` passed. Nothing is dropped: the log goes on draining, and `close` can
            be called again.
        LogFailedError, IOFailureError
            The log had failed, or the system refused what closing needs; it is closed all the
            same, and the next open recovers it.
        """
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- reading ----------------------------------------------------------------------------------

    @property
    def first_position(self) -> int:
        """Where the oldest record that is still there starts, or would."""
        return self._parts.queue.first_number * self.segment_size + HEADER_SIZE

    def read(self, position: int) -> Record:
        """The record at a position.

        Raises
        ------
        PositionError
            No record starts there, or it was deleted.
        CorruptRecordError
            It is damaged.
        """
        with self._tailer_at(position) as tailer:
            record = tailer.read()
        if record is None or record.position != position:
            raise PositionError(
                "no record starts here: use a position that an append or a record gave",
                path=self.path,
                position=position,
            )
        return record

    @property
    def last_position(self) -> int | None:
        """Where the last record stands that was appended, committed or not; None where there is
        none.
        """
        last = self._last()
        return None if last is None else last.position

    @property
    def first_sequence(self) -> int:
        """The sequence of the oldest record that is still there, or of the first one that will
        be.
        """
        self._parts.check_open()
        return self._parts.index.first_sequence(self._parts.queue.first_number)

    @property
    def last_sequence(self) -> int | None:
        """The sequence of the last record that was appended, committed or not; None where there is
        none.
        """
        last = self._last()
        return None if last is None else last.sequence

    def _last(self) -> Record | None:
        self._parts.check_open()
        with self._tailer_at(None, "backward") as tailer:
            return tailer.read()

    def _tailer_at(self, position: int | None, direction: Direction = "forward") -> Tailer:
        parts = self._parts
        seeker = Seeker(
            parts.engine,
            parts.queue,
            parts.index,
            start=position,
            direction=direction,
            visibility="appended",
        )
        return Tailer(seeker)

    def count(self, first_position: int | None = None, last_position: int | None = None) -> int:
        """How many records stand between two positions: the one at the lower is counted, the one at
        the higher is not.

        Parameters
        ----------
        first_position, last_position : int, optional
            Positions of records, or the end's, in either order; by default all that is there.

        Returns
        -------
        int

        Raises
        ------
        PositionError
            No record starts there, or it was deleted.
        SequenceError
            A claim in between is still open.
        """
        self._parts.check_open()
        first = self._parts.queue.first_number * self.segment_size
        low = (
            self.first_sequence
            if first_position is None
            else self._sequence_at(first_position, "first_position", first)
        )
        high = (
            self._parts.index.end()[1]
            if last_position is None
            else self._sequence_at(last_position, "last_position", first)
        )
        return abs(high - low)

    def _sequence_at(self, position: int, name: str, first: int) -> int:
        where = self._position_of(position, name)
        if not first <= where <= self.tail_position:
            raise PositionError(
                f"{name} must be that of a record, from {first} on, or the end",
                path=self.path,
                position=where,
                first_position=first,
            )
        return self._parts.index.sequence_of(where)

    # --- appending from Arrow ---------------------------------------------------------------------

    def append_arrow(
        self, data: object, *, timestamp_ns: int | None = None, sync: bool | None = None
    ) -> npt.NDArray[np.int64]:
        """Append each row of Arrow data as one record, without a Python object per record.

        Parameters
        ----------
        data : pyarrow.Array, ChunkedArray, RecordBatch or Table, or what offers Arrow's C interface
            An array holds the values: binary, string, their large and view kinds, fixed-size
            binary, or a dictionary of these. A table has them in its column ``value``, and may have
            ``key`` (the same kinds; null: no key), ``type`` (whole numbers; null: 0) and
            ``timestamp_ns`` (or ``timestamp``: whole nanoseconds since 1970, or Arrow timestamps;
            null: the clock's). The columns ``position`` and ``sequence``, as a batch that was read
            has them, are passed over. A null value beside a key becomes a tombstone, an empty
            value.
        timestamp_ns : int, optional
            One for all; the clock's at each batch of up to 64 KiB by default.
        sync : bool, optional
            As for `append`; one flush for all.

        Returns
        -------
        numpy.ndarray
            The positions, int64, one a row.

        Raises
        ------
        RecordTypeError, RecordTooLargeError
            Nothing was appended: another column or type, a null value without a key, a number below
            0.
        ModuleNotFoundError
            pyarrow is not there: ``pip install 'commitlog-engine[arrow]'``.
        """
        from commitlog.log.arrow import row_columns

        return self._parts.engine.append_columns(
            row_columns(data), timestamp_ns=timestamp_ns, sync=sync
        )

    # --- commit, flush, roll, delete --------------------------------------------------------------

    def commit(self, upto: int | None = None) -> bool:
        """Move what is published from the pool to the segments: other processes see it, and a kill
        no longer takes it back.

        It is NOT durable by that; `flush` makes it so. A mapped log has nothing to commit.

        Returns
        -------
        bool
            False where an open claim holds a part of it up.
        """
        self._parts.writing()
        return self._parts.engine.commit(
            self.tail_position if upto is None else self._position_of(upto, "upto")
        )

    def flush(self, timeout: Duration | None = None) -> int:
        """Make everything appended so far durable; commits first.

        Parameters
        ----------
        timeout : float or str, optional
            Seconds, or text like ``"500ms"``; `sync_timeout` by default.

        Returns
        -------
        int
            The position up to which the log is durable now.

        Raises
        ------
        ClaimError
            This thread has a claim open below.
        SyncTimeoutError, LogFailedError
            It is not known to be durable.
        """
        self._parts.writing()
        engine = self._parts.engine
        seconds = (
            self.options.sync_timeout if timeout is None else parse_duration(timeout, "timeout")
        )
        end = engine.tail_position
        engine.check_claims(end)
        engine.flush_to(end, seconds)
        engine.check_failed()
        return self.flushed_position

    def pretouch(self) -> int:
        """Have the next segments in place, and their pages in memory, when this returns. The log
        does so by itself, in a thread of its own; this is for whoever has switched that off, or
        knows of a burst that is about to come.

        Returns
        -------
        int
            The position up to which pages are there.

        Raises
        ------
        InvalidOptionError
            The log is pooled: its buffers are in memory already.
        DiskFullError, IOFailureError
            There is no room, or the system refused.
        """
        writer = self._parts.writing()
        if writer.lender is not None:
            raise InvalidOptionError(
                "a pooled log's appends land in its buffers, which are in memory already",
                path=self.path,
            )
        return writer.allocation.pretouch()

    def roll(self) -> None:
        """Close the current segment early: the next append starts a new one."""
        self._parts.writing()
        self._parts.engine.close_segment()
        self._parts.engine.roll_at_once()

    def delete_before(self, position: int, force_after: Duration = _FORCE_AFTER_S) -> list[str]:
        """Delete the whole segments below a position, oldest first, without leaving holes.

        The segment of the tail, those that are not flushed or not sealed yet, the last one that is,
        and those from which a required named tailer has yet to read, stay.

        Parameters
        ----------
        position : int
            Nothing from here on is deleted.
        force_after : float or str
            Seconds, or text like ``"500ms"``, to wait for those who hold a segment.

        Returns
        -------
        list of str
            The files that were deleted.

        Raises
        ------
        SegmentHeldError
            Somebody still holds the next segment to go; those before it are deleted.
        """
        parts, writer = self._parts, self._parts.writing()
        wanted = self._position_of(position, "position") // self.segment_size
        seconds = parse_duration(force_after, "force_after")
        writer.allocation.give_back_drained()  # a segment is held for as long as it has a buffer
        durable = self.flushed_position // self.segment_size
        # The last sealed segment stays: its seal says with which sequence the next one begins.
        number = min(wanted, durable, writer.allocation.sealed_below() - 1)
        required = writer.pruner.limit_of_tailers()
        if required is not None:
            number = min(number, required)
        if number <= parts.queue.first_number:
            return []
        removed = parts.queue.delete_before(number, seconds)
        return [parts.directory.segment_path(number) for number in removed]

    def prune(self, retention: Retention | None = None, *, dry_run: bool = False) -> Pruned:
        """Delete the segments that a retention no longer keeps, oldest first, now and not at its
        next interval.

        Parameters
        ----------
        retention : Retention, optional
            What may go; the log's own by default.
        dry_run : bool
            Only say what would go and why no more.

        Returns
        -------
        Pruned
            What went, and why the first segment that is left stays.

        Raises
        ------
        InvalidOptionError
            No retention is given, here or to `open`.
        """
        writer = self._parts.writing()
        chosen = self.options.retention if retention is None else retention
        if not isinstance(chosen, Retention):
            raise InvalidOptionError(
                "retention must be a commitlog.Retention, given here or to open(), not "
                f"{type(chosen).__name__}",
                path=self.path,
            )
        writer.allocation.give_back_drained()
        writer.allocation.sealed_below()
        return writer.pruner.prune(chosen, dry_run=dry_run)

    def _position_of(self, value: object, name: str) -> int:
        position = whole_of(value)
        if position is None or not 0 <= position < 1 << 63:
            raise InvalidOptionError(
                f"{name} must be a position, an int from 0, not {value!r}", path=self.path
            )
        return position

    # --- figures ----------------------------------------------------------------------------------

    def stats(self) -> LogStats:
        """The log's figures at this moment."""
        return log_stats(self._parts)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"mode {self.mode!r}, tail {self.tail_position}"
        return f"<CommitLog {self.path!r}, {state}>"


def open_log(
    path: str | os.PathLike[str],
    mode: Mode = "a",
    options: Options | None = None,
    **overrides: Unpack[OptionOverrides],
) -> CommitLog:
    """Open a log, creating it where there is none.

    Parameters
    ----------
    path : str or path-like
        The log's directory.
    mode : {"a", "x", "r"}
        "a": append, create if missing. "x": create, must not exist. "r": read only, never creates
        and changes no record.
    options : Options, optional
        The knobs, reusable for several logs.
    **overrides
        Single options by name: see `Options`.

    Returns
    -------
    CommitLog
        Close it, or use it in a `with` statement.

    Raises
    ------
    InvalidOptionError, LogNotFoundError, LogExistsError, NotALogError, LogLockedError,
    OpenTimeoutError
        Why it could not be opened; nothing was changed.
    UnsupportedVersionError, UnsupportedError, CorruptSegmentError, ReadOnlyError, DiskFullError
        The same, for what was found there.
    """
    check_mode(mode)
    chosen = Options.of(options, **overrides)
    where = path_of(path)
    with telling_of_refusals(where):
        reads = mode == "r"
        opened = open_for_reading(where, chosen) if reads else open_for_writing(where, mode, chosen)
        return CommitLog(OpenLog(mode, opened, chosen))
