"""Rolls into segments prepared in advance, and pool buffers lent ahead of need."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import commitlog
from commitlog import CommitLog, TransientStorePool
from commitlog._kernel.segments import UUID_SIZE
from commitlog.allocation.segment_buffers import SegmentBuffers
from commitlog.errors import PoolExhaustedError
from commitlog.log.open_log import OpenLog
from commitlog.log.parts import parts_of
from commitlog.pool.buffer import PoolBuffer
from commitlog.pool.shm_survey import find_buffers
from commitlog.pool.transient_store_pool import buffers_of as pool_buffers
from tests.setups import BY_HAND, HEADER, LARGEST_VALUE, SEGMENT, Logs, all_appended, values

Until = Callable[..., None]
VALUE = bytes(2000)
BACKINGS = ["anonymous", "shm"]


def ready_below(log: CommitLog) -> int:
    return parts_of(log).engine.ready_below


def number_of(log: CommitLog) -> int:
    tail = parts_of(log).engine.tail
    assert tail is not None
    return tail[0]


def pass_middle(log: CommitLog) -> int:
    """Append until the tail is in the last quarter of a segment; return the number of records."""
    count = 0
    while log.tail_position % SEGMENT < SEGMENT * 3 // 4:
        log.append(VALUE)
        count += 1
    return count


def buffers_of(log: CommitLog) -> SegmentBuffers:
    writer = parts_of(log).writer
    assert writer is not None
    buffers = writer.allocation._buffers
    assert buffers is not None
    return buffers


@pytest.fixture
def no_slow_roll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a roll fail if it has to ask the log for the next segment."""

    def refuse(self: OpenLog, number: int) -> None:
        raise AssertionError(f"the roll from segment {number} was not ready")

    monkeypatch.setattr(OpenLog, "roll_from", refuse)


# --- rolls ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_slow_roll")
@pytest.mark.parametrize("backing", ["mapped", *BACKINGS])
def test_roll_into_a_ready_segment_skips_the_slow_path(
    logs: Logs, backing: str, until: Until
) -> None:
    log = logs.open(pool=None if backing == "mapped" else logs.pool(backing), flush="none")
    count = 0
    for number in range(6):
        count += pass_middle(log)
        until(lambda number=number: ready_below(log) > number + 1)
        while number_of(log) == number:
            log.append(VALUE)
            count += 1
    assert log.stats().rolls == 6
    assert len(all_appended(log)) == count
    log.close()
    with logs.open(mode="r") as reader:
        assert len(values(reader)) == count


def test_log_without_segments_ahead_is_never_ready(logs: Logs, until: Until) -> None:
    log = logs.open(pool=logs.pool(), allocate_ahead=0, flush="none")
    for _ in range(3):
        pass_middle(log)
        log.roll()
    log.flush()
    until(lambda: log.stats().flushed_position == log.tail_position)
    assert ready_below(log) == 0


def test_log_with_cycles_is_never_ready(logs: Logs, until: Until) -> None:
    log = logs.open(roll_cycle="DAILY")
    until(lambda: parts_of(log).queue.numbers() == [0, 1])
    log.append_array(np.zeros((100, 1000), dtype=np.uint8))
    until(lambda: parts_of(log).queue.numbers()[-1] > number_of(log))
    assert ready_below(log) == 0


def test_closed_log_is_not_ready(logs: Logs, until: Until) -> None:
    log = logs.open()
    until(lambda: ready_below(log) == 2)
    log.close()
    assert ready_below(log) == 0


# --- the buffer ahead of need ---------------------------------------------------------------------


def test_buffer_is_lent_ahead_once_tail_passes_the_middle(logs: Logs, until: Until) -> None:
    pool = logs.pool(buffers=3)
    log = logs.open(pool=pool, **BY_HAND)
    until(lambda: parts_of(log).queue.numbers() == [0, 1])
    log.append(VALUE)
    assert (pool.buffers - pool.available, ready_below(log)) == (1, 0)
    pass_middle(log)
    until(lambda: ready_below(log) == 2)
    assert pool.buffers - pool.available == 2
    log.close()
    assert pool.buffers - pool.available == 0


@pytest.mark.parametrize("policy", ["raise", "wait", "grow", "mapped"])
@pytest.mark.parametrize("backing", BACKINGS)
def test_buffer_ahead_goes_to_a_log_that_needs_it(
    logs: Logs, backing: str, policy: str, until: Until
) -> None:
    pool = logs.pool(backing, buffers=2, on_exhausted=policy)
    first = logs.open("first", pool=pool, **BY_HAND)
    count = pass_middle(first)
    until(lambda: pool.available == 0)
    second = logs.open("second", pool=pool)
    assert (pool.buffers, pool.stats().exhausted, ready_below(first)) == (2, 0, 0)
    second.append(b"in a buffer")
    second.close()
    while number_of(first) == 0:
        first.append(VALUE)
        count += 1
    assert len(all_appended(first)) == count


