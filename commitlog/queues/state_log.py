"""StateLog: the durable state of a queue, in a small log of its own."""

from __future__ import annotations

import contextlib
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from commitlog import CommitLog
from commitlog import open as open_log
from commitlog.errors import (
    CommitLogError,
    CorruptQueueError,
    CorruptRecordError,
    CorruptSegmentError,
    PositionError,
)
from commitlog.queues import notes
from commitlog.queues.notes import Base, NoteError, Print, Tried
from commitlog.queues.replay import Replay
from commitlog.queues.terms import Terms

_SEGMENT_SIZE = "8MiB"
_COMPACT_BYTES = 4 << 20  # of notes behind the last base
_FOLDER = "state"


class Beginning(NamedTuple):
    """What a queue is of: the log's uuid, where the queue began, and its terms."""

    uuid: str
    start: int
    terms: Terms


class Loaded(NamedTuple):
    """What a state log says."""

    beginning: Beginning
    replay: Replay
    last_ns: int = 0  # when the last note was made


class StateLog:
    """Append notes, and read them again. Any thread may use it."""

    def __init__(self, folder: str, mode: str = "a") -> None:
        self.path = os.path.join(folder, _FOLDER)
        self._folder = folder
        with self._as_queue():
            self.log: CommitLog = (
                open_log(self.path, "r")
                if mode == "r"
                else open_log(self.path, "a", segment_size=_SEGMENT_SIZE)
            )

    @staticmethod
    def exists(folder: str) -> bool:
        return os.path.exists(os.path.join(folder, _FOLDER, "log.json"))

    def close(self) -> None:
        self.log.close()

    @contextlib.contextmanager
    def _as_queue(self) -> Iterator[None]:
        try:
            yield
        except (CorruptRecordError, CorruptSegmentError, NoteError) as error:
            raise CorruptQueueError(
                f"the state of this queue is damaged ({error}): restore this folder from a copy of "
                "the log, or delete it, and all jobs come again",
                path=self._folder,
            ) from error

    # --- reading ----------------------------------------------------------------------------------

    def beginning(self) -> Beginning | None:
        """Return the newest terms; None if there are none yet."""
        found = None
        with self._as_queue(), self.log.tailer() as tailer:
            for record in tailer:
                if record.type == notes.TERMS:
                    found = record.value
            return None if found is None else _beginning_of(found)

    def load(self) -> Loaded | None:
        """Return the newest terms, and what the notes say together; None if there are no terms.

        The log is read once: the notes that the newest base has in it are dropped on the way.
        """
        found, base, last_ns = None, None, 0
        kept: deque[tuple[int, int, bytes]] = deque()
        with self._as_queue(), self.log.tailer() as tailer:
            for record in tailer:
                last_ns = record.timestamp_ns
                if record.type == notes.TERMS:
                    found = record.value
                elif record.type == notes.BASE:
                    base = notes.decode_base(record.value)
                    while kept and kept[0][0] < base.since:
                        kept.popleft()
                else:
                    kept.append((record.position, record.type, record.value))
            if found is None:
                return None
            beginning = _beginning_of(found)
            replay = Replay(beginning.start)
            if base is not None:
                replay.begin(base)
            for _, kind, value in kept:
                replay.take(kind, value)
        return Loaded(beginning, replay, last_ns)

    def read_tried(self, position: int) -> Tried | None:
        """Return a note of a job; None if there is none any more."""
        if position < 0:
            return None
        with self._as_queue(), contextlib.suppress(PositionError):
            return notes.decode_tried(self.log.read(position).value)
        return None

    # --- writing ----------------------------------------------------------------------------------

    def begin(self, beginning: Beginning) -> None:
        """Note the terms durably."""
        content = beginning._replace(terms=None)._asdict()  # type: ignore[arg-type]
        content["terms"] = beginning.terms.as_json()
        self.log.append(json.dumps(content).encode(), type=notes.TERMS, sync=True)

    def append(self, note: bytes, kind: int, *, sync: bool) -> int:
        return self.log.append(note, type=kind, sync=sync)

    def append_tried(self, tried: Iterable[Tried], *, sync: bool) -> list[int]:
        """Append notes of jobs; return where they are."""
        values = [notes.encode_tried(each) for each in tried]
        types = [notes.TRIED] * len(values)
        return [int(each) for each in self.log.append_many(values, types=types, sync=sync)]

    @property
    def end(self) -> int:
        """Where the next note goes, or behind."""
        return self.log.tail_position

    def needs_base(self, base: int) -> bool:
        """Return whether there are many notes behind the last base."""
        return self.end - base > _COMPACT_BYTES

    def prints_at(self, base: int) -> list[Print]:
        """Return the fingerprints of the last base; none if there is none."""
        with self._as_queue(), contextlib.suppress(PositionError):
            if base > 0:
                return notes.decode_base(self.log.read(base).value).prints
        return []

    def rebase(
        self,
        since: int,
        scan: int,
        prints: list[Print],
        jobs: list[Tried],
        beginning: Beginning,
        *,
        is_clean: bool,
    ) -> int:
        """Note all of the queue durably, and delete what is before; return where the base is."""
        self.begin(beginning)
        base = Base(since, scan, is_clean, notes.thinned(prints, scan), jobs)
        at = self.log.append(notes.encode_base(base), type=notes.BASE, sync=True)
        with contextlib.suppress(CommitLogError):  # a reader holds a segment: next time
            self.log.delete_before(since, 0)
        return at


def _beginning_of(value: bytes) -> Beginning:
    try:
        content = json.loads(value)
        return Beginning(str(content["uuid"]), int(content["start"]), Terms.parse(content["terms"]))
    except (ValueError, KeyError, TypeError) as error:
        raise NoteError(f"its terms cannot be read: {error}") from None
