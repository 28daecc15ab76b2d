"""A primary, its copy, and what both must have in common."""

from __future__ import annotations

from pathlib import Path

import commitlog
from commitlog._kernel.segments import SEAL_AT, SEAL_SIZE
from commitlog.repair.verification import verify

SEGMENT = 64 << 10
LIMIT_S = 30.0


def fill(log: commitlog.CommitLog, count: int, name: str = "record") -> None:
    """Append records of several lengths, and flush."""
    for number in range(count):
        log.append(f"{name} {number} ".encode() * (1 + number % 90))
    log.flush()


def records(path: Path) -> list[tuple[int, int, bytes]]:
    """Return position, timestamp and value of all records."""
    with commitlog.open(path, "r") as log, log.tailer() as tailer:
        return [
            (record.position, record.timestamp_ns, bytes(record.value))
            for record in iter(tailer.read, None)
        ]


def check_same(primary: Path, copy: Path, end: int) -> None:
    """Check that both have the same bytes below `end`, seals apart, and that the copy is sound."""
    assert verify(copy).sound
    for segment in sorted(primary.glob("*.seg")):
        base = int(segment.stem)
        if base < end:
            mine, theirs = segment.read_bytes(), (copy / segment.name).read_bytes()
            assert mine[:SEAL_AT] == theirs[:SEAL_AT]
            stop = min(end - base, SEGMENT)
            begin = SEAL_AT + SEAL_SIZE
            assert mine[begin:stop] == theirs[begin:stop], segment.name
