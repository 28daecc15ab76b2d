"""Logs for the tests of the Spark source, and functions that read them."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import commitlog
from commitlog import Store
from commitlog.keep import archive_segments
from commitlog.spark.columns import FIELDS, arrow_schema
from commitlog.spark.read_options import ReadOptions
from commitlog.spark.slices import read_slices
from commitlog.spark.topics import end_of, locate, open_topic, start_of

SIZE = 65536
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def fill(
    path: Path,
    values: Iterable[bytes],
    *,
    keys: Iterable[bytes | None] | None = None,
    first_ns: int = 10**9,
) -> list[int]:
    """Append records to a log of small segments, with timestamps one second apart; return their
    positions.
    """
    with commitlog.open(path, segment_size=SIZE) as log:
        given = keys if keys is not None else iter(lambda: None, 0)
        return [
            log.append(value, key=key, timestamp_ns=first_ns + at * 10**9)
            for at, (value, key) in enumerate(zip(values, given, strict=False))
        ]


def numbered(count: int, length: int = 100) -> list[bytes]:
    """Return `count` different values."""
    return [b"%0*d" % (length, number) for number in range(count)]


def archive(
    log: Path, target: Path, *, compressed: bool = True, without: Iterable[int] = ()
) -> Path:
    """Archive the full segments of a closed log, or copy them uncompressed."""
    if compressed:
        archive_segments(log, Store(target), keep=True)
    else:
        target.mkdir(parents=True)
        for path in (log / "log.json", *sealed(log)):
            shutil.copy(path, target)
    for number in without:
        (target / f"{number * SIZE:020d}.seg.zst").unlink()
    return target


def sealed(log: Path) -> list[Path]:
    """The segments of a closed log below the segment of its tail."""
    with commitlog.open(log, mode="r") as reader:
        tail = reader.tail_position // SIZE
    return [path for path in sorted(log.glob("*.seg")) if int(path.stem) // SIZE < tail]


def schema(*names: str) -> pa.Schema:
    """The Arrow schema with the named columns; all columns by default."""
    return pa.schema([(name, FIELDS[name]) for name in names or FIELDS])


def slices(**options: Any) -> Iterator[Any]:
    """The slices that a batch read with these options plans."""
    parsed = ReadOptions.parse({name: str(value) for name, value in options.items()}, stream=False)
    for name, place in locate(parsed).items():
        with open_topic(name, place, parsed) as topic:
            start, stop = start_of(topic, parsed), end_of(topic, parsed)
            yield from topic.slices(
                start, stop, with_sequence=True, fail_on_data_loss=parsed.fail_on_data_loss
            )


def rows(*names: str, **options: Any) -> list[dict[str, Any]]:
    """The rows that a batch read returns, decoded without Spark."""
    parsed = ReadOptions.parse({name: str(value) for name, value in options.items()}, stream=False)
    batches = read_slices(
        slices(**options),
        schema(*names),
        on_damage=parsed.on_damage,
        fail_on_data_loss=parsed.fail_on_data_loss,
    )
    return [row for batch in batches for row in batch.to_pylist()]


def values(**options: Any) -> list[bytes]:
    """The values that a batch read returns."""
    return [row["value"] for row in rows("value", **options)]


__all__ = [
    "EPOCH",
    "SIZE",
    "archive",
    "arrow_schema",
    "fill",
    "numbered",
    "rows",
    "schema",
    "sealed",
    "slices",
    "values",
]
