"""Primaries and followers killed: no acknowledged record is lost, none is there twice."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.repair.verification import verify

# Appends numbers, and prints each one once a copy has it.
_PRIMARY = """
import sys
import commitlog
from commitlog import replication
with commitlog.open(sys.argv[1], segment_size=65536, flush="sync") as log:
    with replication.serve(sys.argv[1]) as server:
        print(server.url(), flush=True)
        for number in range(int(sys.argv[2]), 1 << 30):
            position = log.append(b"%d " % number * (1 + number % 500))
            assert server.wait_replicated(position, timeout=30)
            print(number, flush=True)
"""


_FOLLOWER = """
import sys
from commitlog import replication
replication.follow(sys.argv[1], sys.argv[2], name="copy").wait()
"""


def numbers_of(path: Path) -> list[int]:
    with commitlog.open(path, "r") as log, log.tailer() as tailer:
        return [int(bytes(value).partition(b" ")[0]) for value in tailer.values()]


@contextmanager
def child(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run Python in another process, which is killed at the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def acknowledged_until_kill(
    primary: Path, copy: Path, first: int, count: int, *, both: bool
) -> int:
    """Run a primary and a follower, kill the primary, or first the follower; return the last
    acknowledged number.
    """
    last = first - 1
    with child(_PRIMARY, primary, first) as writer:
        assert writer.stdout is not None
        url = writer.stdout.readline().strip()
        with child(_FOLLOWER, url, copy) as follower:
            for line in writer.stdout:
                last = int(line)
                if last >= first + count:
                    break
            if both:
                follower.kill()
            writer.kill()
            for line in writer.stdout:  # what was acknowledged before the kill
                last = int(line)
            follower.kill()
    return last


def check_rounds(folder: Path, numbers: random.Random, rounds: int) -> None:
    primary, copy = folder / "a", folder / "b"
    first, acknowledged = 0, set[int]()
    for _ in range(rounds):
        count, both = numbers.randrange(1, 150), numbers.random() < 0.5
        last = acknowledged_until_kill(primary, copy, first, count, both=both)
        acknowledged |= set(range(first, last + 1))
        replication.promote(copy)
        found = numbers_of(copy)
        assert len(found) == len(set(found))
        assert acknowledged <= set(found)
        assert found == sorted(found)
        assert verify(copy).sound
        first = found[-1] + 1
        primary, copy = copy, primary
        with replication.serve(primary) as server:
            replication.follow(server.url(), copy).close()


def test_promoted_copy_has_each_acknowledged_record(tmp_path: Path, numbers: random.Random) -> None:
    check_rounds(tmp_path, numbers, 4)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_promoted_copies_have_each_acknowledged_record(
    tmp_path: Path, numbers: random.Random
) -> None:
    check_rounds(tmp_path, numbers, 300)
