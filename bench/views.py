"""Views: one topic of many, beside a scan that filters; the size and the build of the lists.

    python -m bench.views [--records 5000000] [--topics 1000] [--rounds 5] [--json FILE]

The log has records of 100 bytes, each with a key of its own, whose types take turns at random. Each
figure is the median of the rounds, with a warm page cache, in seconds of the process's CPU time:
other programs of the machine then count less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import commitlog
from commitlog import CommitLog

_VALUE = b"x" * 100
_AT_ONCE = 100_000
_BATCH = 65536
_WANTED = 7
_LOOKS = 200
_SHORT = 10  # rounds of what takes milliseconds, for each round of a scan


def fill(log: CommitLog, records: int, topics: int) -> None:
    types = np.random.default_rng(1).integers(0, topics, records, dtype=np.uint32)
    for start in range(0, records, _AT_ONCE):
        stop = min(start + _AT_ONCE, records)
        log.append_many(
            [_VALUE] * (stop - start),
            keys=[b"%012d" % number for number in range(start, stop)],
            types=types[start:stop].tolist(),
        )
    log.roll()
    log.append(b"")
    log.flush()
    log.delete_before(0)  # seals


def by_filter(log: CommitLog) -> int:
    """Read all columns, as a program without views does, and count the rows of a type."""
    tailer, found = log.tailer(), 0
    while len(batch := tailer.read_batch(_BATCH)):
        found += int(np.count_nonzero(batch.types == _WANTED))
    return found


def by_loop(log: CommitLog) -> int:
    return sum(record.type == _WANTED for record in log.tailer())


def by_view(log: CommitLog) -> int:
    """Read the columns of the type's records by its lists, or by the scan of a view."""
    tailer, found = log.view(type=_WANTED), 0
    while len(batch := tailer.read_batch(_BATCH)):
        found += len(batch)
    return found


def by_view_loop(log: CommitLog) -> int:
    return sum(1 for _ in log.view(type=_WANTED))


def median_s(rounds: int, act: Callable[[], object]) -> float:
    taken = []
    act()  # warms the page cache
    for _ in range(rounds):
        began = time.process_time()
        act()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def find_s(log: CommitLog, records: int) -> float:
    """Return the median time of a search for a key."""
    keys = np.random.default_rng(2).integers(0, records, _LOOKS)
    taken = []
    for number in keys.tolist():
        began = time.process_time()
        assert len(log.find(b"%012d" % number)) == 1
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def sizes(path: Path) -> int:
    return sum(os.path.getsize(each) for each in path.glob("*.pst"))


def measure(path: Path, records: int, topics: int, rounds: int) -> dict[str, float]:
    with commitlog.open(path, flush="none") as log:
        fill(log, records, topics)
    with commitlog.open(path, "r") as reader:
        seconds = {
            name: median_s(rounds, lambda act=act: act(reader))  # type: ignore[misc]
            for name, act in (("filter", by_filter), ("loop", by_loop), ("scan", by_view))
        }
    with commitlog.open(path) as log:
        began = time.process_time()
        expected = by_view(log)
        seconds["build"] = time.process_time() - began
    with commitlog.open(path, "r") as reader:
        assert by_view(reader) == by_view_loop(reader) == by_filter(reader) == expected
        seconds["view"] = median_s(rounds * _SHORT, lambda: by_view(reader))
        seconds["view loop"] = median_s(rounds * _SHORT, lambda: by_view_loop(reader))
        seconds["find"] = find_s(reader, records)
    return {
        **{f"{name} [s]": taken for name, taken in seconds.items()},
        "filter / view": seconds["filter"] / seconds["view"],
        "loop / view loop": seconds["loop"] / seconds["view loop"],
        "bytes a record and list": sizes(path) / records / 2,
        "build [records/s]": records / seconds["build"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder, "log"), given.records, given.topics, given.rounds)
    for name, value in found.items():
        print(f"{name:28}{value:>18,.6g}")
    if given.json is not None:
        given.json.write_text(json.dumps(vars(given) | {"json": None} | found, indent=2))


if __name__ == "__main__":
    main()
