"""TopicAppender: append the values of messages, each segment's behind their schema."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from commitlog._kernel.messages import DeclaredSegment, LastAppend
from commitlog.base.failpoint import failpoint
from commitlog.errors import CommitLogError, InvalidOptionError
from commitlog.log.commit_log import CommitLog
from commitlog.messages.agreement import declare
from commitlog.messages.catalog import SchemaCatalog
from commitlog.messages.message_sizes import FRAME_MOST, check_sizes, frames_length
from commitlog.messages.part import Part, PlaceSeal, Positions
from commitlog.messages.schema import SCHEMA_TYPE, Schema

Key: TypeAlias = bytes | bytearray
_MARK = 32  # bytes in front of a record of a producer
_CLAIM_MOST = 1 << 16  # bytes of the records that are appended at once, as one claim


class ProducerNumber(NamedTuple):
    """The name of a producer, and its number for a message: arguments of `CommitLog.append`."""

    producer: str
    producer_sequence: int


Condition: TypeAlias = int | ProducerNumber | None
"""Of an append: the sequence at which the log must end, or the number of its producer."""


class TopicAppender:
    """Append the values of a topic's messages.

    Each segment has the schema before the first message that this handle appends to it. Any thread
    may use it.

    Parameters
    ----------
    log : CommitLog
        A log open for appending.
    schema : Schema
        The schema of the messages.
    catalog : SchemaCatalog
        That of the log.
    last : LastAppend
        Shared with the other topics of the handle.
    data_key : tuple of bytes, optional
        Key and value of a record that each segment has behind the schema.
    seal : PlaceSeal, optional
        Seals the messages for their positions.

    Attributes
    ----------
    seal : PlaceSeal or None
        As given. If it is one, the values of messages have `ROOM` behind them.
    type : int
        The type number of the messages.
    declared : DeclaredSegment
        The segment in which this handle has appended the schema.
    """

    def __init__(
        self,
        log: CommitLog,
        schema: Schema,
        catalog: SchemaCatalog,
        last: LastAppend,
        data_key: tuple[bytes, bytes] | None = None,
        *,
        seal: PlaceSeal | None = None,
    ) -> None:
        self.last = last
        self.seal = seal
        self.declared = DeclaredSegment()
        self._log = log
        self._schema = schema
        self.type = schema.number
        self._catalog = catalog
        self._is_declared = False
        self._heads = [(schema.key, schema.value)]  # the records that each segment needs
        if data_key is not None:
            self._heads.append(data_key)

    def append(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        condition: Condition,
    ) -> int:
        """Append one message; return its position, or -1 if it was dropped."""
        if condition is None and self.last.position < self.declared.far_end:
            if self.seal is None:
                position = self._log.append(
                    value, key=key, type=self.type, timestamp_ns=timestamp_ns, sync=sync
                )
            else:
                record = (value, key, self.type)
                position = self.seal.append(self._log, record, timestamp_ns, sync)
        elif isinstance(condition, ProducerNumber):
            position = self._log.append(
                value, timestamp_ns=timestamp_ns, sync=sync, **self._once(value, key, condition)
            )
        else:
            return int(self._append_parts([value], [key], timestamp_ns, sync, condition)[0])
        self.note_last(position)
        return position

    def append_many(
        self,
        values: list[bytes],
        keys: Iterable[Key | None] | None,
        timestamp_ns: int | None,
        sync: bool | None,
        expect: int | None,
    ) -> Positions:
        """Append messages, after checking the size of each; return their positions."""
        given = checked_keys(self._log, values, keys)
        check_sizes(self._log, self._schema, values, given)  # before the first part is appended
        return self._append_parts(values, given, timestamp_ns, sync, expect)

    async def append_async(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        condition: Condition,
    ) -> int:
        """Append one message as `append` does, and wait as `CommitLog.append_async` does."""
        position = -1
        if isinstance(condition, ProducerNumber):
            position = await self._log.append_async(
                value, timestamp_ns=timestamp_ns, sync=sync, **self._once(value, key, condition)
            )
            self.note_last(position)
            return position
        for part in self._parts([value], [key], sync, condition):
            positions = await part.append_async(self._log, timestamp_ns)
            for each in self._noted(part, positions):
                position = int(each)
        return position

    def _once(self, value: bytes, key: Key | None, number: ProducerNumber) -> dict[str, Any]:
        """Append the schema if it is needed; return what `append` takes."""
        if self.seal is not None:
            raise InvalidOptionError(
                f"topic {self._schema.topic!r} has seal_positions=True, so producer= is refused: a "
                "repeat has the position of an earlier record; leave it out, or give expect=",
                path=self._log.path,
            )
        check_sizes(self._log, self._schema, [value], [key])
        self.prepare(frames_length([value], [key]) + _MARK)
        return {"key": key, "type": self.type, **number._asdict()}

    # --- parts ------------------------------------------------------------------------------------

    def _append_parts(
        self,
        values: list[bytes],
        keys: list[Any],
        timestamp_ns: int | None,
        sync: bool | None,
        expect: int | None,
    ) -> Positions:
        found = [
            self._noted(part, part.append(self._log, timestamp_ns))
            for part in self._parts(values, keys, sync, expect)
        ]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def _part(
        self,
        values: list[bytes],
        keys: list[Any],
        sync: bool | None,
        expect: int | None = None,
    ) -> Part:
        count = len(values)
        return Part(values, keys, [self.type] * count, [self.seal] * count, sync, expect)

    def _parts(
        self, values: list[bytes], keys: list[Any], sync: bool | None, expect: int | None
    ) -> Iterator[Part]:
        """Yield lists of records, each of which is appended before the next one is asked for.

        A list has messages that fit the segment, which has the schema, or the schema and a message.
        With `expect`, all messages are one list.
        """
        if expect is not None:
            yield from self._whole(values, keys, sync, expect)
            return
        count = len(values)
        first = 0
        is_alone = False
        while first < count:
            last = self._fitting(values, keys, first)
            is_plain = last > first or is_alone
            last = max(last, first + 1)
            # The flush of the last part makes all of them durable.
            durable = sync if last == count or not sync else False
            if not is_plain:
                self._declare()
                is_alone = not self._fits_beside_schema(values[first], keys[first])
                if is_alone:
                    yield self._part([], [], False).behind(self._heads)
                    continue
            part = self._part(values[first:last], keys[first:last], durable)
            yield part if is_plain else part.behind(self._heads)
            first = last
            is_alone = False

    def _whole(
        self, values: list[bytes], keys: list[Any], sync: bool | None, expect: int
    ) -> Iterator[Part]:
        """Yield all messages as one list, behind the schema if the segment needs it and both fit
        one claim. If they do not, the schema follows the messages. But a data key goes before them,
        because a kill in between would leave messages that nothing opens.
        """
        part = self._part(list(values), keys, sync, expect)
        if self._fitting(values, keys, 0) < len(values):
            self._declare()
            if self._heads_length() + frames_length(values, keys) <= self._log.largest_value:
                part.behind(self._heads)
            elif len(self._heads) > 1:
                yield self._part([], [], False, expect).behind(self._heads)
                part.expect = expect + len(self._heads)
        yield part

    def _heads_length(self) -> int:
        keys, values = zip(*self._heads, strict=True)
        return frames_length(list(values), list(keys))

    def _fits_beside_schema(self, value: bytes, key: Any) -> bool:
        """Return whether the schema and a message are one claim. If they are not, make sure that
        the segment has room for both.
        """
        length = self._heads_length() + frames_length([value], [key])
        if length <= min(_CLAIM_MOST, self._log.largest_value):
            return True
        self._make_room(length)
        return False

    def _make_room(self, length: int) -> None:
        """Roll, unless the segment has room for frames of that length."""
        if length > self._log.segment_size - self._log.tail_position % self._log.segment_size:
            self._log.roll()

    def _room(self) -> int:
        """Return how many bytes of frames fit the segment that has the schema."""
        return self.declared.end - FRAME_MOST - self._log.tail_position

    def _fitting(self, values: list[bytes], keys: list[Any], first: int) -> int:
        """Return the end of the messages from `first` on that fit the segment."""
        room = self._room()
        if room <= 0:
            return first
        least = frames_length(values, keys) if first == 0 else room
        if least < room:
            return len(values)
        last = first
        while last < len(values):
            room -= frames_length(values[last : last + 1], keys[last : last + 1])
            if room <= 0:
                break
            last += 1
        return last

    def _declare(self) -> None:
        if not self._is_declared and self._log.mode != "r":
            declare(self._log, self._catalog, self._schema)
            self._is_declared = True

    def _noted(self, part: Part, positions: Positions) -> Positions:
        """Record which segment has the schema; return the positions of the messages."""
        if part.types[:1] == [SCHEMA_TYPE]:
            self._note(int(positions[0]))
            positions = positions[len(self._heads) :]
        self.note_last(int(positions.max(initial=-1)))
        return positions

    def prepare(self, length: int) -> None:
        """Append the schema, unless the segment has it and has room for frames of that length."""
        if self.has_room(length):
            return
        self._declare()
        self._make_room(length + self._heads_length())
        self._append_schema()

    def has_room(self, length: int) -> bool:
        """Return whether the segment has the schema, and room for frames of that length."""
        return length < self._room()

    def note_last(self, position: int) -> None:
        """Record the position of the last message that was appended, or -1."""
        if position >= self.declared.end:
            self.declare_behind(position)
        self.last.position = max(position, self.last.position)

    def _note(self, position: int) -> None:
        if position >= 0:
            size = self._log.segment_size
            self.declared.end = end = (position // size + 1) * size
            # Two of the largest records, an eighth of a segment each, fit behind it.
            self.declared.far_end = end - size // 4 - 2 * FRAME_MOST

    def declare_behind(self, position: int) -> None:
        """Append the schema to a segment that another appender, or the end of a cycle, began before
        this message.
        """
        failpoint("message in a new segment")
        # The message is appended, so a failure here is not raised. The next append tries again.
        with contextlib.suppress(CommitLogError):
            self._append_schema()

    def _append_schema(self) -> None:
        first, *_ = [
            self._log.append(value, key=key, type=SCHEMA_TYPE, sync=False)
            for key, value in self._heads
        ]
        self._note(first)

    def one(self, value: bytes, key: Any) -> tuple[Appending, bytes]:
        """As `Layered.one`; this schema has no layers."""
        del key
        return self, value

    def many(self, values: list[bytes], keys: list[Any] | None) -> tuple[Appending, list[bytes]]:
        """As `Layered.many`."""
        del keys
        return self, values


def checked_keys(
    log: CommitLog, values: list[bytes], keys: Iterable[Key | None] | None
) -> list[Key | None]:
    """Return one key for each value; refuse another number of keys."""
    given: list[Key | None] = [None] * len(values) if keys is None else list(keys)
    if len(given) != len(values):
        raise InvalidOptionError(
            f"keys must have one key for each message: {len(given)} keys for {len(values)} "
            "messages",
            path=log.path,
        )
    return given


class Appending(Protocol):
    """Appends values that are behind the layers of a schema: see `TopicAppender`."""

    type: int
    seal: PlaceSeal | None

    def append(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        condition: Condition,
        /,
    ) -> int: ...
    def append_many(
        self,
        values: list[bytes],
        keys: Iterable[Key | None] | None,
        timestamp_ns: int | None,
        sync: bool | None,
        expect: int | None,
        /,
    ) -> Positions: ...
    async def append_async(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        condition: Condition,
        /,
    ) -> int: ...
    def prepare(self, length: int, /) -> None: ...
    def note_last(self, position: int, /) -> None: ...


class Layered(Protocol):
    """Puts the values of messages behind the layers of their schema."""

    def one(self, value: bytes, key: Any) -> tuple[Appending, bytes]:
        """Return what appends a value, and that value behind the layers."""

    def many(self, values: list[bytes], keys: list[Any] | None) -> tuple[Appending, list[bytes]]:
        """Return likewise for some values, which get the same layers."""
