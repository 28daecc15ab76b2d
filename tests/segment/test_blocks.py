"""The first segment of a log is allocated in steps, as appends need the blocks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import commitlog
from commitlog import CommitLog, TransientStorePool
from commitlog.log.parts import parts_of
from commitlog.repair.verification import verify
from commitlog.segment.blocks import FIRST_BYTES, blocks_for
from tests.copies import copy_log
from tests.setups import BY_HAND, HEADER, Logs
from tests.steps import killed_at

MIB = 1 << 20
SIZE = 8 * MIB
SLACK = 64 << 10  # allows for the file system's metadata blocks of a file
CALM: dict[str, Any] = {**BY_HAND, "allocate_ahead": 0, "prefault": False}


def taken(path: Path) -> int:
    """Return the allocated bytes of the log's files."""
    return sum(file.stat().st_blocks * 512 for file in path.iterdir() if file.is_file())


def values(path: Path) -> list[bytes]:
    with commitlog.open(path, "r") as log:
        return [bytes(record.value) for record in log.tailer()]


@pytest.fixture(params=["mapped", "anonymous", "shm"])
def pool(request: pytest.FixtureRequest, logs: Logs) -> TransientStorePool | None:
    mapped = request.param == "mapped"
    return None if mapped else logs.pool(request.param, 2, buffer_size=SIZE)


@pytest.fixture
def open_big(logs: Logs, pool: Any) -> Callable[..., CommitLog]:
    def opened(**options: Any) -> CommitLog:
        size = {} if pool is not None else {"segment_size": SIZE}
        return logs.open(pool=pool, **size, **options)

    return opened


def by_append(log: CommitLog, index: int) -> list[bytes]:
    log.append(b"%08d" % index * 500)
    return [b"%08d" % index * 500]


def by_append_many(log: CommitLog, index: int) -> list[bytes]:
    batch = [b"%08d" % index * size for size in range(1, 20)]
    log.append_many(batch)
    return batch


def by_claim(log: CommitLog, index: int) -> list[bytes]:
    value = b"%08d" % index * 400
    with log.claim(len(value)) as claim:
        claim.buffer[:] = value
    return [value]


def by_append_array(log: CommitLog, index: int) -> list[bytes]:
    rows = np.full((700, 16), index % 251, np.uint8)
    log.append_array(rows)
    return [row.tobytes() for row in rows]


