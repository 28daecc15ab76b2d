"""Tailer: a reader of a log."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from commitlog._kernel.readers import (
    FollowIterator,
    Idle,
    ReadMethods,
    Record,
    await_columns,
    take,
)
from commitlog.base.extras import pyarrow_for
from commitlog.base.pace import Pace
from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import Duration, whole_of
from commitlog.errors import CommitLogError, InvalidOptionError
from commitlog.tail.arrow import BatchForm
from commitlog.tail.batch import Batch
from commitlog.tail.cycles import CycleLike
from commitlog.tail.replay import Replay
from commitlog.tail.seek import Direction, Seeker, Start, Timestamp
from commitlog.tail.tailer_file import TailerFile

if TYPE_CHECKING:
    from commitlog._kernel.readers import Waiter

_BATCH_MOST = 1 << 62  # the kernel's limit; a batch of 16 MiB has fewer records


class Tailer(ProcessBound, ReadMethods):
    """Read records in order, forward or backward; `CommitLog.tailer` returns it.

    Only one thread at a time may use a tailer. Its position lies between two records. Iteration
    yields `Record` objects from there to the current end, or back to the oldest record; the next
    iteration continues from the position reached. If a loop over a named tailer is left early, the
    tailer yields the last record again.
    """

    def __init__(self, seeker: Seeker, file: TailerFile | None = None, log: object = None) -> None:
        """Wrap a seeker; only `CommitLog.tailer` calls this."""
        self._log = log  # keeps the log open: a dropped log is closed
        self._seeker = seeker
        self._cursor = seeker.cursor
        self._file = file
        if file is not None:
            if not file.created:
                seeker.resume(file.name, file.page.position)
            self._cursor.keep_in(file.page)

    # --- reading -----------------------------------------------------------------------------

    def follow(
        self,
        timeout: Duration | None = None,
        idle: Idle = "backoff",
        *,
        speed: float | None = None,
        max_pause: Duration | None = None,
    ) -> FollowIterator | Replay:
        """Iterate over records as they arrive, without end.

        Parameters
        ----------
        timeout : float, str or None
            End if no record arrives for that long; None ends only when the log is closed.
        idle : {"spin", "yield", "backoff", "block"}
            How to wait for the next record. "spin" uses a whole core for the least delay; "yield"
            yields the core between checks; "block" sleeps in the kernel until a writer wakes the
            thread; "backoff" spins, yields and naps for 2 ms, and then sleeps as well. Where a
            writer cannot see a sleeper, both nap for up to 1 ms.
        speed : float, optional
            Replay records at the pace of their timestamps: 1 as recorded, 10 ten times as fast. A
            timestamp that steps back causes no pause, and a late record is yielded at once. By
            default there are no pauses.
        max_pause : float, str or None
            Seconds, or text like ``"500ms"``: the upper bound of a pause in a replay.

        Returns
        -------
        iterator of Record
            Usable in `for` and in `async for`. A coroutine waits without blocking its event loop,
            and ignores `idle`.

        Raises
        ------
        InvalidOptionError
            The tailer reads backward, or a value is out of range.
        """
        if self._cursor.backward:
            raise InvalidOptionError(
                "follow only reads forward: set direction to 'forward' first, or read with a for "
                "loop"
            )
        records = FollowIterator(self, timeout, idle, self._waiter)
        if speed is None and max_pause is None:
            return records
        return Replay(self._cursor, records, Pace(speed, max_pause))

    def _waiter(self, timeout_s: float | None) -> Waiter:
        from commitlog.tail.watcher import AsyncRecords  # imports asyncio

        return AsyncRecords(self._cursor, FollowIterator(self, 0, "backoff"), timeout_s)

    def read_batch(
        self, max_records: int = 65536, timeout: Duration | None = 0, idle: Idle = "backoff"
    ) -> Batch:
        """Read the next records as NumPy columns, at most `max_records` and about 16 MiB.

        Parameters
        ----------
        max_records : int
            At least 1.
        timeout, idle
            As for `read`: how long to wait for the first record.

        Returns
        -------
        Batch
            In reading order; empty if no record arrived.
        """
        batch = self._take_batch(max_records, timeout, idle, keeps=True)
        self._cursor.save_position()
        return batch

    def _take_batch(
        self, max_records: int, timeout: Duration | None, idle: Idle, *, keeps: bool
    ) -> Batch:
        most = whole_of(max_records)
        if most is None or most < 1:
            raise InvalidOptionError(
                f"max_records must be an int of at least 1, not {max_records!r}"
            )
        columns = await_columns(self._cursor, min(most, _BATCH_MOST), timeout, idle, keeps)
        return Batch(*columns, _adjacent=not self._cursor.selects)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the records from here to the current end through Arrow's C interface, with the
        columns of `CommitLog.to_arrow`; needs pyarrow. Reading the stream moves the tailer.
        """
        form = BatchForm(None, "Tailer.__arrow_c_stream__")
        batches = map(form.record_batch, iter(self.read_batch, None))
        found = itertools.takewhile(lambda batch: batch.num_rows > 0, batches)
        reader = pyarrow_for("Tailer").RecordBatchReader.from_batches(form.schema, found)
        return reader.__arrow_c_stream__(requested_schema)

    @contextlib.contextmanager
    def reading(
        self, timeout: Duration | None = 0, idle: Idle = "backoff"
    ) -> Iterator[Record | None]:
        """Read the next record for a `with` block; an exception in the block rewinds the tailer.

        After an exception the tailer returns the same record again.

        Parameters
        ----------
        timeout, idle
            As for `read`.

        Yields
        ------
        Record or None
            None if no record arrived in time.
        """
        with self._or_back():
            yield take(self._cursor, timeout, idle)

    @contextlib.contextmanager
    def reading_batch(
        self, max_records: int = 65536, timeout: Duration | None = 0, idle: Idle = "backoff"
    ) -> Iterator[Batch]:
        """Read the next records for a `with` block; an exception in the block rewinds the tailer.

        After an exception the tailer returns the same records again.

        Parameters
        ----------
        max_records, timeout, idle
            As for `read_batch`.

        Yields
        ------
        Batch
            Empty if no record arrived in time.
        """
        with self._or_back():
            yield self._take_batch(max_records, timeout, idle, keeps=False)

    @contextlib.contextmanager
    def _or_back(self) -> Iterator[None]:
        """Save the position if the block succeeds; restore the previous one if it raises."""
        before = self._cursor.position
        try:
            yield
        except BaseException:
            with contextlib.suppress(CommitLogError):  # the log is closed
                self._cursor.move_to(before)
            raise
        self._cursor.save_position()

    def striding(self) -> Iterator[Record]:
        """Iterate over the indexed records only, one in every `index_spacing`, to sample a log.

        Returns
        -------
        iterator of Record
            In the tailer's direction; each step starts at the tailer's current position.
        """
        return self._seeker.stride()

    @property
    def damaged(self) -> list[tuple[int, int | None]]:
        """Return the damaged ranges found so far: where each starts, and where the next intact
        frame is.

        This reader skips the records in between.
        """
        return self._seeker.segments.damaged

    # --- the position ------------------------------------------------------------------------

    @property
    def direction(self) -> Direction:
        """Return the direction of the next `read`: "forward" or "backward".

        Setting it reverses the tailer without moving it.
        """
        return "backward" if self._cursor.backward else "forward"

    @direction.setter
    def direction(self, direction: Direction) -> None:
        self._seeker.turn(direction)

    def seek(
        self,
        position: Start | None = None,
        *,
        sequence: int | None = None,
        timestamp: Timestamp | None = None,
        key: bytes | None = None,
    ) -> bool:
        """Move the tailer before the record that exactly one of the arguments selects.

        Parameters
        ----------
        position : {"first", "end"} or int
            The oldest record, the current end, or the position of a record or of the end.
        sequence : int
            The record's ordinal in the log.
        timestamp : int, str or datetime.datetime
            The first record in the log's order that is not older: nanoseconds since 1970, a
            datetime with a time zone, or text such as ``"-10m"``, ``"yesterday"`` or
            ``"2026-05-01T12:30"``, in UTC. Timestamps may step back between writers, so older
            records may follow.
        key : bytes
            The next record with that key, from here in the tailer's direction. The next `read`
            returns it, so a backward tailer moves past it.

        Returns
        -------
        bool
            False if all records are older; the tailer is then at the end. Also False if no record
            has the key; the tailer does not move then.

        Raises
        ------
        PositionError
            No such record, or it was deleted; the error has the first remaining position.
        """
        return self._seeker.seek(position, sequence=sequence, timestamp=timestamp, key=key)

    def seek_cycle(self, cycle: CycleLike) -> bool:
        """Move the tailer before the first record of a cycle, in either direction.

        Parameters
        ----------
        cycle : int, datetime.datetime or datetime.date
            The number of the cycle; an instant in it, with a time zone; or a day in the log's time
            zone, for the cycle that contains its midnight.

        Returns
        -------
        bool
            False if the cycle has no visible record; the tailer is then at the start of the next
            cycle, or at the end.

        Raises
        ------
        InvalidOptionError
            The cycle has another type, or the log rolls by size alone.
        """
        return self._seeker.seek_cycle(cycle)

    def search(self, key_function: Callable[[Record], Any], value: Any) -> Record | None:
        """Binary-search records that are sorted by the result of a function.

        Parameters
        ----------
        key_function : callable
            Returns the sort key of a record; keys ascend.
        value : object
            The key to find; compared with ``<`` and ``==``.

        Returns
        -------
        Record or None
            The first record with that key; None if there is none. The tailer is then before that
            record, or before the first record with a greater key, or at the end. Its direction does
            not change.
        """
        return self._seeker.search(key_function, value)

    # --- the name ----------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """Return the name under which the position is saved; None if it is not saved."""
        return None if self._file is None else self._file.name

    @property
    def dropped_records(self) -> int:
        """Return how many records writers dropped because of this tailer's lag.

        The count starts when the tailer is created or reset; it is 0 without a name.
        """
        return 0 if self._file is None else self._file.page.dropped

    # --- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Release the current segment and the name, so that another tailer may use the name.

        A second call does nothing. Dropping the tailer has the same effect.
        """
        self._cursor.leave()
        self._seeker.segments.release()
        if self._file is not None:
            self._cursor.end()
            self._file.close()

    def __repr__(self) -> str:
        name = "" if self._file is None else f" {self._file.name!r}"
        return f"<Tailer{name}, {self.direction} from {self.position}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
