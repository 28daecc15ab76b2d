"""Segments allocated ahead of need, and pools with few buffers, exhausted or shared."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from commitlog import CommitLog, TransientStorePool
from commitlog.errors import ClosedError, DiskFullError, PoolExhaustedError, SegmentHeldError
from commitlog.log.parts import parts_of
from commitlog.pool.transient_store_pool import buffers_of
from tests.setups import BY_HAND, HEADER, SEGMENT, Logs

BACKINGS = ["anonymous", "shm"]


# --- ahead of need --------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [0, 1, 3, 8])
def test_allocate_ahead_is_the_number_of_segments_ahead(
    logs: Logs, until: Callable[..., None], ahead: int
) -> None:
    log = logs.open(allocate_ahead=ahead)
    until(lambda: parts_of(log).queue.numbers() == list(range(ahead + 1)))
    log.roll()
    log.append(b"x")
    until(lambda: parts_of(log).queue.numbers() == list(range(ahead + 2)))
    log.close()
    assert log.options.tuning.allocate_ahead == ahead


def test_no_segment_is_created_after_a_missing_one(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another handle is creating the next segment, and may be killed before it finishes."""
    busy = logs.open(allocate_ahead=0)
    assert parts_of(busy).engine.try_creation()
    writer = parts_of(logs.open(allocate_ahead=3)).writer
    assert writer is not None
    place, tried = writer.allocation._place, []

    def noted(number: int, *, needed: bool) -> bool:
        tried.append(number)
        return place(number, needed=needed)

    monkeypatch.setattr(writer.allocation, "_place", noted)
    writer.allocation._allocate_ahead(0)
    parts_of(busy).engine.end_creation()
    assert set(tried) == {1}


