"""Producers: appends whose repeats return the position of the first one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from commitlog._kernel.engine import REFUSED_CLOSED, Engine, RecordList
from commitlog.base.failpoint import failpoint
from commitlog.base.life_lock import LifeLock
from commitlog.base.polling import attempts
from commitlog.base.section import Entry, Section
from commitlog.base.units import whole_of
from commitlog.errors import (
    ClosedError,
    InUseError,
    InvalidOptionError,
    ProducerSequenceError,
)
from commitlog.segment import producers_file
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.segment.producers_file import NUMBERS_KEPT, Numbers

_NAME_BYTES = 255
_NUMBER_MOST = (1 << 63) - 1
_WAIT_S = 5.0  # until a killed process releases the name
_WHO = "producers"


@dataclass(eq=False)
class _Producer:
    """A name that this handle uses.

    Attributes
    ----------
    pending : int or None
        Where the tail was before an append whose outcome is not known.
    """

    hash: int
    life: LifeLock
    numbers: Numbers
    pending: int | None = None
    appending: Section = field(default_factory=Section)


class Producers:
    """The producers of one handle.

    A producer's record has a mark with name and number in front of it, in the same claim, so both
    are in the log or neither is. The handle that uses a name holds a lock, which Linux drops
    when its process dies. Meanwhile no other handle appends under the name, so the handle knows all
    of its numbers: from the file `producers`, and from the marks of later segments.
    """

    def __init__(self, engine: Engine, queue: MappedFileQueue, sync_timeout_s: float) -> None:
        self._engine = engine
        self._queue = queue
        self._sync_timeout_s = sync_timeout_s
        self._opening = Section()
        self._known: dict[str, _Producer] = {}

    def append(self, name: str, number: int, record: tuple[Any, Any, Any, Any, Any]) -> int:
        """Append a record (value, key, type, timestamp, headers) unless its number was appended.

        Return the position of the record with that number, or -1 if the record was dropped.
        """
        producer = self._known.get(name) or self._open(name)
        with producer.appending.entered() as entry:
            if entry is Entry.NESTED:
                raise self._interrupted(name)
            self._settle(producer)
            position = producer.numbers.positions.get(number)
            if position is not None:
                return position
            if number <= producer.numbers.floor:
                raise ProducerSequenceError(
                    f"number {number} of producer {name!r} is too old: the log keeps its last "
                    f"{NUMBERS_KEPT} numbers, all above {producer.numbers.floor}; read its records "
                    "to find out whether it was appended",
                    path=self._engine.path,
                )
            value, key, kind, timestamp_ns, headers = record
            engine = self._engine
            records = RecordList(
                engine, [value], [key], [kind], timestamp_ns, None, headers=[headers]
            )
            producer.pending = engine.tail_position
            position = engine.append_marked(records, producer.hash, number)
            if position >= 0:
                producer.numbers.note(number, position)
            producer.pending = None
            return position

    def last_number(self, name: str) -> int | None:
        """Return the largest number that was appended under a name; None if there is none."""
        producer = self._known.get(name) or self._open(name)
        with producer.appending.entered() as entry:
            if entry is Entry.NESTED:
                raise self._interrupted(name)
            self._settle(producer)
            last = max(producer.numbers.floor, *producer.numbers.positions, -1)
            return None if last < 0 else last

    def _settle(self, producer: _Producer) -> None:
        """Find out what became of an append that raised."""
        if producer.pending is not None:
            self._search(producer, producer.pending // self._engine.segment_size)
            producer.pending = None

    def _open(self, name: str) -> _Producer:
        with self._opening.entered() as entry:
            if entry is Entry.NESTED:
                raise self._interrupted(name)
            if name in self._known:
                return self._known[name]
            number = _hash_of(name)
            life = self._lock_name(name, number)
            try:
                below = self._durable_segments()
                covered = producers_file.extend(self._queue.directory, below, create=True)
                failpoint("producer locked")
                found = _Producer(number, life, covered.producers.get(number, Numbers()))
                self._search(found, covered.number)
                self._known[name] = found
                if self._engine.refusal == REFUSED_CLOSED:  # perhaps since `release`
                    raise ClosedError("the log is closed: open it again", path=self._engine.path)
            except BaseException:
                life.close()
                raise
            return found

    def _interrupted(self, name: str) -> InUseError:
        return InUseError(
            f"this thread is appending as a producer, and a signal handler, a finaliser or a log "
            f"handler that interrupted it appends as producer {name!r}: nothing was appended; "
            "append from another thread, or without producer=",
            path=self._engine.path,
        )

    def _lock_name(self, name: str, number: int) -> LifeLock:
        """Lock a name; wait until the handle that has it is closed or its process has died."""
        life = producers_file.open_lock(self._queue.directory, producers_file.name_lock(number))
        for _ in attempts(_WAIT_S, f"another user of producer {name!r}"):
            if life.acquire("exclusive"):
                return life
        life.close()
        raise InUseError(
            f"another handle appends as producer {name!r}: close it, or use another name",
            path=self._engine.path,
        )

    def _durable_segments(self) -> int:
        """Make everything appended durable; return the number of the first segment that is not."""
        engine = self._engine
        end = engine.tail_position
        engine.check_claims(end)
        engine.flush_to(end, self._sync_timeout_s)
        engine.check_failed()
        return engine.flushed_position // engine.segment_size

    def _search(self, producer: _Producer, first: int) -> None:
        """Note the marks of a producer in the segments from `first` on."""
        engine = self._engine
        end = engine.tail_position
        self._durable_segments()  # then every claim below the end is resolved
        size = engine.segment_size
        for number in range(max(first, self._queue.first_number), end // size + 1):
            limit = min(end - number * size, size)
            with self._queue.held(number, _WHO) as segment:
                if segment is not None:
                    for owner, given, position in producers_file.marks_of(segment, limit):
                        if owner == producer.hash:
                            producer.numbers.note(given, position)

    def keep(self) -> None:
        """If this handle has used a name, extend the file `producers` up to the durable segments,
        before the handle closes.
        """
        if self._known:
            engine = self._engine
            producers_file.extend(
                self._queue.directory, engine.flushed_position // engine.segment_size
            )

    def release(self) -> None:
        """Release the names, after the last append."""
        for producer in self._known.values():
            producer.life.close()
        self._known = {}


def _hash_of(name: str) -> int:
    import hashlib  # programs without producers do not need it, and it takes milliseconds

    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def _size_of(name: str) -> int:
    """Return the bytes of a name in UTF-8; 0 for one that UTF-8 cannot encode."""
    try:
        return len(name.encode())
    except UnicodeEncodeError:
        return 0


def checked(path: str, producer: object, number: object, expect: object) -> tuple[str, int]:
    """Check the arguments of an append of a producer."""
    if not isinstance(producer, str) or not 0 < _size_of(producer) <= _NAME_BYTES:
        raise InvalidOptionError(
            f"producer must be a name of 1 to {_NAME_BYTES} bytes, not {producer!r}", path=path
        )
    whole = whole_of(number)
    if whole is None or not 0 <= whole <= _NUMBER_MOST:
        raise InvalidOptionError(
            f"producer_sequence must be an int of at least 0, not {number!r}", path=path
        )
    if expect is not None:
        raise InvalidOptionError(
            "producer= and expect= exclude each other, because a repeat returns an earlier record: "
            "leave one of them out",
            path=path,
        )
    return producer, whole
