"""Recovery is killed at each of its steps: the next recovery ends at the same place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commitlog._kernel import memory as kernel
from commitlog.recovery import Recovered
from tests.log_files import BOOT, HEADER, SIZE, UUID, LogFiles, numbered
from tests.oracle import segment_file as oracle
from tests.recovery.dead_pools import DeadPool, frames
from tests.steps import killed_at


def kept_log(files: LogFiles) -> None:
    """Dead claims in two segments, and stale bytes behind the tail."""
    files.create(0)
    gap = files.records(0, numbered(5), files.claim(0, HEADER, 48))
    files.skip(0, files.records(0, numbered(5, 5), gap + 40), 0)
    files.create(1, opened=True)
    end = files.records(1, numbered(5, 10), files.claim(1, HEADER, 64))
    files.record(1, end + 8, b"stale")
    files.open_cursors(tail=(1, end))


def cut_log(files: LogFiles) -> None:
    """A torn tail across three segments."""
    files.create(0)
    cut = files.records(0, numbered(15))
    files.skip(0, files.records(0, numbered(500, 20), cut + 32), 0)
    files.full(1, numbered(5, 520))
    files.create(2, opened=True)
    files.records(2, numbered(5, 525))
    files.create(3)
    files.open_cursors(mode=kernel.MODE_POOLED)


def damaged_log(files: LogFiles) -> None:
    """A log of this boot with a tail, and an invalid frame below it."""
    files.create(0)
    damaged = files.records(0, numbered(15))
    behind = files.put(0, damaged, b"\xff" * 32 + bytes(512))
    files.skip(0, files.records(0, numbered(5, 20), behind), 0)
    files.create(1, opened=True)
    end = files.records(1, numbered(5, 30))
    files.open_cursors(tail=(1, end))


def test_tail_below_what_is_durable_is_not_believed(files: LogFiles) -> None:
    files.create(0)
    early = files.records(0, numbered(10))
    end = files.records(0, numbered(10, 10), early)
    files.open_cursors(tail=(0, early))
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(end))
    assert recovered.end == end
    assert files.values() == numbered(20)


@pytest.mark.parametrize("build", [kept_log, cut_log, damaged_log])
def test_recovery_killed_at_any_step_ends_at_the_same_place(
    tmp_path: Path, build: Callable[[LogFiles], None]
) -> None:
    step, done = 1, False
    while not done:
        path = tmp_path / f"{build.__name__} {step}"
        done = not killed_at(step, functools.partial(built, path, build))
        files = LogFiles(path)
        files.cursors = reopen_cursors(files)
        assert files.numbers() == list(range(len(files.numbers()))), (
            "a kill left a hole in the numbering"
        )
        recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
        check(files, build, recovered)
        step += 1
        files.directory.close()
    assert step > 6


def built(path: Path, build: Callable[[LogFiles], None]) -> Callable[[], object]:
    """Build a log; return a function that recovers it."""
    files = LogFiles(path)
    build(files)
    return lambda: files.recover(usable=True, checkpoint=files.checkpoint(HEADER))


def built_with_buffers(path: Path, names: list[str]) -> Callable[[], object]:
    """Return a function that recovers a log from buffers with these names."""
    files = LogFiles(path)
    cursors = files.open_cursors(mode=kernel.MODE_POOLED)
    return lambda: files.recover(
        usable=True, checkpoint=files.checkpoint(HEADER), shm_names=names, cursors=cursors
    )


def reopen_cursors(files: LogFiles) -> Any:
    with (files.path / "cursors").open("r+b") as file:
        cursors = kernel.Cursors(file.fileno(), True)
    assert cursors.matches(UUID, BOOT, 1, SIZE)
    return cursors


def check(files: LogFiles, build: Callable[[LogFiles], None], recovered: Recovered) -> None:
    assert files.values() == numbered(15)
    number, offset = recovered.tail
    assert files.get(number, offset) == bytes(SIZE - offset)
    assert not list(files.path.glob(".*.tmp"))
    assert not list(files.path.glob("*.cut.*")), "an interrupted cut is not saved twice"
    if build is damaged_log:
        assert recovered.tail == (0, HEADER + 15 * 32)
    elif build is cut_log:
        assert files.numbers() == [0]
        saved = [
            oracle.build_frame(files.segment_id(2), HEADER, numbered(1, 525)[0], timestamp_ns=7)
        ]
        assert files.cut_file(2).read_bytes()[HEADER:].startswith(saved[0])
        assert files.cut_file(0).stat().st_size == SIZE
    else:
        assert files.numbers() == [0, 1]


def test_recovery_of_buffers_killed_at_any_step_loses_nothing(
    tmp_path: Path, dead_pool: DeadPool
) -> None:
    step, done = 1, False
    while not done:
        path = tmp_path / str(step)
        files = LogFiles(path)
        files.create(0)
        files.records(0, numbered(3))
        files.create(1, opened=True)
        names = dead_pool(
            [
                (0, files.segment_id(0), HEADER, frames(files, 0, numbered(10), full=True)),
                (1, files.segment_id(1), HEADER, frames(files, 1, numbered(5, 10))),
            ]
        )
        done = not killed_at(step, functools.partial(built_with_buffers, path, names))
        files.open_cursors(mode=kernel.MODE_POOLED)
        recovered = files.recover(
            usable=False, checkpoint=files.checkpoint(HEADER), shm_names=names
        )
        assert files.values() == numbered(15)
        assert recovered.tail[0] == 1
        assert recovered.cut_range is None
        files.directory.close()
        step += 1
    assert step > 6
