"""Commit copy: through the mapping or by `pwrite`? Times both, and the flush after each, over sizes
of the committed range.

Run as ``python -m bench.commit_copy [DIR]``. The two ways take turns in one run; figures are
medians of all turns.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import commitlog
import commitlog.log.parts

SIZES = {256: 300, 4 << 10: 300, 16 << 10: 300, 64 << 10: 200, 256 << 10: 100, 1 << 20: 60}
WAYS = {"mapping": 1 << 30, "pwrite": 0}
TURNS = 5


def measure(
    directory: Path, size: int, count: int, pool: commitlog.TransientStorePool, copy_limit: int
) -> tuple[list[int], list[int]]:
    """Commit and flush `count` ranges of `size` bytes; nanoseconds of each."""
    commitlog.log.parts.COPY_LIMIT = copy_limit
    value = b"x" * min(size - 16, 1 << 20)
    commits, flushes = [], []
    # The service stays out of the way: only this loop commits and flushes.
    with commitlog.open(
        directory,
        pool=pool,
        flush="none",
        commit_interval=3600,
        tuning=commitlog.Tuning(commit_thorough_interval=3600),
    ) as log:
        for _ in range(count):
            log.append(value)
            began = time.perf_counter_ns()
            log.commit()
            committed = time.perf_counter_ns()
            log.flush()
            flushes.append(time.perf_counter_ns() - committed)
            commits.append(committed - began)
    return commits, flushes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", default=".", type=Path)
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="commit-copy-", dir=arguments.directory))
    raw: dict[str, dict[str, list[int]]] = {}
    try:
        with commitlog.TransientStorePool(buffers=2, buffer_size="64MiB") as pool:
            for size, count in SIZES.items():
                for turn in range(TURNS):
                    for way, limit in WAYS.items():
                        commits, flushes = measure(
                            root / f"{size}-{turn}-{way}", size, count, pool, limit
                        )
                        entry = raw.setdefault(f"{size}/{way}", {"commit_ns": [], "flush_ns": []})
                        entry["commit_ns"] += commits
                        entry["flush_ns"] += flushes
                        shutil.rmtree(root / f"{size}-{turn}-{way}")
    finally:
        shutil.rmtree(root)
    print(f"{'range':>10} {'way':>8} {'commit µs':>10} {'p99':>10} {'flush µs':>10} {'p99':>10}")
    for name, entry in raw.items():
        size, way = name.split("/")
        row = []
        for figures in entry.values():
            ordered = sorted(figures)
            row += [statistics.median(ordered) / 1e3, ordered[len(ordered) * 99 // 100] / 1e3]
        print(f"{size:>10} {way:>8} {row[0]:10.1f} {row[1]:10.1f} {row[2]:10.1f} {row[3]:10.1f}")


if __name__ == "__main__":
    main()
