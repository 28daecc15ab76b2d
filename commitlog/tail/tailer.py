"""Tailer: a reader of a log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from commitlog._kernel.readers import FollowIterator, Idle, ReadMethods, Record
from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import Duration, whole_of
from commitlog.errors import CommitLogError, InvalidOptionError
from commitlog.tail.batch import Batch
from commitlog.tail.cycles import CycleLike
from commitlog.tail.replay import Pace, Replay
from commitlog.tail.seek import Direction, Seeker, Start, Timestamp
from commitlog.tail.tailer_file import TailerFile

if TYPE_CHECKING:
    from commitlog._kernel.readers import Waiter

_BATCH_MOST = 1 << 62  # the kernel's limit; a batch of 16 MiB has fewer records


class Tailer(ProcessBound, ReadMethods):
    """Reads records in their order, forward or backward; got from `CommitLog.tailer`. One thread at
    a time.

    It stands between two records. Iterating gives `Record` objects from there to the present end,
    or back to the oldest one; iterating again goes on from where it stands then; with a name, a
    loop that was left gives its last record again.
    """

    def __init__(self, seeker: Seeker, file: TailerFile | None = None, log: object = None) -> None:
        """Made by `CommitLog.tailer`."""
        self._log = log  # a log that is dropped is closed
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
        """Records as they come, without end.

        Parameters
        ----------
        timeout : float, str or None
            End when no record came for so long; None ends only when the log is closed.
        idle : {"spin", "yield", "backoff", "block"}
            What to do until there is more. "spin" burns a core for the least delay; "yield" lends
            it out in between; "backoff" spins, yields, then sleeps up to 1 ms; "block" sleeps in
            the kernel until a writer wakes it.
        speed : float, optional
            Replay: give each record at the pace of the timestamps, 1 as it was recorded, 10 ten
            times as fast. Where timestamps step back there is no pause, and what is late is given
            at once. By default there are no pauses at all.
        max_pause : float, str or None
            Seconds, or text like ``"500ms"``: no pause of a replay is longer, so that a quiet night
            is over soon.

        Returns
        -------
        iterator of Record
            For `for` as well as for `async for`. A coroutine waits without holding its loop up;
            `idle` says nothing to it.

        Raises
        ------
        InvalidOptionError
            The tailer reads backward, or a value is not one of these.
        """
        if self._cursor.backward:
            raise InvalidOptionError(
                "follow goes forward: set direction to 'forward' first, or read with a for loop"
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
        """The next records in the tailer's direction as NumPy columns, at most `max_records` and
        about 16 MiB of them.

        Parameters
        ----------
        max_records : int
            At least 1.
        timeout, idle
            As for `read`: how long to wait for the first.

        Returns
        -------
        Batch
            In reading order. Empty when nothing came.
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
        return Batch(*self._cursor.batch(min(most, _BATCH_MOST), timeout, idle, keeps))

    @contextlib.contextmanager
    def reading(
        self, timeout: Duration | None = 0, idle: Idle = "backoff"
    ) -> Iterator[Record | None]:
        """The next record for the length of a `with`: an exception in it takes the tailer back, and
        the same record comes again.

        Parameters
        ----------
        timeout, idle
            As for `read`.

        Yields
        ------
        Record or None
            None when nothing came in time.
        """
        with self._or_back():
            yield self._cursor.take(timeout, idle)

    @contextlib.contextmanager
    def reading_batch(
        self, max_records: int = 65536, timeout: Duration | None = 0, idle: Idle = "backoff"
    ) -> Iterator[Batch]:
        """The next records for the length of a `with`: an exception in it takes the tailer back,
        and the same records come again.

        Parameters
        ----------
        max_records, timeout, idle
            As for `read_batch`.

        Yields
        ------
        Batch
            Empty when nothing came in time.
        """
        with self._or_back():
            yield self._take_batch(max_records, timeout, idle, keeps=False)

    @contextlib.contextmanager
    def _or_back(self) -> Iterator[None]:
        """Save the place that is reached at the end, or move back to the one at the start."""
        before = self._cursor.position
        try:
            yield
        except BaseException:
            with contextlib.suppress(CommitLogError):  # the log is closed
                self._cursor.move_to(before)
            raise
        self._cursor.save_position()

    def striding(self) -> Iterator[Record]:
        """The indexed records alone, one in every `index_spacing`, in the tailer's direction: a
        quick look over a long log.

        Returns
        -------
        iterator of Record
            Each time it is asked it goes on from where the tailer stands then.
        """
        yield from self._seeker.stride()

    @property
    def damaged(self) -> list[tuple[int, int | None]]:
        """Where damage was met: its position, and that of the next whole frame. What stood in
        between is lost to this reader.
        """
        return self._seeker.segments.damaged

    # --- the place ---------------------------------------------------------------------------

    @property
    def direction(self) -> Direction:
        """ "forward" or "backward": where the next `read` goes. Setting it turns the tailer around
        and leaves it in its place.
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
        """Stand in another place: before the record that is asked for by exactly one of these.

        Parameters
        ----------
        position : {"first", "end"} or int
            The oldest record, the present end, or a record's position (or the end's).
        sequence : int
            The record's ordinal in the log.
        timestamp : int, str or datetime.datetime
            The first record in the log's order that is not older; nanoseconds since 1970, a
            datetime with a time zone, or a text such as ``"-10m"``, ``"yesterday"`` or
            ``"2026-05-01T12:30"``, in UTC. Timestamps may step back between writers, so older
            records may follow.
        key : bytes
            The next record with that key, from here in the tailer's direction, which `read` then
            gives: a backward tailer stands behind it.

        Returns
        -------
        bool
            False where all records are older, and the tailer stands at the end; or none has the
            key, and it stands where it stood.

        Raises
        ------
        PositionError
            No such record, or it was deleted; the error knows the first position that there is.
        """
        return self._seeker.seek(position, sequence=sequence, timestamp=timestamp, key=key)

    def seek_cycle(self, cycle: CycleLike) -> bool:
        """Stand before the first record of a cycle, whatever the direction.

        Parameters
        ----------
        cycle : int, datetime.datetime or datetime.date
            Its number; an instant in it, with a time zone; or a day of the log's time zone, for the
            cycle that its first moment is in.

        Returns
        -------
        bool
            False where the cycle has no record that can be seen: the tailer then stands where later
            cycles begin.

        Raises
        ------
        InvalidOptionError
            It is none of these, or the log rolls by size alone.
        """
        return self._seeker.seek_cycle(cycle)

    def to_start(self) -> None:
        """Stand before the oldest record."""
        self._seeker.seek("first")

    def to_end(self) -> None:
        """Stand behind the last record there is to see at present."""
        self._seeker.seek("end")

    def search(self, key_function: Callable[[Record], Any], value: Any) -> Record | None:
        """Search records that are in ascending order of what a function makes of them, by halves.

        Parameters
        ----------
        key_function : callable
            Makes of a record what the records are sorted by.
        value : object
            What to look for; compared with ``<`` and ``==``.

        Returns
        -------
        Record or None
            The first of the records of which the function makes `value`; None where there is none.
            The tailer then stands before it, or before the first record that is not less, or at the
            end; its direction stays.
        """
        return self._seeker.search(key_function, value)

    # --- the name ----------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """The name under which its place is kept; None: it is not kept."""
        return None if self._file is None else self._file.name

    @property
    def dropped_records(self) -> int:
        """Records that writers dropped because this tailer was too far behind, ever since it was
        made or reset; 0 without a name.
        """
        return 0 if self._file is None else self._file.page.dropped

    # --- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the segment it stands in, and of its name: others may then read under it.
        Idempotent; dropping the tailer does the same."""
        self._cursor.leave()
        self._seeker.segments.release()
        if self._file is not None:
            self._cursor.end()
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
