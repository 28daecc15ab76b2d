"""DeltaEncoder: append a message as a delta of an earlier one with its key, where that pays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from commitlog.base.failpoint import failpoint
from commitlog.errors import CommitLogError
from commitlog.log.commit_log import CommitLog
from commitlog.messages.appender import (
    Appending,
    Key,
    Layered,
    ProducerNumber,
    checked_keys,
)
from commitlog.messages.delta_decoder import key_of
from commitlog.messages.key_frame import LARGEST, WHOLE, KeyFrame, KeyFrameCache
from commitlog.messages.message_sizes import FRAME_MOST
from commitlog.messages.part import Positions
from commitlog.messages.schema import SCHEMA_TYPE

# A damaged key frame costs the messages that are deltas of it, so their number has a bound.
MOST_DELTAS = 100
_MORE = FRAME_MOST + 64  # what a record has beside key and content, without a long history


class _Current:
    """The key frame of a key, and what its deltas cost.

    Parameters
    ----------
    frame : KeyFrame
        The key frame.
    size : int
        How many bytes it takes, compressed.
    """

    def __init__(self, frame: KeyFrame, size: int) -> None:
        self.frame = frame
        self._bytes = self._recent = float(size)
        self._count = 0

    def delta(self, content: bytes) -> bytes | None:
        """Return the delta of a message; None if a new key frame pays, because recent deltas are
        larger than the messages since the key frame are on average, with the key frame itself.
        """
        delta = self.frame.delta(content)
        size = len(delta)
        self._count += 1
        self._recent = size if self._count == 1 else self._recent + (size - self._recent) / 5
        if self._recent * self._count >= self._bytes or self._count > MOST_DELTAS:
            return None
        self._bytes += size
        return delta


class _Sent(NamedTuple):
    """A message that is appended: a key frame to be, or the delta of one."""

    key: bytes
    content: bytes
    size: int
    of: KeyFrame | None


class DeltaEncoder:
    """Append the messages of one type number, whole or as deltas: see `Layered`.

    A delta is of a key frame: the last whole message of its key that this object has appended, in
    the same segment. So a segment is read alone, and a message needs one other record. Messages of
    a list are deltas of messages before the list. Any thread may use it.

    Parameters
    ----------
    log : CommitLog
        The log of the messages.
    compressed : callable
        Compresses a whole message.
    end : Layered
        Takes what this object makes.
    """

    def __init__(self, log: CommitLog, compressed: Callable[[bytes], bytes], end: Layered) -> None:
        self._log = log
        self._compressed = compressed
        self._end = end
        self._current: KeyFrameCache[bytes, _Current] = KeyFrameCache()

    def one(self, value: bytes, key: Key | None) -> tuple[Appending, bytes]:
        """Return what appends a message, and its value."""
        tail = self._log.tail_position
        made, sent = self._made(value, key, self._first_usable(tail, [value], [key]))
        appender, layered = self._end.one(made, key)
        return (appender if sent is None else _Noting(self, appender, tail, [sent])), layered

    def many(
        self, values: list[bytes], keys: list[Key | None] | None
    ) -> tuple[Appending, list[bytes]]:
        """Return likewise for some values."""
        given = checked_keys(self._log, values, keys)
        tail = self._log.tail_position
        first = self._first_usable(tail, values, given)
        pairs = [self._made(*each, first) for each in zip(values, given, strict=True)]
        appender, layered = self._end.many([made for made, _ in pairs], keys)
        return _Noting(self, appender, tail, [sent for _, sent in pairs]), layered

    def _first_usable(self, tail: int, values: list[bytes], keys: list[Key | None]) -> int:
        """Return the position from which on key frames can be used, so that messages that are
        appended at the tail have theirs in the same segment.
        """
        size = self._log.segment_size
        most = sum(map(len, values)) + sum(len(key or b"") for key in keys) + _MORE * len(values)
        return tail - tail % size if tail % size + most < size else tail

    def _made(self, content: bytes, key: Key | None, first: int) -> tuple[bytes, _Sent | None]:
        """Return a message whole or as a delta, and what to note when it is appended."""
        # A key of another type is refused by the append.
        if not isinstance(key, bytes | bytearray) or len(content) > LARGEST:
            return WHOLE + self._compressed(content), None
        name = bytes(key)
        current = self._current.get(name)
        if current is not None and current.frame.position >= first:
            delta = current.delta(content)
            if delta is not None:
                return delta, _Sent(name, content, 0, current.frame)
        whole = WHOLE + self._compressed(content)
        return whole, _Sent(name, content, len(whole), None)

    def has(self, position: int, value: bytes) -> bool:
        """Return whether the log has a value in the record at a position, or -1."""
        try:
            return position >= 0 and self._log.read(position).value == value
        except CommitLogError:
            return False

    def noted(self, sent: list[_Sent | None], positions: Iterable[int], tail: int) -> None:
        """Note messages that are appended, by their positions.

        A message below the former tail was appended before, under a producer's number; one that was
        dropped has -1.
        """
        crossed: dict[KeyFrame, bytes] = {}
        size = self._log.segment_size
        for each, position in zip(sent, positions, strict=True):
            if each is None or position < tail:
                continue
            if each.of is None:
                frame = KeyFrame(position, each.content)
                self._current.put(each.key, _Current(frame, each.size), frame)
            elif position // size != each.of.position // size:
                crossed[each.of] = each.key
        for frame, key in crossed.items():
            self._repeat(frame, key)

    def _repeat(self, frame: KeyFrame, key: bytes) -> None:
        """Append a key frame again, because another appender, or the end of a cycle, began a
        segment before a delta of it.
        """
        failpoint("delta in a new segment")
        # The delta is appended, so a failure here is not raised. Then the delta needs the earlier
        # segment.
        with contextlib.suppress(CommitLogError):
            appender, value = self._end.one(WHOLE + self._compressed(frame.content), key)
            if appender.seal is not None:  # it proves what is at the position of the key frame
                value = appender.seal.sealed_alone(value, key, frame.position)
            self._log.append(value, key=key_of(frame.position), type=SCHEMA_TYPE, sync=False)


class _Noting:
    """Append what an encoder made, and give it the positions.

    What its methods are given is what those of `TopicAppender` take.
    """

    def __init__(
        self,
        encoder: DeltaEncoder,
        appender: Appending,
        tail: int,
        sent: list[_Sent | None],
    ) -> None:
        self.type = appender.type
        self.seal = appender.seal
        self.prepare = appender.prepare
        self._encoder = encoder
        self._appender = appender
        self._tail = tail
        self._sent = sent

    def append(self, *given: Any) -> int:
        """Append one message; return its position, or -1 if it was dropped."""
        position = self._appender.append(*given)
        self._note_one(position, *given)
        return position

    def _note_one(self, position: int, value: bytes, *given: Any) -> None:
        """Note the position of a message, unless another append of its producer's number, such as
        that of another thread, was first.
        """
        is_first = not isinstance(given[-1], ProducerNumber) or self._encoder.has(position, value)
        if is_first:
            self._encoder.noted(self._sent, [position], self._tail)

    def append_many(self, *given: Any) -> Positions:
        """Append messages; return their positions."""
        positions = self._appender.append_many(*given)
        self._encoder.noted(self._sent, positions.tolist(), self._tail)
        return positions

    async def append_async(self, *given: Any) -> int:
        """Append one message, and wait as `CommitLog.append_async` does."""
        position = await self._appender.append_async(*given)
        self._note_one(position, *given)
        return position

    def note_last(self, position: int) -> None:
        """Note the position of the message, which an output appended."""
        self._appender.note_last(position)
        self._encoder.noted(self._sent, [position], self._tail)
