"""TopicAppender: append drafts of messages to a log, each segment's behind their schema."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from commitlog import CommitLog
from commitlog.base.failpoint import failpoint
from commitlog.errors import CommitLogError, InvalidOptionError
from commitlog.extension import view_of
from commitlog.topics.agreement import declare
from commitlog.topics.cipher import NONCE_BYTES
from commitlog.topics.data_key import PlaceSeal
from commitlog.topics.draft import Draft, Variant
from commitlog.topics.message_sizes import FRAME_MOST, check_sizes
from commitlog.topics.part import Part, Positions
from commitlog.topics.schema import SCHEMA_TYPE
from commitlog.topics.topics_state import state_of

_MARK = 32  # bytes in front of a record of a producer
_CLAIM_MOST = 1 << 16  # bytes of the records that are appended at once, as one claim


class ProducerNumber(NamedTuple):
    """The name of a producer, and its number for a message: arguments of `CommitLog.append`."""

    producer: str
    producer_sequence: int


Condition: TypeAlias = int | ProducerNumber | None
"""Of an append: the sequence at which the log must end, or the number of its producer."""


class TopicAppender:
    """Append drafts whose layers have been applied.

    Each segment has the schema before the first message that this handle appends to it. Any thread
    may use it.

    Parameters
    ----------
    log : CommitLog
        A log open for appending.
    """

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        view = view_of(log)
        self._record_list = view.record_list
        self._append_records = view.append_records
        self._last = state_of(log).last

    def append(
        self, draft: Draft, timestamp_ns: int | None, sync: bool | None, condition: Condition
    ) -> int:
        """Append a draft of one message; return its position, or -1 if it was dropped."""
        variant = _variant_of(draft)
        if condition is None and self._last.position < variant.declared.far_end:
            if variant.seal is not None:
                position = self._append_placed(draft, timestamp_ns, sync)
            else:
                position = self._log.append(
                    draft.values[0],
                    key=draft.keys[0],
                    type=variant.type,
                    timestamp_ns=timestamp_ns,
                    sync=sync,
                    headers=None if draft.headers is None else draft.headers[0],
                )
        elif isinstance(condition, ProducerNumber):
            position = self._log.append(
                draft.values[0],
                timestamp_ns=timestamp_ns,
                sync=sync,
                **self._prepare_once(draft, condition),
            )
        else:
            return int(self._append_parts(draft, timestamp_ns, sync, condition)[0])
        self.note_last(variant, position)
        return position

    def append_many(
        self, draft: Draft, timestamp_ns: int | None, sync: bool | None, expect: int | None
    ) -> Positions:
        """Append a draft, after checking the size of each message; return their positions."""
        # Before the first part is appended.
        schema = _variant_of(draft).schema
        check_sizes(
            self._log, schema, draft.values, draft.keys, headers=draft.header_lengths or None
        )
        return self._append_parts(draft, timestamp_ns, sync, expect)

    async def append_async(
        self, draft: Draft, timestamp_ns: int | None, sync: bool | None, condition: Condition
    ) -> int:
        """Append one message as `append` does, and wait as `CommitLog.append_async` does."""
        variant = _variant_of(draft)
        position = -1
        if isinstance(condition, ProducerNumber):
            position = await self._log.append_async(
                draft.values[0],
                timestamp_ns=timestamp_ns,
                sync=sync,
                **self._prepare_once(draft, condition),
            )
            self.note_last(variant, position)
            return position
        for part in self._parts(draft, sync, condition):
            positions = await part.append_async(self._log, timestamp_ns)
            for each in self._note_part(variant, part, positions):
                position = int(each)
        return position

    def _append_placed(self, draft: Draft, timestamp_ns: int | None, sync: bool | None) -> int:
        """Append a message that is sealed for its position. A `Part` of one record takes longer."""
        variant = _variant_of(draft)
        (value,), (key,) = draft.values, draft.keys
        seal: PlaceSeal | None = variant.seal
        assert seal is not None

        def placing(_first: int, _end: int) -> Callable[[list[int]], list[bytes]]:
            nonce = os.urandom(NONCE_BYTES)
            return lambda positions: [seal.seal(value, key, positions[0], nonce)]

        records = self._record_list(
            [value], [key], [variant.type], timestamp_ns, None, placing, draft.headers
        )
        return int(self._append_records(records, sync)[0])

    def _prepare_once(self, draft: Draft, number: ProducerNumber) -> dict[str, Any]:
        """Append the schema if it is needed; return the options of an append under a number."""
        variant = _variant_of(draft)
        if variant.seal is not None:
            raise InvalidOptionError(
                f"topic {variant.schema.topic!r} has seal_positions=True, so producer= is refused: "
                "a repeat has the position of an earlier record; leave it out, or give expect=",
                path=self._log.path,
            )
        check_sizes(
            self._log,
            variant.schema,
            draft.values,
            draft.keys,
            headers=draft.header_lengths or None,
        )
        self.prepare(variant, draft.length(0, 1) + _MARK)
        options = {"key": draft.keys[0], "type": variant.type, **number._asdict()}
        return options if draft.headers is None else {**options, "headers": draft.headers[0]}

    # --- parts ------------------------------------------------------------------------------------

    def _append_parts(
        self, draft: Draft, timestamp_ns: int | None, sync: bool | None, expect: int | None
    ) -> Positions:
        variant = _variant_of(draft)
        found = [
            self._note_part(variant, part, part.append(self._log, timestamp_ns))
            for part in self._parts(draft, sync, expect)
        ]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def _parts(self, draft: Draft, sync: bool | None, expect: int | None) -> Iterator[Part]:
        """Yield lists of records, each of which is appended before the next one is asked for.

        A list has messages that fit the segment, which has the schema, or the schema and a message.
        With `expect`, all messages are one list.
        """
        if expect is not None:
            yield from self._whole(draft, sync, expect)
            return
        variant, count = _variant_of(draft), len(draft.values)
        first = 0
        is_alone = False
        while first < count:
            last = self._end_of_fitting(draft, first)
            is_plain = last > first or is_alone
            last = max(last, first + 1)
            # The flush of the last part makes all of them durable.
            durable = sync if last == count or not sync else False
            if not is_plain:
                self._declare(variant)
                is_alone = not self._fits_beside_schema(draft, first)
                if is_alone:
                    yield _part_of(draft, 0, 0, False).put_behind(variant.heads)
                    continue
            part = _part_of(draft, first, last, durable)
            yield part if is_plain else part.put_behind(variant.heads)
            first = last
            is_alone = False

    def _whole(self, draft: Draft, sync: bool | None, expect: int) -> Iterator[Part]:
        """Yield all messages as one list, behind the schema if the segment needs it and both fit
        one claim. If they do not, the schema follows the messages. But a data key goes before them,
        because a kill in between would leave messages that nothing opens.
        """
        variant, count = _variant_of(draft), len(draft.values)
        part = _part_of(draft, 0, count, sync, expect)
        if self._end_of_fitting(draft, 0) < count:
            self._declare(variant)
            if variant.heads_length + draft.length(0, count) <= self._log.largest_value:
                part.put_behind(variant.heads)
            elif len(variant.heads) > 1:
                yield _part_of(draft, 0, 0, False, expect).put_behind(variant.heads)
                part.expect = expect + len(variant.heads)
        yield part

    def _fits_beside_schema(self, draft: Draft, row: int) -> bool:
        """Return whether the schema and a message are one claim. If they are not, make sure that
        the segment has room for both.
        """
        length = _variant_of(draft).heads_length + draft.length(row, row + 1)
        if length <= min(_CLAIM_MOST, self._log.largest_value):
            return True
        self._make_room(length)
        return False

    def _make_room(self, length: int) -> None:
        """Roll, unless the segment has room for frames of that length."""
        if length > self._log.segment_size - self._log.tail_position % self._log.segment_size:
            self._log.roll()

    def _end_of_fitting(self, draft: Draft, first: int) -> int:
        """Return the end of the messages from `first` on that fit the segment."""
        count = len(draft.values)
        room = _variant_of(draft).room(self._log)
        if room <= 0:
            return first
        least = draft.length(0, count) if first == 0 else room
        if least < room:
            return count
        last = first
        while last < count:
            room -= draft.length(last, last + 1)
            if room <= 0:
                break
            last += 1
        return last

    # --- the schema -------------------------------------------------------------------------------

    def prepare(self, variant: Variant, length: int) -> None:
        """Append the schema, unless the segment has it and has room for frames of that length."""
        if length < variant.room(self._log):
            return
        self._declare(variant)
        self._make_room(length + variant.heads_length)
        self._append_schema(variant)

    def _declare(self, variant: Variant) -> None:
        if not variant.is_declared and self._log.mode != "r":
            declare(self._log, variant.schema)
            variant.is_declared = True

    def _note_part(self, variant: Variant, part: Part, positions: Positions) -> Positions:
        """Record which segment has the schema; return the positions of the messages."""
        if part.types[:1] == [SCHEMA_TYPE]:
            self._note_schema(variant, int(positions[0]))
            positions = positions[len(variant.heads) :]
        self.note_last(variant, int(positions.max(initial=-1)))
        return positions

    def note_last(self, variant: Variant, position: int) -> None:
        """Record the position of the last message that was appended, or -1."""
        if position >= variant.declared.end:
            self.declare_behind(variant, position)
        self._last.position = max(position, self._last.position)

    def _note_schema(self, variant: Variant, position: int) -> None:
        if position >= 0:
            size = self._log.segment_size
            variant.declared.end = end = (position // size + 1) * size
            # Two of the largest records, an eighth of a segment each, fit behind it.
            variant.declared.far_end = end - size // 4 - 2 * FRAME_MOST

    def declare_behind(self, variant: Variant, position: int) -> None:
        """Append the schema to a segment that another appender, or the end of a cycle, began before
        the message at a position.
        """
        failpoint("message in a new segment")
        # The message is appended, so a failure here is not raised. The next append tries again.
        with contextlib.suppress(CommitLogError):
            self._append_schema(variant)

    def _append_schema(self, variant: Variant) -> None:
        first, *_ = [
            self._log.append(value, key=key, type=SCHEMA_TYPE, sync=False)
            for key, value in variant.heads
        ]
        self._note_schema(variant, first)


def _variant_of(draft: Draft) -> Variant:
    assert draft.variant is not None
    return draft.variant


def _part_of(
    draft: Draft, first: int, last: int, sync: bool | None, expect: int | None = None
) -> Part:
    """Return the messages from `first` to `last` as records to append."""
    variant, count = _variant_of(draft), last - first
    return Part(
        draft.values[first:last],
        draft.keys[first:last],
        [variant.type] * count,
        [variant.seal] * count,
        sync,
        expect,
        None if draft.headers is None else draft.headers[first:last],
    )