def by_large_record(log: CommitLog, index: int) -> list[bytes]:
    value = bytes([index % 251]) * (SIZE // 8 - 16)
    log.append(value)
    return [value]


WAYS = [by_append, by_append_many, by_claim, by_append_array, by_large_record]


def test_blocks_double_until_they_reach_the_end() -> None:
    sizes = [blocks_for(64 * MIB, end) for end in (0, 2 * MIB - 8, 2 * MIB - 7, 5 * MIB, 40 * MIB)]
    assert sizes == [2 * MIB, 2 * MIB, 4 * MIB, 8 * MIB, 64 * MIB]
    assert blocks_for(64 << 10, 0) == 64 << 10
    assert blocks_for(3 * MIB, 2 * MIB) == 3 * MIB


@pytest.mark.parametrize("backing", [None, "anonymous"])
def test_default_log_of_three_lines_takes_4_mib(
    tmp_path: Path, backing: str | None, until: Callable[..., None]
) -> None:
    path = tmp_path / "log"
    pool = None if backing is None else TransientStorePool(buffers=2, lock_memory="off")
    for _ in range(2):
        with commitlog.open(path, pool=pool) as log:
            allocation = parts_of(log).writer.allocation  # type: ignore[union-attr]
            for _ in range(3):
                log.append(b"a line")
            log.flush()
            until(lambda allocation=allocation: allocation._look_at > 0)
            assert taken(path) <= 4 * MIB
        assert taken(path) <= 4 * MIB
    if pool is not None:
        pool.close()
    assert values(path) == [b"a line"] * 6


@pytest.mark.parametrize("way", WAYS)
def test_blocks_grow_with_the_appends(
    open_big: Callable[..., CommitLog],
    way: Callable[..., list[bytes]],
    until: Callable[..., None],
) -> None:
    log = open_big(**CALM)
    path, engine = Path(log.path), parts_of(log).engine
    done: list[bytes] = []
    steps = {engine.allocated(0)}
    while engine.tail == (0, engine.tail[1]) and engine.tail[1] < SIZE - MIB:
        done += way(log, len(done))
        steps.add(engine.allocated(0))
        # The service first allocates the blocks, then announces them.
        until(lambda: taken(path) <= engine.allocated(0) + SLACK * 3)
    assert steps <= {2 * MIB, 4 * MIB, 8 * MIB}
    assert engine.allocated(0) == SIZE
    log.flush()
    for _ in range(2):
        done += way(log, len(done))  # the segment is fully allocated, and the log rolls
    log.close()
    assert values(path) == done
    assert verify(path).sound


def test_service_grows_first_segment_then_allocates_ahead(
    open_big: Callable[..., CommitLog], until: Callable[..., None]
) -> None:
    log = open_big(prefault=True)
    parts = parts_of(log)
    assert parts.queue.numbers() == [0]
    log.append_many([bytes(1000)] * 1100)
    until(lambda: parts.engine.allocated(0) == 2 * FIRST_BYTES)
    assert parts.queue.numbers() == [0]
    log.append_many([bytes(1000)] * 3500)
    until(lambda: parts.queue.numbers() == [0, 1])
    assert parts.engine.allocated(0) == SIZE


def test_first_record_larger_than_the_blocks_fits(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with commitlog.open(path) as log:
        log.append(b"x" * (7 * MIB))
        assert taken(path) <= 16 * MIB + 3 * SLACK  # grown once more, ahead of need
    assert values(path) == [b"x" * (7 * MIB)]


def test_early_roll_leaves_the_rest_unallocated(open_big: Callable[..., CommitLog]) -> None:
    log = open_big(**CALM)
    log.append(b"one")
    log.roll()
    log.append(b"two")
    log.flush()
    first = Path(log.path, f"{0:020}.seg")
    assert first.stat().st_blocks * 512 <= FIRST_BYTES + SLACK
    log.close()
    assert first.stat().st_blocks * 512 <= FIRST_BYTES + SLACK
    assert values(Path(log.path)) == [b"one", b"two"]
    assert verify(log.path).sound


def test_writer_killed_before_its_skip_costs_no_blocks(logs: Logs) -> None:
    """A writer moved the tail to the segment's end, and died before it wrote the SKIP."""
    log = logs.open(segment_size=SIZE, **CALM)
    log.append(b"one")
    parts_of(log).engine.tail = (0, SIZE)
    log.append(b"two")
    log.flush()
    first = Path(log.path, f"{0:020}.seg")
    assert first.stat().st_blocks * 512 <= FIRST_BYTES + SLACK
    assert [bytes(record.value) for record in log.tailer()] == [b"one", b"two"]


@pytest.mark.parametrize("backing", ["mapped", "anonymous", "shm"])
def test_kill_at_any_step_of_growth_loses_nothing(tmp_path: Path, backing: Any) -> None:
    step, killed = 1, True
    while killed:
        path = tmp_path / f"log{step}"

        def prepare(path: Path = path) -> Callable[[], object]:
            pool = None
            if backing != "mapped":
                pool = TransientStorePool(buffers=2, buffer_size=SIZE, backing=backing, low_water=0)
            log = commitlog.open(path, segment_size=SIZE, pool=pool, flush="none")
            log.append_many([b"x" * 1000] * 1800)
            log.flush()
            return lambda: log.append_many([b"y" * 1000] * 3000)

        killed = killed_at(step, prepare)
        with commitlog.open(path, segment_size=SIZE) as log:
            engine = parts_of(log).engine
            tail = engine.tail
            assert tail is not None
            assert tail[0] > 0 or tail[1] + 8 <= engine.allocated(0) or tail[1] == SIZE
            found = [bytes(record.value) for record in log.tailer()]
            assert found[:1800] == [b"x" * 1000] * 1800
            assert set(found[1800:]) <= {b"y" * 1000}
            log.append_many([b"z" * 1000] * 3000)
        assert verify(path).sound
        step += 1
    assert step > 2


@pytest.mark.parametrize("sparse", [True, False])
def test_copy_of_a_log_opens_and_appends(logs: Logs, tmp_path: Path, sparse: bool) -> None:
    log = logs.open(segment_size=SIZE, **CALM)
    log.append(b"one")
    log.close()
    copy_log(log.path, tmp_path / "copy")
    first = tmp_path / "copy" / f"{0:020}.seg"
    content = first.read_bytes()
    os.truncate(first, HEADER if sparse else 0)
    with first.open("r+b") as file:
        if sparse:
            file.write(content[: 2 * HEADER])
            file.truncate(SIZE)
        else:
            file.write(content)
    with commitlog.open(tmp_path / "copy") as copy:
        assert parts_of(copy).engine.allocated(0) == (FIRST_BYTES if sparse else SIZE)
        assert first.stat().st_blocks * 512 >= parts_of(copy).engine.allocated(0)
        copy.append(b"two")
    assert values(tmp_path / "copy") == [b"one", b"two"]


def test_log_of_an_older_release_stays_fully_allocated(logs: Logs) -> None:
    log = logs.open(segment_size=SIZE, **CALM)
    log.append(b"one")
    log.close()
    with Path(log.path, f"{0:020}.seg").open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, SIZE)
    again = logs.open(segment_size=SIZE, **CALM)
    assert parts_of(again).engine.allocated(0) == SIZE
    again.append(b"two")
    assert [bytes(record.value) for record in again.tailer()] == [b"one", b"two"]
