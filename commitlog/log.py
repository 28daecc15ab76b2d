"""CommitLog: what can be done with an open log."""

from __future__ import annotations

import os
from typing import Any, Unpack, cast

import numpy as np
import numpy.typing as npt

from commitlog._kernel.record import Record
from commitlog.coroutines import CoroutineHandle
from commitlog.errors import (
    InvalidOptionError,
    PositionError,
)
from commitlog.keep.pruner import Pruned
from commitlog.keep.retention import Retention
from commitlog.opening import check_mode, open_for_reading, open_for_writing
from commitlog.options import OptionOverrides, Options
from commitlog.path import path_of, telling_of_refusals
from commitlog.process_bound import ProcessBound
from commitlog.segment.disk_monitor import free_bytes
from commitlog.stats import Latency, LogStats
from commitlog.tail.tailer import Tailer
from commitlog.tailing import TailingHandle
from commitlog.units import Duration, parse_duration, whole_of

_FORCE_AFTER_S = 5.0
# What users find on a log besides what its Python classes define: the compiled ones have the engine's own methods, too.
_INHERITED = (
    "append",
    "append_array",
    "append_many",
    "appended_position",
    "claim",
    "close",
    "closed",
    "committed_position",
    "flushed_position",
    "identity",
    "largest_value",
    "mode",
    "options",
    "path",
    "pooled",
    "segment_size",
    "tail_position",
)


