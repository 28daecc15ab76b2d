"""Producers under kills: each number is in the log once, at the position that was acknowledged."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

import commitlog
from commitlog.segment.producers_file import NUMBERS_KEPT
from tests.cli.program import ROOT
from tests.steps import killed_at

# Each number is sent once or twice. The other arguments: how the log is opened, the first number.
WRITER = """
import random, sys
import commitlog
path, backing, first, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
generator = random.Random(seed)
pool = None if backing == "mapped" else commitlog.TransientStorePool(
    buffers=3, buffer_size="64KiB", backing="shm")
log = commitlog.open(path, pool=pool, segment_size="64KiB", wait_for_log=60)
for number in range(first, first + 1_000_000):
    for _ in range(generator.choice([1, 1, 2])):
        value = b"till %d " % number + b"." * generator.randrange(600)
        position = log.append(value, producer="till", producer_sequence=number,
                              sync=generator.random() < 0.05)
    print(number, position, flush=True)
    if backing == "mapped" and generator.random() < 0.05:
        log.append(b"plain")
        log.roll()
"""


def started(path: Path, backing: str, first: int, seed: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, *map(str, (path, backing, first, seed))],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def take(lines: IO[str], count: int, acknowledged: dict[int, int]) -> None:
    """Read acknowledgements; a number always has the same position."""
    for _ in range(count):
        line = lines.readline()
        if not line.endswith("\n"):
            return
        number, position = map(int, line.split())
        assert acknowledged.setdefault(number, position) == position, number


def killed_often(path: Path, backing: str, kills: int, seed: int) -> None:
    """Kill writers of one name at random moments; check what the log has after all of them."""
    print(f"seed {seed}")
    generator = random.Random(seed)
    acknowledged: dict[int, int] = {}
    writer = started(path, backing, 0, seed)
    for kill in range(kills):
        assert writer.stdout is not None
        take(writer.stdout, generator.randrange(1, 60), acknowledged)
        # The next writer does not know which of the last numbers arrived. In a mapped log it may
        # come before the first one is dead, and waits for the name.
        again = max(0, max(acknowledged) - generator.randrange(NUMBERS_KEPT // 2))
        overlaps = backing == "mapped" and generator.random() < 0.5
        if overlaps:
            follower = started(path, backing, again, seed + kill)
        writer.send_signal(signal.SIGKILL)
        take(writer.stdout, 1_000_000, acknowledged)
        writer.wait(60)
        writer.stdout.close()
        writer = follower if overlaps else started(path, backing, again, seed + kill)
    assert writer.stdout is not None
    take(writer.stdout, 1, acknowledged)
    writer.send_signal(signal.SIGKILL)
    take(writer.stdout, 1_000_000, acknowledged)
    writer.wait(60)
    writer.stdout.close()
    with commitlog.open(path, wait_for_log=60) as log:
        found = {}
        for record in log.tailer():
            if record.value != b"plain":
                number = int(record.value.split()[1])
                assert number not in found, number
                found[number] = record.position
    assert sorted(found) == list(range(len(found)))
    assert acknowledged.items() <= found.items()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("backing", ["mapped", "shm"])
def test_killed_producers_append_each_number_once(tmp_path: Path, backing: str, seed: int) -> None:
    killed_often(tmp_path / "log", backing, 8, seed)


@pytest.mark.long
@pytest.mark.parametrize("backing", ["mapped", "shm"])
def test_hundreds_of_kills_append_each_number_once(tmp_path: Path, backing: str) -> None:
    killed_often(tmp_path / "log", backing, 150, random.SystemRandom().randrange(1 << 30))


def test_kill_at_any_step_keeps_the_numbers(tmp_path: Path) -> None:
    step = 0
    while True:
        step += 1
        path = tmp_path / f"log{step}"
        with commitlog.open(path, segment_size="64KiB", flush="none") as log:
            log.append(b"0", producer="till", producer_sequence=0)
            log.roll()
            log.append(b"plain")

        def prepare(path: Path = path) -> Callable[[], object]:
            log = commitlog.open(path, flush="none")

            def act() -> None:
                log.append(b"1", producer="till", producer_sequence=1)
                log.roll()
                log.append(b"2", producer="till", producer_sequence=2)
                log.roll()
                log.append(b"3", producer="till", producer_sequence=3)
                log.roll()
                log.append(b"plain")
                log.flush()
                log.delete_before(log.tail_position)
                log.close()

            return act

        was_killed = killed_at(step, prepare)
        with commitlog.open(path) as log:
            before = log.first_position
            positions = [
                log.append(b"%d" % number, producer="till", producer_sequence=number)
                for number in range(4)
            ]
            kept = [record.value for record in log.tailer() if record.value != b"plain"]
            assert positions == sorted(positions)
            assert len(kept) == len(set(kept)) == sum(at >= before for at in positions), step
        if not was_killed:
            break
    assert step > 10
