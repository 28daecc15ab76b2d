"""Queries over a log through Polars and DuckDB beside the same over Parquet: `python -m
bench.columns`.

Both hold the same rows: values of eight bytes, a millisecond apart. The queries count all rows,
count those of the last tenth by time, and sum the decoded values. A run of one alternates with a
run of the other, so that both see the same machine; the figures are medians, and the ratio is the
median of the ratios of the pairs. Each run opens the log. Beside the time that passes stands the
time of all processors, which other programs disturb less.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import commitlog
import commitlog.polars

Query = Callable[[], int]
_BEGAN = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
_AT_ONCE = 100_000
_TARGET = 1.3


def write(folder: Path, rows: int, *, sealed: bool) -> tuple[Path, Path]:
    """Write the rows to a log, with its last segment sealed or not, and to a Parquet file."""
    path, parquet = folder / f"log-{sealed}", folder / f"rows-{sealed}.parquet"
    numbers = np.random.default_rng(1).integers(0, 1 << 40, rows)
    began_ns = int(_BEGAN.timestamp()) * 10**9
    with commitlog.open(path) as log:
        for start in range(0, rows, _AT_ONCE):
            part = numbers[start : start + _AT_ONCE].astype(">i8")
            values = pa.Array.from_buffers(pa.binary(8), len(part), [None, pa.py_buffer(part)])
            times_ns = began_ns + np.arange(start, start + len(part)) * 10**6
            log.append_arrow(pa.table({"value": values, "timestamp": times_ns}))
        if sealed:
            log.roll()
            log.append(bytes(8))
    with commitlog.open(path, "r") as log:
        pq.write_table(log.to_arrow(), parquet, compression="none")
    return path, parquet


def queries(path: Path, parquet: Path, rows: int) -> dict[str, tuple[Query, Query]]:
    """Return the queries by name: over the log, and over Parquet."""
    since = _BEGAN + dt.timedelta(milliseconds=rows * 9 // 10)
    column, moment = pl.col("value"), pl.lit(since).cast(pl.Datetime("ns", "UTC"))
    decoded = column.bin.reinterpret(dtype=pl.Int64, endianness="big").sum()

    def by_polars(make: Callable[[pl.LazyFrame], pl.LazyFrame]) -> tuple[Query, Query]:
        return (
            lambda: int(make(commitlog.polars.scan(path)).collect().item()),
            lambda: int(make(pl.scan_parquet(parquet)).collect().item()),
        )

    def by_duckdb(what: str, columns: list[str], start: Any = None) -> tuple[Query, Query]:
        where = "" if start is None else f"WHERE timestamp >= TIMESTAMPTZ_NS '{start.isoformat()}'"

        def over_log() -> int:
            with commitlog.open(path, "r") as log:
                reader = log.to_reader(start=start, columns=columns)  # noqa: F841 - DuckDB finds it
                return int(duckdb.sql(f"SELECT {what} FROM reader").fetchall()[0][0])

        def over_parquet() -> int:
            return int(duckdb.sql(f"SELECT {what} FROM '{parquet}' {where}").fetchall()[0][0])

        return over_log, over_parquet

    return {
        "Polars, count(*)": by_polars(lambda frame: frame.select(pl.len())),
        "Polars, time": by_polars(
            lambda frame: frame.filter(pl.col("timestamp") >= moment).select(pl.len())
        ),
        "Polars, sum": by_polars(lambda frame: frame.select(decoded)),
        "DuckDB, count(*)": by_duckdb("count(*)", ["sequence"]),
        "DuckDB, time": by_duckdb("count(*)", ["timestamp"], since),
        "DuckDB, sum": by_duckdb("sum(value::BIT::BIGINT)", ["value"]),
        "log.count()": (lambda: _count(path), lambda: pq.read_metadata(parquet).num_rows),
    }


def _count(path: Path) -> int:
    with commitlog.open(path, "r") as log:
        return log.count()


@dataclass(frozen=True)
class Compared:
    """Medians of one query: over the log, over Parquet, and of the ratios of the pairs."""

    log_s: float
    parquet_s: float
    ratio: float

    @classmethod
    def of(cls, log_s: list[float], parquet_s: list[float]) -> Compared:
        """Make the medians of pairs of runs."""
        ratios = [log / parquet for log, parquet in zip(log_s, parquet_s, strict=True)]
        return cls(*map(statistics.median, (log_s, parquet_s, ratios)))

    def __str__(self) -> str:
        return f"{self.log_s * 1e3:.1f} | {self.parquet_s * 1e3:.1f} | {self.ratio:.2f}"


def measure(pair: tuple[Query, Query], rounds: int) -> tuple[Compared, Compared]:
    """Compare a query's two forms by time passed, and by time of all processors used."""
    if pair[0]() != pair[1]():
        raise AssertionError("the log and the Parquet file give different answers")
    clocks = (time.perf_counter, time.process_time)
    took_s: list[tuple[list[float], list[float]]] = [([], []) for _ in clocks]
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            began = [clock() for clock in clocks]
            pair[which]()
            for at, clock in enumerate(clocks):
                took_s[at][which].append(clock() - began[at])
    passed, used = (Compared.of(*both) for both in took_s)
    return passed, used


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Query a log and a Parquet file of the same rows.")
    parser.add_argument("--rows", type=int, default=5_000_000, help="[default: 5000000]")
    parser.add_argument("--rounds", type=int, default=21, help="pairs of runs [default: 21]")
    given = parser.parse_args()
    print(f"{given.rows} rows, {given.rounds} pairs; at most {_TARGET} is the goal\n")
    print(
        "| last segment | query | log, ms | Parquet, ms | ratio | log, CPU ms | Parquet, CPU ms | "
        "ratio |"
    )
    print("|" + " --- |" * 8)
    for sealed in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            path, parquet = write(Path(folder), given.rows, sealed=sealed)
            for name, pair in queries(path, parquet, given.rows).items():
                passed, used = measure(pair, given.rounds)
                print(
                    f"| {'' if sealed else 'not '}sealed | {name} | {passed} | {used} |", flush=True
                )


if __name__ == "__main__":
    main()