def test_buffer_being_lent_ahead_goes_to_a_log_in_need(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = logs.pool(buffers=2, on_exhausted="raise")
    lent, short = threading.Event(), threading.Event()
    borrow = pool_buffers(pool).try_borrow

    def note_shortage() -> bool:
        short.set()
        return False

    def borrow_slowly(owner: str, *, ahead: bool = False) -> PoolBuffer | None:
        buffer = borrow(owner, ahead=ahead)
        if ahead and buffer is not None:
            lent.set()
            assert short.wait(60)
        return buffer

    monkeypatch.setattr(pool_buffers(pool), "try_borrow", borrow_slowly)
    pool_buffers(pool).on_shortage(note_shortage)  # called before the log's own listener
    first = logs.open("first", pool=pool, **BY_HAND)
    count = pass_middle(first)
    assert lent.wait(60)
    second = logs.open("second", pool=pool)
    second.append(b"in a buffer")
    assert pool.stats().exhausted == 0
    assert len(all_appended(first)) == count


def test_pool_of_one_serves_a_log_of_many_segments(logs: Logs) -> None:
    pool = logs.pool(buffers=1, on_exhausted="raise")
    log = logs.open(pool=pool)
    for _ in range(1000):
        log.append(bytes(LARGEST_VALUE))
    assert number_of(log) > 100
    assert len(all_appended(log)) == 1000


def test_segment_entered_without_buffer_gets_none_later(logs: Logs) -> None:
    """Claims in that segment already point into the file's mapping."""
    pool = logs.pool(buffers=1, on_exhausted="mapped")
    other = logs.open("other", pool=pool, **BY_HAND)
    log = logs.open(pool=pool, **BY_HAND)
    log.append(b"in the mapping")
    other.close()
    assert pool.available == 1
    buffers_of(log).attach_ahead(number_of(log))
    assert pool.available == 1
    assert all_appended(log) == [b"in the mapping"]


def test_segment_that_a_thread_rolls_into_keeps_its_buffer(logs: Logs, until: Until) -> None:
    pool = logs.pool(buffers=2, on_exhausted="raise")
    log = logs.open(pool=pool, **BY_HAND)
    pass_middle(log)
    until(lambda: pool.available == 0)
    writer = parts_of(log).writer
    assert writer is not None
    writer.allocation.bring(1)
    with pytest.raises(PoolExhaustedError):
        logs.open("second", pool=pool)
    log.roll()
    assert log.append(b"in the buffer") == SEGMENT + HEADER


def test_low_water_warns_when_the_log_rolls(logs: Logs, until: Until) -> None:
    pool = logs.pool(buffers=2, low_water=0.5)
    log = logs.open(pool=pool, **BY_HAND)
    pass_middle(log)
    until(lambda: pool.available == 0)
    assert pool.stats().low_water_warnings == 0
    log.roll()
    log.append(VALUE)
    until(lambda: pool.stats().low_water_warnings == 1)


# --- killed ---------------------------------------------------------------------------------------


def die_with_a_buffer_ahead(path: Path) -> None:
    """Append past the middle of a segment; kill this process once the next one has a buffer."""
    with TransientStorePool(
        buffers=3, buffer_size=SEGMENT, backing="shm", lock_memory="off"
    ) as pool:
        (path.parent / "names").write_text("\n".join(pool_buffers(pool).shm_names))
        log = commitlog.open(path, pool=pool, flush="none", commit_interval=60)
        pass_middle(log)
        while ready_below(log) < 2:
            log.append(b"")
        os.kill(os.getpid(), signal.SIGKILL)


def test_kill_with_a_buffer_ahead_loses_nothing(
    tmp_path: Path, logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    child = os.fork()
    if child == 0:
        try:
            die_with_a_buffer_ahead(tmp_path / "log")
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    found = values(logs.open())
    full = [value for value in found if value]
    assert full == [VALUE] * len(full)
    assert len(full) * 2016 > SEGMENT * 3 // 4 - HEADER - 2016
    assert not [record for record in caplog.records if record.levelname != "INFO"]
    names = (tmp_path / "names").read_text().split()
    assert find_buffers(names, bytes(UUID_SIZE)).missing == tuple(names)
