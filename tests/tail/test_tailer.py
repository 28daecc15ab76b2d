"""Tailers: positions, waiting, and the segments they hold."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from commitlog import Record
from commitlog.errors import ClosedError, PositionError
from commitlog.log.parts import parts_of
from commitlog.segment.mapped_file_queue import MappedFileQueue
from tests.setups import BY_HAND, HEADER, LARGEST_VALUE, SEGMENT, Logs, Setup


def test_second_iteration_resumes_at_the_position(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    tailer = log.tailer(visibility="appended")
    for turn in range(4):
        log.append_many([b"%d %d" % (turn, index) for index in range(800)])
        assert next(tailer).value == b"%d 0" % turn
        assert [record.value for record in tailer] == [
            b"%d %d" % (turn, index) for index in range(1, 800)
        ]
        assert tailer.position == log.tail_position
        assert list(tailer) == []


def test_ways_of_reading_can_be_mixed(logs: Logs) -> None:
    log = logs.open()
    log.append_many([b"%d" % index for index in range(10)])
    tailer = log.tailer()
    assert tailer.read().value == b"0"  # type: ignore[union-attr]
    assert next(tailer.values()) == b"1"
    assert tailer.read_batch(2).values() == [b"2", b"3"]
    assert next(tailer.follow()).value == b"4"
    assert next(tailer).value == b"5"
    assert list(tailer.values()) == [b"6", b"7", b"8", b"9"]


def test_tailers_are_independent(logs: Logs) -> None:
    log = logs.open()
    log.append_many([b"a", b"b", b"c"])
    first, second = log.tailer(), log.tailer()
    assert [record.value for record in first] == [b"a", b"b", b"c"]
    assert second.read().value == b"a"  # type: ignore[union-attr]
    first.seek("first")
    assert first.read().value == b"a"  # type: ignore[union-attr]


def test_tailer_of_empty_log_reads_the_first_append(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    for start in ("first", "end", HEADER, 0):
        tailer = log.tailer(start=start, visibility="appended")  # type: ignore[arg-type]
        assert tailer.read() is None
        assert tailer.position == HEADER
    log.append(b"x")
    assert tailer.read().value == b"x"  # type: ignore[union-attr]


@pytest.mark.parametrize("backing", ["mapped", "anonymous", "shm"])
def test_end_is_the_end_of_the_visible_records(logs: Logs, backing: Any) -> None:
    log = logs.open_as(Setup("none", backing), **BY_HAND)
    log.append(b"flushed")
    log.flush()
    log.append(b"committed")
    log.commit()
    log.append(b"appended")
    after = {
        name: log.tailer(start="end", visibility=name)
        for name in ("flushed", "committed", "appended")
    }  # type: ignore[arg-type]
    log.append(b"new")
    log.flush()
    seen = {name: list(tailer.values()) for name, tailer in after.items()}
    assert seen["appended"] == [b"new"]
    assert seen["committed"] == ([b"appended", b"new"] if backing != "mapped" else [b"new"])
    assert seen["flushed"] == [b"committed", b"appended", b"new"]


def test_record_behind_an_open_claim_is_read_by_position(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, claim_timeout=60, **BY_HAND)
    with ThreadPoolExecutor(1) as pool:
        claim = pool.submit(log.claim, 16).result()
    position = log.append(b"behind it", sync=False)
    tailer = log.tailer(visibility="appended")
    assert tailer.read() is None
    assert log.read(position).value == b"behind it"
    with claim:
        claim.buffer[:] = b"sixteen bytes ok"
    assert [record.value for record in tailer] == [b"sixteen bytes ok", b"behind it"]


def test_dead_claim_delays_a_reader_by_at_most_the_timeout(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, claim_timeout=0.03, **BY_HAND)
    with ThreadPoolExecutor(1) as pool:
        claim = pool.submit(log.claim, 16).result()
    log.append(b"behind it", sync=False)
    record = log.tailer(visibility="appended").read(timeout=60)
    assert record is not None
    assert record.value == b"behind it"
    claim.__exit__(ZeroDivisionError, None, None)
    assert log.stats().rolled_back_claims == 1


@pytest.mark.parametrize("backing", ["mapped", "anonymous", "shm"])
@pytest.mark.parametrize("idle", ["spin", "yield", "backoff", "block"])
def test_read_batch_waits_for_records(logs: Logs, backing: Any, idle: Any) -> None:
    log = logs.open_as(Setup("async", backing), commit_interval=0.001, commit_least_pages=0)
    tailer = log.tailer()
    assert len(tailer.read_batch(timeout=0.005, idle=idle)) == 0
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(tailer.read_batch, 10, None, idle)
        log.append(b"came")
        assert waiting.result(timeout=60).values() == [b"came"]


def test_follow_ends_after_its_timeout_without_records(logs: Logs) -> None:
    log = logs.open()
    log.append_many([b"a", b"b"])
    assert [record.value for record in log.tailer().follow(timeout="10ms")] == [b"a", b"b"]


@pytest.mark.parametrize("idle", ["spin", "yield", "backoff", "block"])
def test_followers_read_every_record_across_rolls(logs: Logs, idle: Any) -> None:
    log = logs.open()
    readers = [log, logs.open(mode="r")]
    expected = 40 * 128
    started = threading.Barrier(3)

    def follow(number: int) -> list[bytes]:
        following = readers[number].tailer().follow(timeout=60, idle=idle)
        started.wait()
        return [record.value for _, record in zip(range(expected), following, strict=False)]

    with ThreadPoolExecutor(2) as pool:
        following = [pool.submit(follow, number) for number in range(2)]
        started.wait()
        rows = np.arange(expected, dtype=np.int64).repeat(12).reshape(-1, 12)
        for start in range(0, expected, 128):
            log.append_array(rows[start : start + 128])
        for reader in following:
            assert reader.result() == [row.tobytes() for row in rows]
    assert log.stats().rolls > 5


def test_read_batch_returns_records_of_the_largest_size(logs: Logs) -> None:
    log = logs.open()
    written = [bytes([index]) * LARGEST_VALUE for index in range(20)]
    for value in written:
        log.append(value)
    tailer = log.tailer()
    found = []
    while len(batch := tailer.read_batch()):
        found += batch.values()
    assert found == written


def test_sequence_stays_right_when_a_held_segment_is_deleted(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs.open()
    for _ in range(6):
        log.append_many([b"a", b"b"])
        log.roll()
    log.flush()
    log.delete_before(2 * SEGMENT)
    reader = logs.open(mode="r")
    hold = MappedFileQueue.hold

    def delete_meanwhile(queue: MappedFileQueue, number: int, *given: Any, **named: Any) -> Any:
        held = hold(queue, number, *given, **named)
        log.delete_before(4 * SEGMENT)
        return held

    tailer = reader.tailer()
    monkeypatch.setattr(
        parts_of(reader).queue, "hold", partial(delete_meanwhile, parts_of(reader).queue)
    )
    record = tailer.read()
    assert record is not None
    assert (record.position // SEGMENT, record.sequence) == (2, 4)


def test_tailer_holds_its_segment_until_closed(logs: Logs) -> None:
    log = logs.open(prefault=False)  # the pre-fault thread would hold a segment, too
    log.append(b"x")
    tailer = log.tailer()
    tailer.read()
    holders = [who for who, _ in parts_of(log).queue.get(0).holders]
    assert len(holders) == 1
    assert "tailer" in holders[0]
    with tailer:
        pass
    assert parts_of(log).queue.get(0).holders == []
    log.append(b"y")
    assert tailer.read().value == b"y"  # type: ignore[union-attr]
    del tailer
    assert parts_of(log).queue.get(0).holders == []


def test_tailer_in_deleted_segment_names_the_first_position(
    logs: Logs, until: Callable[..., None]
) -> None:
    log = logs.open()
    for _ in range(5):
        log.append(b"x")
        log.roll()
    tailer = log.tailer()
    log.flush()
    assert log.delete_before(4 * SEGMENT) != []
    first = log.first_position - HEADER
    for read in (
        tailer.read,
        lambda: list(tailer),
        tailer.read_batch,
        lambda: next(tailer.follow()),
    ):
        with pytest.raises(PositionError, match="seek") as caught:
            read()
        assert caught.value.first_position == first
    tailer.seek(first)
    assert len(list(tailer)) == 5 - first // SEGMENT


def test_closed_log_ends_followers_and_raises_closed_elsewhere(logs: Logs) -> None:
    log = logs.open()
    log.append(b"x")
    tailer = log.tailer()
    following = tailer.follow()
    assert next(following).value == b"x"
    log.close()
    assert list(following) == []
    with pytest.raises(ClosedError):
        next(tailer)
    tailer.close()
    tailer.close()


def test_reader_continues_after_the_writer_restarts(logs: Logs, setup: Setup) -> None:
    writer = logs.open_as(setup)
    reader = logs.open(mode="r")
    tailer = reader.tailer()
    expected = []
    for turn in range(4):
        expected += [b"%d %d" % (turn, index) for index in range(700)]
        writer.append_many(expected[-700:])
        writer.close()
        assert [record.value for record in tailer] == expected[-700:]
        writer = logs.open_as(setup)
    assert len(list(reader.tailer(start="first"))) == 2800


def test_value_and_key_of_a_record_are_slots() -> None:
    """The interpreter specializes only loads of slots."""
    for name in ("value", "key"):
        assert inspect.ismemberdescriptor(vars(Record)[name])
