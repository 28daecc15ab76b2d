"""Seeker: move a cursor by position, sequence, time, key or cycle."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

from commitlog._kernel.failure import ROLLED_BACK
from commitlog._kernel.readers import Cursor, Record, Selection, pass_to_key
from commitlog._kernel.segments import FRAME_ALIGN, HEADER_SIZE, Segment
from commitlog.base.moment import nanoseconds_of, read_moment
from commitlog.base.option import chosen
from commitlog.base.units import whole_of
from commitlog.errors import InvalidOptionError, PositionError, RecordTypeError
from commitlog.tail.cycles import CycleLike, LogCycles
from commitlog.tail.index import LogIndex
from commitlog.tail.segment_holder import OnDamage, SegmentHolder

Direction = Literal["forward", "backward"]
Start = Literal["first", "end"] | int
Visibility = Literal["committed", "appended", "flushed", "replicated"]
Timestamp = int | str | dt.datetime
_logger = logging.getLogger("commitlog")


def timestamp_ns_of(timestamp: object) -> int:
    """Convert a time to nanoseconds since 1970. Refuse other types, a datetime without a time zone,
    and times that are not from 1677 to 2262.
    """
    if isinstance(timestamp, dt.datetime):
        if timestamp.tzinfo is None:
            raise InvalidOptionError(
                f"timestamp must have a time zone, and {timestamp!r} has none: use "
                "datetime.now(datetime.UTC), or replace(tzinfo=...)"
            )
        nanoseconds: int | None = nanoseconds_of(timestamp)
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
        "timestamp must be nanoseconds since 1970, a text such as '-10m', or a datetime with a "
        f"time zone, not {timestamp!r}"
    )


def _is_frame(segment: Segment, offset: int) -> bool:
    """Return whether a frame starts at an offset.

    A record's bytes can look like a frame, so only a matching CRC proves it, or a scan from the
    segment's start that reaches the offset.
    """
    whole = (0, ROLLED_BACK)
    if segment.step(offset)[0] in whole or (
        segment.buffered and segment.step(offset, buffered=True)[0] in whole
    ):
        return True
    stopped: int = segment.scan(0, offset)[0]
    return stopped == offset


class Seeker:
    """A cursor and the ways to move it.

    It begins at the oldest record ("first"), the present end, or a record's position; None means
    "first", and "end" for a backward cursor. With a `selection`, it reads no other records. The
    other options are those of `CommitLog.tailer`. `segments` holds the segment that the cursor
    reads.
    """

    def __init__(
        self,
        index: LogIndex,
        *,
        start: Start | None = None,
        direction: Direction = "forward",
        visibility: Visibility = "committed",
        on_damage: OnDamage = "raise",
        selection: Selection | None = None,
    ) -> None:
        chosen(get_args(Visibility))(visibility, "visibility")
        chosen(get_args(OnDamage))(on_damage, "on_damage")
        self._index = index
        self._queue = index.queue
        self._core = index.queue.core
        self._cycles = LogCycles(index)
        self.segments = SegmentHolder(index, on_damage)
        self.cursor = Cursor(self._core, self.segments, visibility)
        self._selection = selection
        if selection is not None:
            self.cursor.select(selection)
        self._visibility = visibility
        self.turn(direction)
        self.seek(("end" if direction == "backward" else "first") if start is None else start)

    def turn(self, direction: Direction) -> None:
        """Set the direction of reading."""
        chosen(get_args(Direction))(direction, "direction")
        self.cursor.turn(direction == "backward")

    def resume(self, name: str, position: int) -> None:
        """Move to the saved position of a named tailer.

        If the record there was deleted, the next read raises. If the position is behind the log's
        end, move to the end and log a warning: no tailer has read beyond it.
        """
        end = max(self._core.tail_position, self._visible_end())
        if position > end:
            why = "tailer %r of %s was at %d, and the log ends at %d: it continues there"
            _logger.warning(why, name, self._core.path, position, end)
        self.cursor.move_to(min(position, end))
        self._renew()

    def _renew(self) -> None:
        """Have the selection learn what the cursor has jumped over."""
        if self._selection is not None:
            self._selection.renew()

    # --- seeks -------------------------------------------------------------------------------

    def seek(
        self,
        position: Start | None = None,
        *,
        sequence: int | None = None,
        timestamp: Timestamp | None = None,
        key: bytes | None = None,
    ) -> bool:
        """Move before the record that one of the arguments selects: see `Tailer.seek`."""
        given = {"position": position, "sequence": sequence, "timestamp": timestamp, "key": key}
        named = [name for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise InvalidOptionError(
                "seek takes exactly one of position, sequence, timestamp and key, not "
                f"{' and '.join(named) or 'none'}"
            )
        there = True
        if sequence is not None:
            self._seek_sequence(sequence)
        elif timestamp is not None:
            there = self._seek_timestamp(timestamp)
        elif key is not None:
            self._renew()
            there = self._seek_key(key)
        else:
            self._seek_position(position)
        self._renew()
        self.cursor.save_position()
        return there

    def seek_cycle(self, cycle: CycleLike) -> bool:
        """Move before the first record of a cycle: see `Tailer.seek_cycle`."""
        number = self._cycles.number_of(cycle)
        start, end = (
            self._cycles.first_segment(number) * self._core.segment_size,
            self._visible_end(),
        )
        self.cursor.move_to(min(start, end))
        self._renew()
        self.cursor.save_position()
        return start < end and self._cycles.records_in(number) > 0

    def _seek_position(self, position: object) -> None:
        if isinstance(position, str) and position == "first":
            self.cursor.move_to(self._first_position())
        elif isinstance(position, str) and position == "end":
            self.cursor.move_to(self._visible_end())
        else:
            where = whole_of(position)
            if where is None:
                raise InvalidOptionError(
                    f"the position must be 'first', 'end' or an int of at least 0, not {position!r}"
                )
            self._check_position(where)
            self.cursor.move_to(where)

    def _seek_sequence(self, sequence: object) -> None:
        ordinal = whole_of(sequence)
        if ordinal is None or not 0 <= ordinal < 1 << 63:
            raise InvalidOptionError(
                f"sequence must be an int from 0 to 2**63 - 1, not {sequence!r}"
            )
        self.cursor.move_to(self._index.position_of(ordinal))

    def _seek_timestamp(self, timestamp: object) -> bool:
        found = self._index.position_since(timestamp_ns_of(timestamp))
        end = self._visible_end()
        self.cursor.move_to(end if found is None else min(found, end))
        return found is not None and found < end

    def _seek_key(self, key: object) -> bool:
        if not isinstance(key, bytes | bytearray | memoryview):
            hint = ": encode it first" if isinstance(key, str) else ""
            raise RecordTypeError(
                f"key must be bytes, not {type(key).__name__}{hint}", path=self._core.path
            )
        began = self.cursor.position
        place = pass_to_key(self.cursor, bytes(key))
        self.cursor.move_to(began if place is None else place)
        return place is not None

    # --- search and stride -------------------------------------------------------------------

    def search(self, key_function: Callable[[Record], Any], value: Any) -> Record | None:
        """Binary-search sorted records: see `Tailer.search`."""
        self._refuse_selection("search")
        if not callable(key_function):
            raise InvalidOptionError(
                f"key_function must be a callable that takes a record, not {key_function!r}"
            )
        low, high = (
            self._index.sequence_of(self._first_position()),
            self._index.sequence_of(self._visible_end()),
        )
        found, place = None, self._visible_end()
        while low < high:
            middle = (low + high) // 2
            self.cursor.move_to(self._index.position_of(middle))
            record = self.cursor.read_onward()
            if record is None:
                high = middle  # the rest is damaged
                continue
            made = key_function(record)
            if made < value:
                low = max(middle, record.sequence) + 1
            else:
                high, place = middle, record.position
                found = record if made == value else None
        self.cursor.move_to(place)
        self.cursor.save_position()
        return found

    def stride(self) -> Iterator[Record]:
        """Read the indexed records alone: see `Tailer.striding`."""
        self._refuse_selection("striding")
        self.cursor.return_to_saved()
        try:
            yield from self._steps()
        finally:
            self.cursor.return_to_saved()

    def _steps(self) -> Iterator[Record]:
        cursor = self.cursor
        while True:
            cursor.save_position()
            place = cursor.position
            backward = cursor.backward
            entry = self._index.entry(place, before=backward)
            if entry is None:
                return
            cursor.move_to(entry)
            record = cursor.read_onward()
            if backward:
                cursor.move_to(entry)
            if record is not None and (record.position == entry or not backward):
                yield record
            elif not backward:
                cursor.move_to(place)  # the next record is not visible yet
                return

    def _refuse_selection(self, method: str) -> None:
        if self.cursor.selects:
            raise InvalidOptionError(
                f"{method} looks at every record: use a tailer of `log.tailer`, not of `log.view`",
                path=self._core.path,
            )

    # --- positions ---------------------------------------------------------------------------

    def _visible_end(self) -> int:
        core = self._core
        match self._visibility:
            case "appended":
                return core.appended_position
            case "committed":
                return core.committed_position
            case "flushed":
                return core.flushed_position
            case "replicated":
                return max(core.replicated_position, self._first_position())

    def _first_position(self) -> int:
        return self._queue.first_number * self._core.segment_size

    def _check_position(self, position: int) -> None:
        first = self._first_position()
        end = max(self._core.tail_position, self._visible_end())
        offset = position % self._core.segment_size
        if first <= position <= end and (offset == 0 or position == end):
            return
        if first <= position < end and offset % FRAME_ALIGN == 0 and offset >= HEADER_SIZE:
            with self._queue.held(position // self._core.segment_size, "a seek") as segment:
                if segment is not None and _is_frame(segment, offset):
                    return
        first = self._queue.first_remaining() * self._core.segment_size
        raise PositionError(
            f"no record starts here: the log's positions go from {first} to {end}; use a position "
            "that append() returned or that a record has",
            path=self._core.path,
            position=position,
            first_position=first,
        )
