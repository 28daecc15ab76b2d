"""DeltaDecoder: make messages of their deltas and the key frames in their log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from commitlog._kernel.readers import Record
from commitlog.errors import CorruptRecordError, PositionError
from commitlog.log.commit_log import CommitLog
from commitlog.messages.key_frame import LARGEST, WHOLE, Delta, KeyFrame, KeyFrameCache
from commitlog.messages.schema import SCHEMA_TYPE
from commitlog.tail.seek import Visibility

Unsealed: TypeAlias = Callable[[Record], bytes]
Opened: TypeAlias = Callable[[bytes, int, bytes | None], bytes]
_PREFIX = b"keyframe:"
_KEPT = 4096  # key frames that were not found


def key_of(position: int) -> bytes:
    """Return the key of the record that repeats a key frame in a later segment."""
    return _PREFIX + b"%x" % position


class _Repeats(NamedTuple):
    """The key frames that a segment repeats before a position, by their keys."""

    base: int
    end: int
    values: dict[bytes, bytes]


_NO_REPEATS = _Repeats(-1, -1, {})


class DeltaDecoder:
    """Decode the messages of one type number, which are whole or deltas, from any thread.

    Parameters
    ----------
    log : CommitLog
        The log of the messages.
    number : int
        Their type number.
    unsealed : callable
        Returns what is below the history and the seal of a record.
    reopened : callable
        Returns what is below the seal of a value, for a position and a record key.
    decompressed : callable
        Decompresses a whole message; raises ValueError.
    limit : int
        How many bytes a message may have.
    """

    def __init__(
        self,
        log: CommitLog,
        number: int,
        *,
        unsealed: Unsealed,
        reopened: Opened,
        decompressed: Callable[[bytes], bytes],
        limit: int,
    ) -> None:
        self._log = log
        self._number = number
        self._unsealed = unsealed
        self._reopened = reopened
        self._decompressed = decompressed
        self._limit = limit
        self._kept: KeyFrameCache[int, KeyFrame] = KeyFrameCache()
        self._repeats = _NO_REPEATS
        self._missed: dict[bytes, int] = {}  # the tail of the log when a repeat was not there

    def opened(self, value: bytes, position: int, key: bytes | None) -> bytes:
        """Return what the codec made of the message at a position.

        Raises
        ------
        KeyUnavailableError
            The key ring cannot open the key frame.
        ValueError
            The message or its key frame is damaged.
        """
        if value[:1] == WHOLE:
            content = self._decompressed(value[1:])
            if key is not None:  # a message without a key is no key frame
                self._keep(KeyFrame(position, content))
            return content
        delta = Delta(value)
        frame = self._kept.get(delta.position)
        try:
            if frame is None or frame.crc != delta.crc:
                frame = self._found(delta.position, position, key)
            if frame.crc != delta.crc:  # the log was truncated and appended to again
                self._repeats = _NO_REPEATS
                frame = self._found(delta.position, position, key)
            return frame.content_of(delta, self._limit)
        except ValueError as error:
            raise ValueError(
                f"it is a delta of the message at position {delta.position}, which {error}"
            ) from None

    def _keep(self, frame: KeyFrame) -> KeyFrame:
        if len(frame.content) <= LARGEST:
            self._kept.put(frame.position, frame, frame)
        return frame

    def _found(self, at: int, position: int, key: bytes | None) -> KeyFrame:
        """Return the key frame of a delta: from its record, else from the one that repeats it in
        the segment of the delta.
        """
        value = self._value_at(at)
        if value is None:
            repeated = self._repeated(key_of(at), position)
            value = None if repeated is None else self._reopened(repeated, at, key)
        if value is None:
            raise ValueError("is not in the log: read a log that also has the previous segment")
        if value[:1] != WHOLE:
            raise ValueError("is not a key frame: the record was copied from another log")
        return self._keep(KeyFrame(at, self._decompressed(value[1:])))

    def _value_at(self, position: int) -> bytes | None:
        """Return what is below the seal of a message; None if none of this type begins there."""
        try:
            record = self._log.read(position)
        except PositionError:
            return None
        except CorruptRecordError:
            raise ValueError("is damaged: restore the log from a copy") from None
        return self._unsealed(record) if record.type == self._number else None

    def _repeated(self, key: bytes, position: int) -> bytes | None:
        """Return the value of the record with a key that repeats a key frame: in the segment of a
        position, else behind it, if another appender began a segment before the repeat, too. None
        if there is none.
        """
        base = position - position % self._log.segment_size
        known = self._repeats
        if known.base != base:
            known = _Repeats(base, base, {})
        if key not in known.values:
            known = self._repeats = self._continued(known)
        found = known.values.get(key)
        return self._repeated_behind(key, base + self._log.segment_size) if found is None else found

    def _repeated_behind(self, key: bytes, start: int) -> bytes | None:
        log, tail = self._log, self._log.tail_position
        if self._missed.get(key) == tail:
            return None
        with (
            contextlib.suppress(PositionError),  # the log ends before it
            log.tailer(on_damage="skip", visibility=self._visibility()) as tailer,
        ):
            tailer.seek(start)
            while tailer.seek(key=key):
                record = tailer.read()
                if record is not None and record.type == SCHEMA_TYPE:
                    return record.value
        if len(self._missed) >= _KEPT:
            self._missed = {}
        self._missed[key] = tail
        return None

    def _visibility(self) -> Visibility:
        return "committed" if self._log.mode == "r" else "appended"

    def _continued(self, known: _Repeats) -> _Repeats:
        """Return the key frames that a segment repeats, with those behind the last search."""
        log = self._log
        stop = known.base + log.segment_size
        values = dict(known.values)
        with log.tailer(on_damage="skip", visibility=self._visibility()) as tailer:
            with contextlib.suppress(PositionError):  # the log begins behind it
                tailer.seek(known.end)
            while tailer.position < stop and len(batch := tailer.read_batch()):
                for row in np.flatnonzero(batch.types == SCHEMA_TYPE).tolist():
                    key = batch.key(row) or b""
                    if key.startswith(_PREFIX) and batch.positions[row] < stop:
                        values[key] = batch.value(row)
            return _Repeats(known.base, min(tailer.position, stop), values)
