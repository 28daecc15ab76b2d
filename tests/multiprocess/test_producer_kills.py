"""Producers under kills: each number is in the log once, at the position that was acknowledged."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import TransientStorePool
from commitlog.segment.producers_file import NUMBERS_KEPT
from tests.faults.child import Child, Link, Report
from tests.length import long_count
from tests.steps import killed_at

Start = Callable[..., Child]
NUMBER = "N"


def write_numbers(link: Link, path: str, backing: str, first: int, seed: int) -> None:
    """Append each number from `first` on once or twice, and report its position."""
    generator = random.Random(seed)
    pool = None
    if backing == "shm":
        pool = TransientStorePool(buffers=3, buffer_size="64KiB", backing="shm")
    log = commitlog.open(path, pool=pool, segment_size="64KiB", wait_for_log=60)
    for number in itertools.count(first):
        for _ in range(generator.choice([1, 1, 2])):
            value = b"till %d " % number + b"." * generator.randrange(600)
            position = log.append(
                value,
                producer="till",
                producer_sequence=number,
                sync=generator.random() < 0.05,
            )
        link.say(NUMBER, 0, number, position)
        if backing == "mapped" and generator.random() < 0.05:
            log.append(b"plain")
            log.roll()


def take(reports: list[Report], acknowledged: dict[int, int]) -> None:
    """Note acknowledgements; a number always has the same position."""
    for report in reports:
        found = acknowledged.setdefault(report.index, report.position)
        assert found == report.position, report


def killed_often(path: Path, backing: str, kills: int, seed: int, start: Start) -> None:
    """Kill writers of one name at random moments; check what the log has after all of them."""
    print(f"seed {seed}")
    generator = random.Random(seed)
    acknowledged: dict[int, int] = {}

    def started(first: int, seed: int) -> Child:
        return start(write_numbers, str(path), backing, first, seed, ahead=64 << 10)

    def first_of_next() -> int:
        """The next writer does not know which of the last numbers arrived."""
        return max(0, max(acknowledged) - generator.randrange(NUMBERS_KEPT // 2))

    writer = started(0, seed)
    for kill in range(kills):
        take(writer.hear(generator.randrange(1, 60)), acknowledged)
        # In a mapped log the next writer may come before this one is dead, and waits for the name.
        overlaps = backing == "mapped" and generator.random() < 0.5
        if overlaps:
            take(writer.pause(), acknowledged)
            follower = started(first_of_next(), seed + kill)
        take(writer.kill(), acknowledged)
        writer.end()
        writer = follower if overlaps else started(first_of_next(), seed + kill)
    take(writer.hear(1), acknowledged)
    take(writer.kill(), acknowledged)
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
def test_killed_producers_append_each_number_once(
    tmp_path: Path, backing: str, seed: int, start: Start
) -> None:
    killed_often(tmp_path / "log", backing, 8, seed, start)


@pytest.mark.long
@pytest.mark.parametrize("backing", ["mapped", "shm"])
def test_hundreds_of_kills_append_each_number_once(
    tmp_path: Path, backing: str, start: Start
) -> None:
    kills = long_count(150)
    killed_often(tmp_path / "log", backing, kills, random.SystemRandom().randrange(1 << 30), start)


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
