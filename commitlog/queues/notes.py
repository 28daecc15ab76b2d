"""The records of a queue's state log. All numbers are little-endian.

| type | name | value |
| --- | --- | --- |
| 1 | TERMS | JSON: the log's uuid, where the queue began, and its terms; the newest counts |
| 2 | BASE | all of the queue at one moment; the newest counts, and all from its `since` on |
| 3 | DONE | `position, print, n`, then n spans `start, stop` of jobs that were accepted |
| 4 | DEAD | as DONE: the jobs have become dead letters |
| 5 | TRIED | one job that is not done: span, key, print, attempt, until when it waits, history |
| 6 | AGAIN | a job that was done, and is to be done again: its span, key and print |
| 7 | OPENED | nothing: from here on jobs are handed out again, after a base that is clean |

`print` is a fingerprint of the record at `position`, the highest of the note: a log that has
another record there was cut, or is another copy, and the note does not count.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from commitlog.queues.spans import Span

TERMS, BASE, DONE, DEAD, TRIED, AGAIN, OPENED = range(1, 8)

_DONE = struct.Struct("<qQQ")
_SPAN = struct.Struct("<qq")
_JOB = struct.Struct("<qqqQQ")  # start, position, stop, key, print
_TRIED = struct.Struct("<Iq")  # order, when it may be taken
_BASE = struct.Struct("<qqBxxxII")  # since, scan, is clean, prints, jobs
_PRINT = struct.Struct("<qqQ")  # position, stop, print
HISTORY_MOST = 16  # failures of a job that are kept
REASON_MOST = 1000  # characters


class Place(NamedTuple):
    """A job: its span of the log, its record, the hash of its key, and its fingerprint."""

    start: int
    position: int
    stop: int
    key: int
    print: int


class Tried(NamedTuple):
    """What is known of a job that was handed out.

    Attributes
    ----------
    order : int
        Rises with each note of a job: twice its attempts, and one more when it was released.
    not_before_ns : int
        Nanoseconds since 1970 before which it waits; 0: it does not wait.
    """

    place: Place
    order: int
    not_before_ns: int
    history: tuple[dict[str, Any], ...] = ()

    @property
    def attempt(self) -> int:
        return self.order // 2


class Print(NamedTuple):
    """The fingerprint of the record at a position; its job ends at `stop`."""

    position: int
    stop: int
    print: int


class Done(NamedTuple):
    top: Print
    spans: list[Span]


class Base(NamedTuple):
    since: int
    scan: int
    is_clean: bool
    prints: list[Print]
    jobs: list[Tried]


class NoteError(ValueError):
    """A record of a state log is not one of those above."""


def failure(attempt: int, what: str, reason: str, at_ns: int) -> dict[str, Any]:
    """Return an entry of the history of a job."""
    return {"attempt": attempt, "what": what, "reason": reason[:REASON_MOST], "at_ns": at_ns}


def decode_done(value: bytes) -> Done:
    try:
        position, print, count = _DONE.unpack_from(value)
        if len(value) != _DONE.size + count * _SPAN.size:
            raise NoteError("a note of done jobs has another length")
        spans = list(_SPAN.iter_unpack(value[_DONE.size :]))
    except struct.error as error:
        raise NoteError(str(error)) from None
    stops = [stop for start, stop in spans if start <= position < stop]
    if not stops or any(start >= stop for start, stop in spans):
        raise NoteError("the spans of a note of done jobs are not spans")
    return Done(Print(position, stops[0], print), spans)


def encode_tried(tried: Tried) -> bytes:
    history = json.dumps(list(tried.history[-HISTORY_MOST:]), separators=(",", ":")).encode()
    return _JOB.pack(*tried.place) + _TRIED.pack(tried.order, tried.not_before_ns) + history


def decode_tried(value: bytes) -> Tried:
    try:
        place = Place(*_JOB.unpack_from(value))
        order, not_before_ns = _TRIED.unpack_from(value, _JOB.size)
        history = json.loads(value[_JOB.size + _TRIED.size :])
    except (struct.error, ValueError) as error:
        raise NoteError(str(error)) from None
    if not place.start <= place.position < place.stop or not isinstance(history, list):
        raise NoteError("a note of a job has no span or no history")
    return Tried(place, order, not_before_ns, tuple(history))


def encode_again(place: Place) -> bytes:
    return _JOB.pack(*place)


def decode_again(value: bytes) -> Place:
    try:
        return Place(*_JOB.unpack(value))
    except struct.error as error:
        raise NoteError(str(error)) from None


def encode_base(base: Base) -> bytes:
    parts = [_BASE.pack(base.since, base.scan, base.is_clean, len(base.prints), len(base.jobs))]
    parts += [_PRINT.pack(*each) for each in base.prints]
    parts += [
        _JOB.pack(*each.place) + _TRIED.pack(each.order, each.not_before_ns) for each in base.jobs
    ]
    return b"".join(parts)


def decode_base(value: bytes) -> Base:
    size = _JOB.size + _TRIED.size
    try:
        since, scan, is_clean, prints, jobs = _BASE.unpack_from(value)
        at = _BASE.size + prints * _PRINT.size
        if len(value) != at + jobs * size:
            raise NoteError("a base has another length")
        return Base(
            since,
            scan,
            bool(is_clean),
            [Print(*each) for each in _PRINT.iter_unpack(value[_BASE.size : at])],
            [
                Tried(
                    Place(*_JOB.unpack_from(value, begin)),
                    *_TRIED.unpack_from(value, begin + _JOB.size),
                )
                for begin in range(at, len(value), size)
            ],
        )
    except struct.error as error:
        raise NoteError(str(error)) from None


def thinned(prints: Iterable[Print], end: int, most: int = 64) -> list[Print]:
    """Return at most `most` fingerprints: dense near `end`, ever fewer below."""
    kept: dict[int, Print] = {}
    for each in sorted(set(prints), key=lambda each: each.position):
        kept[max(0, end - each.position).bit_length()] = each
    return sorted(kept.values(), key=lambda each: each.position)[-most:]
