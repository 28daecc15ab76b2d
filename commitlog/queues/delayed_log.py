"""DelayedLog: jobs that are not in their log yet, because they were put with a delay.

It is a log beside the queues of a log: `queues/.delayed`. A job goes from there to the log in three
steps, so that a crash at any of them neither loses nor repeats it:

1. a MOVE with a new number is durable here;
2. the job is appended to the log by the producer `queue delayed` with that number, which makes a
   repeat harmless;
3. the log is flushed, and then a MOVED with that number is durable here, with the fingerprint of
   the log's last such record: a log that lacks it is an older copy, and gets the jobs again.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from commitlog import CommitLog, Record
from commitlog import open as open_log
from commitlog.base.units import MIB
from commitlog.errors import RecordTypeError
from commitlog.queues.due_index import DueIndex
from commitlog.queues.notes import Print

FOLDER = ".delayed"
PUT, MOVE, MOVED = 1, 2, 3
_PUT = struct.Struct("<qI")  # when it is due, and the type of the job
_MOVE = struct.Struct("<Qq")  # number, and where the job is here
_MOVED = struct.Struct("<QqQ")  # number, and the fingerprint of the record in the log


class Move(NamedTuple):
    number: int
    position: int


class DelayedJob(NamedTuple):
    value: bytes
    key: bytes | None
    type: int
    headers: Mapping[str, bytes] | None


def delayed_job(
    value: object, key: object, type: object, headers: Mapping[str, bytes] | None
) -> DelayedJob:
    """Return a job of what an append takes; raise for what an append refuses."""
    if not isinstance(type, int) or not 0 <= type < 1 << 32:
        raise RecordTypeError(f"type must be an int from 0 to 4294967295, not {type!r}")
    plain = None if key is None else _plain("key", key)
    return DelayedJob(_plain("value", value), plain, type, headers)


def _plain(what: str, content: Any) -> bytes:
    try:
        return content if isinstance(content, bytes) else bytes(memoryview(content))
    except TypeError:
        raise RecordTypeError(
            f"the {what} must be bytes or offer the buffer protocol, not {type(content).__name__}"
        ) from None


class Loaded(NamedTuple):
    """What a delayed log has: jobs that are due some time, moves that may not be complete, the
    highest number, and where to read on.
    """

    due: DueIndex
    unsure: list[Move]
    number: int
    end: int


def path_of(log_path: str) -> str:
    return os.path.join(log_path, "queues", FOLDER)


class DelayedLog:
    """Append jobs and moves, and read them."""

    def __init__(self, log: CommitLog) -> None:
        size = min(max(2 * log.segment_size, 2 * MIB), 1 << 30)
        self.log = open_log(path_of(log.path), "a", segment_size=size)

    def put(self, job: DelayedJob, due_ns: int, sync: bool | None) -> int:
        value = _PUT.pack(due_ns, job.type) + job.value
        return self.log.append(value, key=job.key, type=PUT, headers=job.headers, sync=sync)

    def read(self, position: int) -> DelayedJob:
        record = self.log.read(position)
        _, type = _PUT.unpack_from(record.value)
        return DelayedJob(record.value[_PUT.size :], record.key, type, record.headers)

    def begin_moves(self, moves: Iterable[Move]) -> None:
        values = [_MOVE.pack(*move) for move in moves]
        self.log.append_many(values, types=[MOVE] * len(values), sync=True)

    def end_moves(self, number: int, position: int, print: int) -> None:
        self.log.append(_MOVED.pack(number, position, print), type=MOVED, sync=True)

    def delete_before(self, position: int) -> None:
        self.log.delete_before(position, 0)

    @staticmethod
    def due_of(record: Record) -> int:
        """Return when a PUT is due."""
        return int(_PUT.unpack_from(record.value)[0])

    def load(self, has: Callable[[Print], bool]) -> Loaded:
        """Read all of it; `has` says whether the log has a record, or has deleted it."""
        due, positions, moved = array("q"), array("q"), array("q")
        moves: list[Move] = []
        ends: list[tuple[int, Print]] = []
        number = 0
        with self.log.tailer() as tailer:
            for record in tailer:
                if record.type == PUT:
                    due.append(self.due_of(record))
                    positions.append(record.position)
                elif record.type == MOVE:
                    move = Move(*_MOVE.unpack(record.value))
                    moves.append(move)
                    moved.append(move.position)
                    number = max(number, move.number)
                elif record.type == MOVED:
                    last, position, print = _MOVED.unpack(record.value)
                    ends.append((last, Print(position, position, print)))
                    number = max(number, last)
            end = tailer.position
        sure = 0
        for last, print in reversed(ends):
            if has(print):
                sure = last
                break
        left = ~np.isin(np.array(positions, np.int64), np.array(moved, np.int64))
        index = DueIndex(np.array(due, np.int64)[left], np.array(positions, np.int64)[left])
        return Loaded(index, [move for move in moves if move.number > sure], number, end)
