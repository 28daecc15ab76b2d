"""DeadLetters: the jobs of a queue that were rejected, or whose attempts are used up."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from commitlog import CommitLog, Record
from commitlog import open as open_log
from commitlog.base.units import MIB
from commitlog.errors import ClosedError
from commitlog.extension import LogView
from commitlog.queues.notes import Place
from commitlog.queues.parts import check_place

_FOLDER = "dead"
_LETTER, _GONE = 1, 2  # the types of its records
_PLACE = struct.Struct("<qqqQQ")
# The place, time, type, attempts, whether there is a record, length of the JSON text.
_HEAD = struct.Struct(f"{_PLACE.format}qIIBI")


@dataclass(frozen=True)
class DeadLetter:
    """A job that a queue has set aside.

    Attributes
    ----------
    position : int
        The position of the record in the log.
    attempts : int
        How many times it was handed out.
    reason : str
        Why it is dead.
    history : list of dict
        Its failures, oldest first: `attempt`, `what`, `reason`, `at_ns`.
    died_ns : int
        When, in nanoseconds since 1970.
    value, key, type, timestamp_ns
        Those of the record, as are its ``headers``, a dict. `value` is None if the record was not
        in the log any more.
    """

    position: int
    attempts: int
    reason: str
    history: list[dict[str, Any]]
    died_ns: int
    value: bytes | None
    key: bytes | None
    type: int
    headers: dict[str, bytes]
    timestamp_ns: int
    place: Place
    at: int


class DeadLetters:
    """Append and list dead letters, in a log of their own."""

    def __init__(self, folder: str, view: LogView, segment_size: int, mode: str) -> None:
        self._view = view
        self._closed = False
        self._path = os.path.join(folder, _FOLDER)
        self._segment_size = segment_size
        self._mode = mode
        self._log: CommitLog | None = None

    def _opened(self) -> CommitLog | None:
        """Return the log; None if there is none and this handle only reads."""
        if self._closed:
            raise ClosedError("the queue was closed: open it again", path=self._path)
        if self._log is None:
            check_place(self._view)
            if self._mode == "r":
                if not os.path.exists(os.path.join(self._path, "log.json")):
                    return None
                self._log = open_log(self._path, "r")
            else:
                # A letter is longer than its record.
                size = min(max(2 * self._segment_size, 2 * MIB), 1 << 30)
                self._log = open_log(self._path, "a", segment_size=size)
        return self._log

    def close(self) -> None:
        self._closed = True
        if self._log is not None:
            self._log.close()
            self._log = None

    def append(
        self,
        place: Place,
        record: Record | None,
        attempts: int,
        *,
        reason: str,
        history: Sequence[dict[str, Any]],
    ) -> None:
        """Append a letter durably."""
        log = self._opened()
        assert log is not None
        text = json.dumps({"reason": reason, "history": list(history)}).encode()
        head = _HEAD.pack(
            *place,
            0 if record is None else record.timestamp_ns,
            0 if record is None else record.type,
            attempts,
            record is not None,
            len(text),
        )
        value = b"" if record is None else record.value
        key = None if record is None else record.key
        headers = None if record is None else record.headers
        log.append(head + text + value, key=key, type=_LETTER, headers=headers, sync=True)

    def has(self, place: Place) -> bool:
        """Return whether there is a letter of a job. It decodes none of them."""
        log = self._opened()
        if log is None:
            return False
        begins, found = _PLACE.pack(*place), set()
        with log.tailer() as tailer:
            for record in tailer:
                if record.type == _GONE:
                    found.discard(int.from_bytes(record.value, "little"))
                elif record.type == _LETTER and record.value.startswith(begins):
                    found.add(record.position)
        return bool(found)

    def __iter__(self) -> Iterator[DeadLetter]:
        """Yield the letters that were not put back, oldest first."""
        log = self._opened()
        if log is None:
            return
        gone = set()
        with log.tailer() as tailer:
            for record in tailer:
                if record.type == _GONE:
                    gone.add(int.from_bytes(record.value, "little"))
        with log.tailer() as tailer:
            for record in tailer:
                if record.type == _LETTER and record.position not in gone:
                    yield _letter_of(record)

    def remove(self, letter: DeadLetter) -> None:
        """Note durably that a letter is none any more."""
        log = self._opened()
        assert log is not None
        log.append(letter.at.to_bytes(8, "little"), type=_GONE, sync=True)

    def remove_places(self, places: Iterable[Place]) -> None:
        """Remove the letters of jobs that are to be done again."""
        wanted = set(places)
        for letter in list(self) if wanted else ():
            if letter.place in wanted:
                self.remove(letter)


def _letter_of(record: Record) -> DeadLetter:
    *place, timestamp_ns, type, attempts, has_record, length = _HEAD.unpack_from(record.value)
    stop = _HEAD.size + length
    text = json.loads(record.value[_HEAD.size : stop])
    where = Place(*place)
    return DeadLetter(
        position=where.position,
        attempts=attempts,
        reason=text["reason"],
        history=text["history"],
        died_ns=record.timestamp_ns,
        value=record.value[stop:] if has_record else None,
        key=record.key,
        type=type,
        headers=record.headers,
        timestamp_ns=timestamp_ns,
        place=where,
        at=record.position,
    )