def test_full_disk_refuses_appends_until_there_is_room(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs.open(allocate_ahead=0)
    log.append(b"before")
    create = parts_of(log).directory.create_segment

    def refuse(number: int, **options: Any) -> bool:
        raise DiskFullError(
            "no room: free space and append again",
            path=parts_of(log).directory.segment_path(number),
        )

    monkeypatch.setattr(parts_of(log).directory, "create_segment", refuse)
    for _ in range(7):
        log.append(bytes(8000))
    with pytest.raises(DiskFullError):
        log.append(bytes(8000))
    tail = log.tail_position
    for append in (
        lambda: log.append(b"x"),
        lambda: log.append_many([b"x"]),
        lambda: log.claim(5),
        lambda: log.append_array(np.zeros((1, 9))),
    ):
        with pytest.raises(DiskFullError):
            append()
    assert log.tail_position == tail
    log.flush()
    assert len(list(log.tailer(visibility="flushed"))) == 8
    monkeypatch.setattr(parts_of(log).directory, "create_segment", create)
    assert log.append(b"room again") == SEGMENT + HEADER
    assert [record.value for record in log.tailer()][-1] == b"room again"


# --- pools under load -----------------------------------------------------------------------------


@pytest.mark.parametrize("backing", BACKINGS)
@pytest.mark.parametrize("buffers", [1, 2, 5])
@pytest.mark.parametrize("flush", ["sync", "async", "none"])
def test_pools_of_few_buffers_carry_any_load(
    logs: Logs, buffers: int, backing: str, flush: Any
) -> None:
    """RocketMQ's pools of one or two buffers deadlock."""
    pool = logs.pool(backing, buffers=buffers)
    log = logs.open(pool=pool, flush=flush)

    def append(writer: int) -> None:
        rows = np.full((500, 5), writer * 10_000, dtype=np.int64) + np.arange(500).reshape(-1, 1)
        for turn in range(6):
            log.append_array(rows + turn * 500, sync=False)
            log.append(b"", key=b"%d" % writer)

    with ThreadPoolExecutor(3) as threads:
        for writing in [threads.submit(append, writer) for writer in range(3)]:
            writing.result()
        log.flush()
    found = [
        int.from_bytes(value[:8], "little")
        for value in log.tailer(visibility="flushed").values()
        if value
    ]
    assert sorted(found) == sorted(
        writer * 10_000 + index for writer in range(3) for index in range(3000)
    )
    for writer in range(3):
        mine = [number for number in found if number // 10_000 == writer]
        assert mine == sorted(mine)
    log.close()
    assert pool.available == buffers
    assert pool.stats().borrows == pool.stats().returns


@pytest.mark.parametrize("backing", BACKINGS)
def test_returned_buffers_are_zeroed(logs: Logs, backing: str) -> None:
    pool = logs.pool(backing, buffers=1)
    for name in ("first", "second"):
        with logs.open(name, pool=pool) as log:
            log.append_array(np.full((3000, 40), 0xAA, dtype=np.uint8))
        buffer = buffers_of(pool).borrow("the test")
        assert buffer is not None
        assert bytes(memoryview(buffer.memory)) == bytes(SEGMENT)
        buffers_of(pool).return_buffer(buffer)


# --- exhausted pools ------------------------------------------------------------------------------


def exhaust(logs: Logs, pool: TransientStorePool) -> CommitLog:
    """Return a log that holds the pool's only buffer and has 100 records."""
    log = logs.open("first", pool=pool, **BY_HAND)
    log.append_many([b"%d" % index for index in range(100)])
    assert pool.available == 0
    return log


@pytest.mark.parametrize("backing", BACKINGS)
@pytest.mark.parametrize("policy", ["raise", "wait"])
def test_log_on_exhausted_pool_can_be_read_and_flushed(
    logs: Logs, backing: str, policy: str
) -> None:
    pool = logs.pool(backing, buffers=1, on_exhausted=policy, wait_timeout=0.02)
    log = exhaust(logs, pool)
    with pytest.raises(PoolExhaustedError, match="first"):
        logs.open("second", pool=pool)
    expected = [b"%d" % index for index in range(100)]
    assert list(log.tailer(visibility="appended").values()) == expected
    log.flush()
    log.append(b"goes on")
    log.commit()
    assert list(log.tailer(visibility="flushed").values()) == expected
    assert list(logs.open("first", mode="r").tailer().values()) == [*expected, b"goes on"]
    log.close()
    with logs.open("second", pool=pool) as second:
        second.append(b"now there is one")


@pytest.mark.parametrize("backing", BACKINGS)
def test_open_waiting_for_a_buffer_gets_the_returned_one(
    logs: Logs, backing: str, until: Callable[..., None]
) -> None:
    pool = logs.pool(backing, buffers=1)
    first = exhaust(logs, pool)
    with ThreadPoolExecutor(1) as threads:
        opening = threads.submit(logs.open, "second", pool=pool)
        until(lambda: pool.stats().waits == 1)
        first.close()
        second = opening.result(timeout=60)
    second.append(b"x")
    assert pool.stats().exhausted == 1


@pytest.mark.parametrize("backing", BACKINGS)
def test_segment_without_a_buffer_is_written_via_its_mapping(logs: Logs, backing: str) -> None:
    pool = logs.pool(backing, buffers=1, on_exhausted="mapped")
    exhaust(logs, pool)
    second = logs.open("second", pool=pool, **BY_HAND)
    with second.claim(5) as claim:
        claim.buffer[:] = b"claim"
    second.append_array(np.zeros((4000, 16), dtype=np.uint8))
    assert second.pooled
    assert len(list(second.tailer(visibility="appended"))) == 4001
    second.commit()
    assert len(list(logs.open("second", mode="r").tailer())) == 4001
    second.flush()
    assert len(list(second.tailer(visibility="flushed"))) == 4001


@pytest.mark.parametrize("backing", BACKINGS)
def test_growing_pool_serves_a_second_log(logs: Logs, backing: str) -> None:
    pool = logs.pool(backing, buffers=1, on_exhausted="grow", max_buffers=2, wait_timeout=0.02)
    exhaust(logs, pool)
    logs.open("second", pool=pool).append(b"x")
    assert (pool.buffers, pool.stats().grown) == (2, 1)
    with pytest.raises(PoolExhaustedError):
        logs.open("third", pool=pool)


@pytest.mark.parametrize(
    "policy",
    [{"on_exhausted": "mapped"}, {"on_exhausted": "grow", "max_buffers": 6}, {"buffers": 4}],
)
@pytest.mark.parametrize("backing", BACKINGS)
def test_several_logs_on_one_pool_keep_their_records(
    logs: Logs, backing: str, policy: dict[str, Any]
) -> None:
    pool = logs.pool(backing, **{"buffers": 2, **policy})
    several = [
        logs.open(f"log {number}", pool=pool, flush=flush)
        for number, flush in enumerate(("async", "none", "sync"))
    ]
    start = threading.Barrier(3)

    def append(number: int) -> list[int]:
        start.wait()
        log = several[number]
        rows = np.full((700, 40), number, dtype=np.uint8)
        return [int(position) for _ in range(8) for position in log.append_array(rows)]

    with ThreadPoolExecutor(3) as threads:
        positions = list(threads.map(append, range(3)))
    for number, log in enumerate(several):
        log.flush()
        records = list(log.tailer(visibility="flushed"))
        assert [record.position for record in records] == positions[number]
        assert {record.value for record in records} == {bytes([number]) * 40}
        log.close()
    assert pool.available == pool.buffers


def test_open_claim_keeps_its_buffer_until_it_ends(logs: Logs) -> None:
    pool = logs.pool(buffers=2)
    log = logs.open(pool=pool, claim_timeout=0.02)
    with ThreadPoolExecutor(1) as threads:
        claim = threads.submit(log.claim, 16).result()
    view = claim.buffer
    log.append_array(np.zeros((6000, 16), dtype=np.uint8))  # the other buffer takes all of these
    log.flush()
    view[:] = b"into the old one"
    assert pool.buffers - pool.available == 2
    del view
    claim.__exit__(ZeroDivisionError, None, None)
    log.append_array(np.zeros((6000, 16), dtype=np.uint8))
    assert len(list(log.tailer(visibility="appended"))) == 12000


@pytest.mark.usefixtures("no_other_holders")
def test_deleting_a_drained_segment_returns_its_buffer(logs: Logs) -> None:
    pool = logs.pool(buffers=4)
    log = logs.open(pool=pool, flush="none")
    for _ in range(3):
        log.append(bytes(5000))
        log.roll()
    log.append(b"on")
    log.flush()
    with pytest.raises(SegmentHeldError, match="its pool buffer"):
        parts_of(log).queue.delete(0, 0.0)
    log.delete_before(log.tail_position, force_after=0.0)
    assert parts_of(log).queue.numbers()[0] > 0
    assert pool.buffers - pool.available == 1
    log.close()
    assert pool.buffers - pool.available == 0


def test_roll_during_close_returns_its_buffer(logs: Logs, until: Callable[..., None]) -> None:
    pool = logs.pool(buffers=1)
    log = logs.open(pool=pool, claim_timeout=0.02)
    with ThreadPoolExecutor(1) as threads:
        # Keeps the buffer of the segment that the roll leaves.
        claim = threads.submit(log.claim, 16).result()
        rolling = threads.submit(log.roll)
        until(lambda: pool.stats().waits == 1)
        log.close()  # returns that buffer to the pool, which lends it to the roll
        assert isinstance(rolling.exception(timeout=60), ClosedError)
    assert pool.buffers - pool.available == 0
    claim.__exit__(ZeroDivisionError, None, None)
