"""Seeker: how a tailer gets from one place to another."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any, Literal

from commitlog._kernel.failure import ROLLED_BACK
from commitlog._kernel.readers import Record, RecordLoops
from commitlog._kernel.segments import HEADER_SIZE, Segment
from commitlog.base.moment import read_moment
from commitlog.base.units import whole_of
from commitlog.errors import InvalidOptionError, PositionError, RecordTypeError
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.tail.cycles import CycleLike
from commitlog.tail.direction import DIRECTIONS, Direction
from commitlog.tail.index import LogIndex

Start = Literal["first", "end"] | int
Visibility = Literal["committed", "appended", "flushed"]
Timestamp = int | str | dt.datetime
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse what is not one of some words."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidOptionError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def nanoseconds_of(timestamp: object) -> int:
    """Nanoseconds since 1970 of a time as callers give it.

    Raises
    ------
    InvalidOptionError
        Neither an int of 64 bits, nor a text or a datetime with a time zone that is one: from 1677 to 2262.
    """
    if isinstance(timestamp, dt.datetime):
        if timestamp.tzinfo is None:
            raise InvalidOptionError(
                f"timestamp must have a time zone, which {timestamp!r} has not: use datetime.now(datetime.UTC), or replace(tzinfo=...)"
            )
        nanoseconds: int | None = (timestamp - _EPOCH) // _MICROSECOND * 1000
    elif isinstance(timestamp, str):
        try:
            nanoseconds = read_moment(timestamp)
        except ValueError as error:
            raise InvalidOptionError(f"timestamp must be {error}") from None
    else:
        nanoseconds = whole_of(timestamp)
    if nanoseconds is not None and -(1 << 63) <= nanoseconds < 1 << 63:
        return nanoseconds
    raise InvalidOptionError(
        f"timestamp must be nanoseconds since 1970, a text such as '-10m', or a datetime with a time zone, not {timestamp!r}"
    )


def _is_frame(segment: Segment, offset: int) -> bool:
    """Whether a frame starts at an offset. Inside a record stand any bytes, so only a CRC that matches, or the way there from the
    segment's start, proves it."""
    whole = (0, ROLLED_BACK)
    if segment.step(offset)[0] in whole or (segment.buffered and segment.step(offset, buffered=True)[0] in whole):
        return True
    stopped: int = segment.scan(0, offset)[0]
    return stopped == offset


