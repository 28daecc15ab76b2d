"""DeadLetters: the jobs of a queue that were rejected, or whose attempts are used up."""

from __future__ import annotations

import json
import os
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from commitlog import CommitLog, Record, Tailer
from commitlog import open as open_log
from commitlog.base.units import MIB
from commitlog.errors import ClosedError
from commitlog.extension import LogView
from commitlog.queues.notes import Place
from commitlog.queues.parts import check_place

_FOLDER = "dead"
_LETTER, _GONE = 1, 2  # the types of its records
_KNOWN_MOST = 1 << 17  # letters in memory, to find that of an unfinished job
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
    """Append and list dead letters, in a log of their own.

    Parameters
    ----------
    unfinished : callable
        Returns the positions of the jobs that are not done.
    """

    def __init__(
        self,
        folder: str,
        view: LogView,
        segment_size: int,
        mode: str,
        unfinished: Callable[[], set[int]],
    ) -> None:
        self._view = view
        self._unfinished = unfinished
        self._looking = threading.Lock()
        self._pid = os.getpid()
        self._tailer: Tailer | None = None
        self._known: dict[int, int] = {}  # where the letter of a job is, by the job's position
        self._counting: Tailer | None = None
        self._letters = 0
        self._gone: set[int] = set()
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
                if not self._exists():
                    return None
                self._log = open_log(self._path, "r")
            else:
                # A letter is longer than its record.
                size = min(max(2 * self._segment_size, 2 * MIB), 1 << 30)
                self._log = open_log(self._path, "a", segment_size=size)
        return self._log

    def _exists(self) -> bool:
        return os.path.exists(os.path.join(self._path, "log.json"))

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
        """Return whether there is a letter of an unfinished job."""
        return self._find(place) is not None

    def _alone(self) -> threading.Lock:
        """Return the lock of the index; in the child of a fork, begin anew."""
        if self._pid != os.getpid():  # a thread of the parent may have been in it
            self._pid, self._looking = os.getpid(), threading.Lock()
            self._tailer = self._counting = None
        return self._looking

    def _find(self, place: Place) -> int | None:
        """Return where that letter is. The first call reads all letters, a later one those that
        came since.
        """
        with self._alone():
            log = self._opened()
            if log is None:
                return None
            if self._tailer is None:
                self._known = {}
                self._tailer = log.tailer()
            for record in self._tailer:
                self._note(record)
            at = self._known.get(place.position)
            return at if at is not None and _place_of(log.read(at)) == place else None

    def _note(self, record: Record) -> None:
        if record.type == _LETTER:
            self._known[_place_of(record).position] = record.position
            if len(self._known) > _KNOWN_MOST:
                wanted = self._unfinished()  # which are at most as many as the leases hold
                self._known = {each: at for each, at in self._known.items() if each in wanted}
        elif record.type == _GONE:
            position = self._place_at(_at_of(record)).position
            if self._known.get(position) == _at_of(record):
                del self._known[position]

    def _place_at(self, at: int) -> Place:
        assert self._log is not None
        return _place_of(self._log.read(at))

    def __len__(self) -> int:
        """Count the letters that were not put back: the first call all of them, a later one those
        that came since.
        """
        with self._alone():
            log = self._opened()
            if log is None:
                return 0
            if self._counting is None:
                self._letters, self._gone = 0, set()
                self._counting = log.tailer()
            for record in self._counting:
                if record.type == _GONE:
                    self._gone.add(_at_of(record))
                else:
                    self._letters += record.type == _LETTER
            return self._letters - len(self._gone)

    def of_copy(self, wants: Callable[[int], bool], since_ns: int) -> tuple[set[int], list[Place]]:
        """Return what the letters of a copied queue say: they may be newer or older than its state.

        Parameters
        ----------
        wants : callable
            Says whether the letter of the job at a position is of interest.
        since_ns : int
            The time of the last note of the state.

        Returns
        -------
        set of int
            The positions of those jobs that have a letter.
        list of Place
            Jobs whose letters were put back after that time: the state may not have that.
        """
        letters: dict[int, int] = {}
        put_back: list[Place] = []
        log = self._opened() if self._exists() else None
        if log is not None:
            with log.tailer() as tailer:
                for record in tailer:
                    if record.type == _LETTER:
                        position = _place_of(record).position
                        if wants(position):
                            letters[record.position] = position
                    elif record.type == _GONE:
                        letters.pop(_at_of(record), None)
                        if record.timestamp_ns > since_ns:
                            put_back.append(self._place_at(_at_of(record)))
        return set(letters.values()), put_back

    def __iter__(self) -> Iterator[DeadLetter]:
        """Yield the letters that were not put back, oldest first."""
        log = self._opened()
        if log is None:
            return
        gone = set()
        with log.tailer() as tailer:
            for record in tailer:
                if record.type == _GONE:
                    gone.add(_at_of(record))
        with log.tailer() as tailer:
            for record in tailer:
                if record.type == _LETTER and record.position not in gone:
                    yield _letter_of(record)

    def remove(self, letter: DeadLetter) -> None:
        """Note durably that a letter is none any more."""
        self._remove(letter.at)

    def _remove(self, at: int) -> None:
        log = self._opened()
        assert log is not None
        log.append(at.to_bytes(8, "little"), type=_GONE, sync=True)

    def remove_places(self, places: Iterable[Place]) -> None:
        """Remove the letters of jobs that are to be done again."""
        for place in places:
            if (at := self._find(place)) is not None:
                self._remove(at)


def _place_of(record: Record) -> Place:
    return Place(*_PLACE.unpack_from(record.value))


def _at_of(record: Record) -> int:
    """Return which letter a note takes away."""
    return int.from_bytes(record.value, "little")


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
