"""JoinNote: a durable record of a join's steps, written before the first step. If the process dies
during the join, the next writable open finishes it.

Manifest: the batches of streaming queries that a log holds, so that none is joined twice.

See docs/format.md for both files.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from commitlog._kernel.segments import FRAME_ALIGN
from commitlog.errors import CorruptSegmentError
from commitlog.segment import checked_json
from commitlog.segment.directory import JOIN_NOTE, LogDirectory

MANIFEST = "joined"
_QUERIES_KEPT = 1000  # the most recent ones


@dataclass(frozen=True)
class Move:
    """A staged file, by its path relative to the log's directory, and the segment it becomes."""

    source: str
    number: int
    segment_id: int


@dataclass(frozen=True)
class JoinNote:
    """A join that was begun.

    `start` and `end` are the log's end before the join, and after it. `gate` is the segment number
    and the offset at which readers wait until a SKIP is written there; None if they wait for the
    first of the new segments. The moves are by number, without a gap. Query and batch name what was
    joined: see `Manifest`.
    """

    start: int
    end: int
    gate: tuple[int, int] | None
    moves: tuple[Move, ...]
    query: str | None = None
    batch: int | None = None

    @property
    def first_number(self) -> int:
        return self.moves[0].number

    def write(self, directory: LogDirectory) -> None:
        checked_json.write(directory, JOIN_NOTE, asdict(self))

    @staticmethod
    def remove(directory: LogDirectory) -> None:
        """Remove the note of a finished join, durably."""
        os.unlink(JOIN_NOTE, dir_fd=directory.fd)
        directory.sync()

    @classmethod
    def read(cls, directory: LogDirectory) -> JoinNote | None:
        """Read the note of an unfinished join; None if there is none. Refuse a note that is
        damaged, does not match the log, or names a file outside of the log.
        """
        content = checked_json.read(directory, JOIN_NOTE)
        if content is None:
            return None
        try:
            note = cls._of(content)
            if note._is_valid(directory):
                return note
        except (LookupError, TypeError, ValueError, OverflowError):
            pass
        raise CorruptSegmentError(
            f"`{JOIN_NOTE}` does not describe a join to this log: run `commitlog repair` on the "
            "log",
            path=os.path.join(directory.path, JOIN_NOTE),
        )

    @classmethod
    def _of(cls, content: dict[str, Any]) -> JoinNote:
        gate, batch = content["gate"], content["batch"]
        return cls(
            start=int(content["start"]),
            end=int(content["end"]),
            gate=None if gate is None else (int(gate[0]), int(gate[1])),
            moves=tuple(
                Move(str(move["source"]), int(move["number"]), int(move["segment_id"]))
                for move in content["moves"]
            ),
            query=content["query"],
            batch=None if batch is None else int(batch),
        )

    def _is_valid(self, directory: LogDirectory) -> bool:
        segment_size = directory.segment_size
        numbers = [move.number for move in self.moves]
        contiguous = bool(numbers) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        gated = self.gate is None or (
            self.gate[0] == numbers[0] - 1
            and self.gate[1] % FRAME_ALIGN == 0
            and 0 < self.gate[1] < segment_size
        )
        return (
            contiguous
            and gated
            and all(is_inside(directory.path, move.source) for move in self.moves)
            and self.end == (numbers[-1] + 1) * segment_size
            and 0 <= self.start <= numbers[0] * segment_size
        )


def is_inside(log: str, source: str) -> bool:
    """Return whether a path relative to a log's directory stays in it, also through links."""
    log = os.path.realpath(log)
    return os.path.commonpath((log, os.path.realpath(os.path.join(log, source)))) == log


@dataclass
class Manifest:
    """The last batch of each query, and when it was joined: a query's batches are numbered
    consecutively.
    """

    batches: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: LogDirectory) -> Manifest:
        """Read the manifest in the log's directory; refuse a damaged or a newer one."""
        content = checked_json.read(directory, MANIFEST)
        if content is None:
            return cls()
        try:
            return cls(
                {
                    str(query): (int(batch), int(joined_ns))
                    for query, (batch, joined_ns) in content["batches"].items()
                }
            )
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            raise CorruptSegmentError(
                f"`{MANIFEST}` does not list the batches in this log: run `commitlog repair` on "
                "the log",
                path=os.path.join(directory.path, MANIFEST),
            ) from None

    def has(self, query: str, batch: int) -> bool:
        return query in self.batches and batch <= self.batches[query][0]

    def add(self, directory: LogDirectory, query: str, batch: int) -> None:
        if self.has(query, batch):
            return
        self.batches[query] = (batch, time.time_ns())
        kept = sorted(self.batches.items(), key=lambda entry: entry[1][1])[-_QUERIES_KEPT:]
        self.batches = dict(kept)
        checked_json.write(directory, MANIFEST, {"batches": self.batches})