class Seeker(RecordLoops):
    """What `Tailer` is made of: a place between two records, and the ways to another one."""

    log_index: LogIndex
    _queue: MappedFileQueue
    _visibility: Visibility
    _who: str

    @property
    def visible_end(self) -> int:
        """Where what this tailer may see ends at present."""
        core = self.core
        ends = {"committed": core.committed_position, "appended": core.appended_position, "flushed": core.flushed_position}
        return ends[self._visibility]

    # --- direction -------------------------------------------------------------------------------------------------

    @property
    def direction(self) -> Direction:
        """ "forward" or "backward": where the next `read` goes. Setting it turns the tailer around and leaves it in its place."""
        return "backward" if self.backward else "forward"

    @direction.setter
    def direction(self, direction: Direction) -> None:
        check_choice("direction", direction, DIRECTIONS)
        self.turn(direction == "backward")

    def striding(self) -> Iterator[Record]:
        """The indexed records alone, one in every `index_spacing`, in the tailer's direction: a quick look over a long log.

        Returns
        -------
        iterator of Record
            Each time it is asked it goes on from where the tailer stands then.
        """
        return _stride(self)

    # --- seeking ---------------------------------------------------------------------------------------------------

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
            The first record in the log's order that is not older; nanoseconds since 1970, a datetime with a time zone, or a text such as
            ``"-10m"``, ``"yesterday"`` or ``"2026-05-01T12:30"``, in UTC. Timestamps may step back between writers, so older records may
            follow.
        key : bytes
            The next record with that key, from here in the tailer's direction, which `read` then gives: a backward tailer stands behind it.

        Returns
        -------
        bool
            False where all records are older, and the tailer stands at the end; or none has the key, and it stands where it stood.

        Raises
        ------
        PositionError
            No such record, or it was deleted; the error knows the first position that there is.
        """
        given = {"position": position, "sequence": sequence, "timestamp": timestamp, "key": key}
        named = [name for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise InvalidOptionError(
                f"seek takes exactly one of position, sequence, timestamp and key, not {' and '.join(named) or 'none'}"
            )
        there = True
        if sequence is not None:
            self._seek_sequence(sequence)
        elif timestamp is not None:
            there = self._seek_timestamp(timestamp)
        elif key is not None:
            there = self._seek_key(key)
        else:
            self._seek_position(position)
        self.save_place()
        return there

    def seek_cycle(self, cycle: CycleLike) -> bool:
        """Stand before the first record of a cycle, whatever the direction.

        Parameters
        ----------
        cycle : int, datetime.datetime or datetime.date
            Its number; an instant in it, with a time zone; or a day of the log's time zone, for the cycle that its first moment is in.

        Returns
        -------
        bool
            False where the cycle has no record that can be seen: the tailer then stands where later cycles begin.

        Raises
        ------
        InvalidOptionError
            It is none of these, or the log rolls by size alone.
        """
        cycles = self.log_index.cycles
        number = cycles.number_of(cycle)
        start, end = cycles.first_segment(number) * self.core.segment_size, self.visible_end
        self.move_to(min(start, end))
        self.save_place()
        return start < end and cycles.records_in(number) > 0

    def to_start(self) -> None:
        """Stand before the oldest record."""
        self.seek("first")

    def to_end(self) -> None:
        """Stand behind the last record there is to see at present."""
        self.seek("end")

    def _seek_position(self, position: object) -> None:
        if isinstance(position, str) and position == "first":
            self.move_to(self._first_position())
        elif isinstance(position, str) and position == "end":
            self.move_to(self.visible_end)
        else:
            where = whole_of(position)
            if where is None:
                raise InvalidOptionError(f"start must be 'first', 'end' or a position, not {position!r}")
            self._check_position(where)
            self.move_to(where)

    def _seek_sequence(self, sequence: object) -> None:
        ordinal = whole_of(sequence)
        if ordinal is None or not 0 <= ordinal < 1 << 63:
            raise InvalidOptionError(f"sequence must be an int from 0, of 63 bits, not {sequence!r}")
        self.move_to(self.log_index.position_of(ordinal))

    def _seek_timestamp(self, timestamp: object) -> bool:
        found = self.log_index.position_since(nanoseconds_of(timestamp))
        end = self.visible_end
        self.move_to(end if found is None else min(found, end))
        return found is not None and found < end

    def _seek_key(self, key: object) -> bool:
        if not isinstance(key, bytes | bytearray | memoryview):
            hint = ": encode it first" if isinstance(key, str) else ""
            raise RecordTypeError(f"key must be bytes, not {type(key).__name__}{hint}", path=self.core.path)
        began = self.position
        place = self.pass_to_key(bytes(key))
        self.move_to(began if place is None else place)
        return place is not None

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
            The first of the records of which the function makes `value`; None where there is none. The tailer then stands before it, or
            before the first record that is not less, or at the end; its direction stays.
        """
        if not callable(key_function):
            raise InvalidOptionError(f"key_function must be a callable that takes a record, not {key_function!r}")
        low, high = self.log_index.sequence_of(self._first_position()), self.log_index.sequence_of(self.visible_end)
        found, place = None, self.visible_end
        while low < high:
            middle = (low + high) // 2
            self.move_to(self.log_index.position_of(middle))
            record = self.read_onward()
            if record is None:
                high = middle  # damage that the tailer passes over took the rest
                continue
            made = key_function(record)
            if made < value:
                low = max(middle, record.sequence) + 1
            else:
                high, place = middle, record.position
                found = record if made == value else None
        self.move_to(place)
        self.save_place()
        return found

    # --- positions -------------------------------------------------------------------------------------------------

    def _first_position(self) -> int:
        return self._queue.first_number * self.core.segment_size

    def _check_position(self, position: int) -> None:
        first = self._first_position()
        end = max(self.core.tail_position, self.visible_end)
        offset = position % self.core.segment_size
        if first <= position <= end and (offset == 0 or position == end):
            return
        if first <= position < end and offset % 8 == 0 and offset >= HEADER_SIZE:
            held = self._queue.hold(position // self.core.segment_size, self._who)
            if held is not None:
                file, token = held
                try:
                    if _is_frame(file.segment, offset):
                        return
                finally:
                    file.release(token)
        raise PositionError(
            f"no record starts here: the log's positions go from {first} to {end}; use a position that an append or a record gave",
            path=self.core.path,
            position=position,
            first_position=first,
        )


def _stride(tailer: Seeker) -> Iterator[Record]:
    """The indexed records alone, from where a tailer stands, in its direction at each step."""
    tailer.return_to_place()
    try:
        yield from _steps(tailer)
    finally:
        tailer.return_to_place()


def _steps(tailer: Seeker) -> Iterator[Record]:
    while True:
        tailer.save_place()
        place = tailer.position
        backward = tailer.direction == "backward"
        entry = tailer.log_index.entry(place, before=backward)
        if entry is None:
            return
        tailer.move_to(entry)
        record = tailer.read_onward()
        if backward:
            tailer.move_to(entry)
        if record is not None and (record.position == entry or not backward):
            yield record
        elif not backward:
            tailer.move_to(place)  # the next one is not to be seen yet
            return
