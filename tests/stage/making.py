"""Makes staged segments for the tests, and logs to join them to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import commitlog
from commitlog.stage.staging import StagingWriter

SIZE = 65536


def numbered(count: int, first: int = 0, width: int = 100) -> list[bytes]:
    """Return distinct values of one width."""
    return [(b"value %07d" % number).ljust(width, b".") for number in range(first, first + count)]


def batch_of(values: list[bytes] | list[str], **columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": values, **columns})


def stage(directory: Path, *batches: pa.RecordBatch, segment_size: int = SIZE) -> list[str]:
    """Return the paths of the segments that one writer stages from some batches."""
    writer = StagingWriter(str(directory), segment_size)
    for batch in batches:
        writer.write(batch)
    return writer.finish()


def read_all(path: Path) -> list[bytes]:
    with commitlog.open(path, "r") as log:
        return [bytes(value) for value in log.tailer().values()]


def append(path: Path, values: list[bytes], **options: Any) -> None:
    with commitlog.open(path, segment_size=SIZE, **options) as log:
        log.append_many(values)