class CommitLog(ProcessBound, TailingHandle):
    """An open log, from `commitlog.open`. A context manager; any thread may use it.

    `append`, `append_many`, `append_array` and `claim` come from the compiled base class, so that an append is one C call;
    `append_async` and `append_many_async` from `CoroutineHandle`; `tailer` and what can be done
    with named tailers from `TailingHandle`.
    """

    def __init__(self) -> None:
        """Made by `open`."""

    @classmethod
    def open(cls, path: str | os.PathLike[str], mode: str, options: Options) -> CommitLog:
        """See `commitlog.open`."""
        where = path_of(path)
        with telling_of_refusals(where):
            opened = open_for_reading(where, options) if mode == "r" else open_for_writing(where, mode, options)
            log = cls()
            try:
                log._wire(mode, opened, options)
            except BaseException:
                log._abandon(opened)
                raise
            return log

    def __dir__(self) -> list[str]:
        """What is meant for users."""
        own = [name for kind in (CommitLog, TailingHandle, CoroutineHandle) for name in vars(kind) if not name.startswith("_")]
        return sorted({*own, *_INHERITED})

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def first_position(self) -> int:
        """Where the oldest record that is still there starts, or would."""
        return self.queue.first_number * self.segment_size + 4096

    def read(self, position: int) -> Record:
        """The record at a position.

        Raises
        ------
        PositionError
            No record starts there, or it was deleted.
        CorruptRecordError
            It is damaged.
        """
        with Tailer(self, self.queue, self.index, start=position, visibility="appended") as tailer:
            record = tailer.read()
        if record is None or record.position != position:
            raise PositionError("no record starts here: use a position that an append or a record gave", path=self.path, position=position)
        return record

    @property
    def last_position(self) -> int | None:
        """Where the last record stands that was appended, committed or not; None where there is none."""
        last = self._last()
        return None if last is None else last.position

    @property
    def first_sequence(self) -> int:
        """The sequence of the oldest record that is still there, or of the first one that will be."""
        self._check_open()
        return self.index.first_sequence(self.queue.first_number)

    @property
    def last_sequence(self) -> int | None:
        """The sequence of the last record that was appended, committed or not; None where there is none."""
        last = self._last()
        return None if last is None else last.sequence

    def _last(self) -> Record | None:
        self._check_open()
        with Tailer(self, self.queue, self.index, direction="backward", visibility="appended") as tailer:
            return tailer.read()

    def count(self, first_position: int | None = None, last_position: int | None = None) -> int:
        """How many records stand between two positions: the one at the lower is counted, the one at the higher is not.

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
        self._check_open()
        first = self.queue.first_number * self.segment_size
        low = self.first_sequence if first_position is None else self._sequence_at(first_position, "first_position", first)
        high = self.index.end()[1] if last_position is None else self._sequence_at(last_position, "last_position", first)
        return abs(high - low)

    def _sequence_at(self, position: int, name: str, first: int) -> int:
        where = self._position_of(position, name)
        if not first <= where <= self.tail_position:
            raise PositionError(
                f"{name} must be that of a record, from {first} on, or the end", path=self.path, position=where, first_position=first
            )
        return self.index.sequence_of(where)

    # --- appending from Arrow ----------------------------------------------------------------------------------------

    def append_arrow(self, data: object, *, timestamp_ns: int | None = None, sync: bool | None = None) -> npt.NDArray[np.int64]:
        """Append each row of Arrow data as one record, without a Python object per record.

        Parameters
        ----------
        data : pyarrow.Array, ChunkedArray, RecordBatch or Table, or what offers Arrow's C interface, such as a polars DataFrame
            An array holds the values: binary, string, their large and view kinds, fixed-size binary, or a dictionary of these. A table has
            them in its column ``value``, and may have ``key`` (the same kinds; null: no key), ``type`` (whole numbers; null: 0) and
            ``timestamp_ns`` (or ``timestamp``: whole nanoseconds since 1970, or Arrow timestamps; null: the clock's). The columns
            ``position`` and ``sequence``, as a batch that was read has them, are passed over. A null value beside a key becomes a
            tombstone, an empty value.
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
            Nothing was appended: another column or type, a null value without a key, a number below 0.
        ModuleNotFoundError
            pyarrow is not there: ``pip install 'commitlog-engine[arrow]'``.
        """
        from commitlog.arrow import row_columns

        return self.append_columns(row_columns(data), timestamp_ns=timestamp_ns, sync=sync)

    # --- commit, flush, roll, delete ---------------------------------------------------------------------------------

    def commit(self, upto: int | None = None) -> bool:
        """Move what is published from the pool to the segments: other processes see it, and a kill no longer takes it back.

        It is NOT durable by that; `flush` makes it so. A mapped log has nothing to commit.

        Returns
        -------
        bool
            False where an open claim holds a part of it up.
        """
        self._check_writable()
        return super().commit(self.tail_position if upto is None else self._position_of(upto, "upto"))

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
        self._check_writable()
        seconds = self.options.sync_timeout if timeout is None else parse_duration(timeout, "timeout")
        end = self.tail_position
        self.check_claims(end)
        self.flush_to(end, seconds)
        self.check_failed()
        return self.flushed_position

    def pretouch(self) -> int:
        """Have the next segments in place, and their pages in memory, when this returns. The log does so by itself, in a thread of its own;
        this is for whoever has switched that off, or knows of a burst that is about to come.

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
        self._check_writable()
        if self._lender is not None:
            raise InvalidOptionError("a pooled log's appends land in its buffers, which are in memory already", path=self.path)
        assert self._allocation is not None
        return self._allocation.pretouch()

    def roll(self) -> None:
        """Close the current segment early: the next append starts a new one."""
        self._check_writable()
        self.close_segment()
        self.roll_at_once()

    def delete_before(self, position: int, force_after: Duration = _FORCE_AFTER_S) -> list[str]:
        """Delete the whole segments below a position, oldest first, without leaving holes.

        The segment of the tail, those that are not flushed or not sealed yet, the last one that is, and those from which a required named
        tailer has yet to read, stay.

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
        self._check_writable()
        wanted = self._position_of(position, "position") // self.segment_size
        seconds = parse_duration(force_after, "force_after")
        assert self._allocation is not None
        self._allocation.give_back_drained()  # a segment is held for as long as it has a buffer
        durable = self.flushed_position // self.segment_size
        # The last sealed segment stays: its seal says with which sequence the next one begins.
        number = min(wanted, durable, self._allocation.sealed_below() - 1)
        required = self._pruner.limit_of_tailers()
        if required is not None:
            number = min(number, required)
        if number <= self.queue.first_number:
            return []
        return [self.directory.segment_path(removed) for removed in self.queue.delete_before(number, seconds)]

    def prune(self, retention: Retention | None = None, *, dry_run: bool = False) -> Pruned:
        """Delete the segments that a retention no longer keeps, oldest first, now and not at its next interval.

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
        self._check_writable()
        chosen = self.options.retention if retention is None else retention
        if not isinstance(chosen, Retention):
            raise InvalidOptionError(
                f"retention must be a commitlog.Retention, given here or to open(), not {type(chosen).__name__}", path=self.path
            )
        assert self._allocation is not None
        self._allocation.give_back_drained()
        self._allocation.sealed_below()
        return self._pruner.prune(chosen, dry_run=dry_run)

    def _position_of(self, value: object, name: str) -> int:
        position = whole_of(value)
        if position is None or not 0 <= position < 1 << 63:
            raise InvalidOptionError(f"{name} must be a position, an int from 0, not {value!r}", path=self.path)
        return position

    # --- figures -----------------------------------------------------------------------------------------------------

    def stats(self) -> LogStats:
        """The log's figures at this moment."""
        log, writer = self.log_counters(), self.writer_counters()
        tail, appended, committed, flushed = self.tail_position, self.appended_position, self.committed_position, self.flushed_position
        pool = self.options.pool
        return LogStats(
            tail_position=tail,
            appended_position=appended,
            committed_position=committed,
            flushed_position=flushed,
            uncommitted_bytes=max(0, tail - committed),
            unflushed_bytes=max(0, tail - flushed),
            appends=writer["appends"],
            records=writer["records"],
            appended_bytes=writer["bytes"],
            refused_claims=writer["refused"],
            rolled_back_claims=log["rolled_back"],
            rolls=writer["rolls"],
            committed_bytes=log["committed_bytes"],
            flushed_bytes=log["flushed_bytes"],
            commit_latency=Latency(*self.latency("commit")),
            flush_latency=Latency(*self.latency("flush")),
            sync_latency=Latency(*self.latency("sync")),
            roll_latency=Latency(*self.latency("roll")),
            claim_latency=Latency(*self.latency("claim")),
            lag_latency=Latency(*self.latency("lag")),
            dropped_records=self._lag_guard.dropped_records if self._lag_guard else 0,
            failed=os.strerror(self.failed) if self.failed else None,
            free_disk_bytes=free_bytes(self.directory),
            disk="fine" if self._allocation is None else self._allocation.disk.state,
            dropped_events=0 if self._listener is None else self._listener.dropped,
            listener_failures=0 if self._listener is None else self._listener.failures,
            pool=cast(Any, pool).stats() if pool is not None else None,
        )

    def __repr__(self) -> str:
        state = "closed" if getattr(self, "_closed", True) else f"mode {self.mode!r}, tail {self.tail_position}"
        return f"<CommitLog {self.path!r}, {state}>"


def open_log(
    path: str | os.PathLike[str], mode: str = "a", options: Options | None = None, **overrides: Unpack[OptionOverrides]
) -> CommitLog:
    """Open a log, creating it where there is none.

    Parameters
    ----------
    path : str or path-like
        The log's directory.
    mode : {"a", "x", "r"}
        "a": append, create if missing. "x": create, must not exist. "r": read only, never creates and changes no record.
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
    InvalidOptionError, LogNotFoundError, LogExistsError, NotALogError, LogLockedError, OpenTimeoutError
        Why it could not be opened; nothing was changed.
    UnsupportedVersionError, UnsupportedFileSystemError, CorruptSegmentError, ReadOnlyError, DiskFullError
        The same, for what was found there.
    """
    check_mode(mode)
    return CommitLog.open(path, mode, Options.of(options, **overrides))
