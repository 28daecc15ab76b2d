"""The queue of segments: lookup by position, a bound on mapped segments, deletion from the front
only and never under a holder.
"""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commitlog import CommitLog
from commitlog.errors import ClosedError, CorruptRecordError, PositionError, SegmentHeldError
from commitlog.log.parts import parts_of
from tests.setups import BY_HAND, HEADER, SEGMENT, Logs

pytestmark = pytest.mark.usefixtures("no_other_holders")


def filled(logs: Logs, segments: int) -> CommitLog:
    log = logs.open(**BY_HAND)
    for number in range(segments):
        log.append_array(np.full((20, 16), number % 256, dtype=np.uint8))
        log.roll()
    log.flush()
    return log


def mapped_segments() -> int:
    with open("/proc/self/maps", encoding="ascii") as maps:
        return sum(line.rstrip().endswith(".seg") for line in maps)


def test_find_by_position_touches_no_other_segment(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(logs, 40)
    acquired: list[int] = []
    acquire = parts_of(log).engine.acquire

    class Counting:
        segment_size = log.segment_size
        path = log.path
        flushed_position = 0

        def acquire(self, number: int) -> object:
            acquired.append(number)
            return acquire(number)

        def check_cut(self) -> None:
            pass

    with monkeypatch.context() as patch:
        patch.setattr(parts_of(log).queue, "core", Counting())
        patch.setattr(
            parts_of(log).directory,
            "segment_numbers",
            lambda: pytest.fail("the directory was listed"),
        )
        for position in (25 * SEGMENT + HEADER, 25 * SEGMENT, 26 * SEGMENT - 1):
            assert parts_of(log).queue.get(position // SEGMENT).number == 25
    assert acquired in ([25], [])


def test_positions_without_a_segment_are_refused(logs: Logs) -> None:
    log = filled(logs, 2)
    for position in (10 * SEGMENT, 1 << 62):
        with pytest.raises(PositionError):
            parts_of(log).queue.get(position // SEGMENT)
        assert parts_of(log).queue.hold(position // SEGMENT, "holder") is None


def test_reading_many_segments_keeps_few_of_them_mapped(logs: Logs) -> None:
    log = filled(logs, 150)
    log.close()
    gc.collect()
    before = mapped_segments()
    reader = logs.open(mode="r")
    tailer = reader.tailer()
    assert len(list(tailer)) == 3000
    assert len(parts_of(reader).queue._files) <= 20
    reader.close()
    tailer.close()
    assert mapped_segments() <= before


def test_open_of_a_clean_long_log_maps_few_segments(logs: Logs) -> None:
    filled(logs, 300).close()
    gc.collect()  # garbage of other tests must not be freed between the counts
    files, mapped = len(os.listdir("/proc/self/fd")), mapped_segments()
    log = logs.open(**BY_HAND)
    assert len(os.listdir("/proc/self/fd")) - files < 20
    assert mapped_segments() - mapped < 10
    assert log.append(b"x") >= 300 * SEGMENT


def test_reader_holding_a_segment_reads_on_during_deletion(logs: Logs) -> None:
    log = filled(logs, 5)
    tailer = log.tailer()
    first = tailer.read()
    with pytest.raises(SegmentHeldError, match="tailer"):
        log.delete_before(4 * SEGMENT, force_after=0.01)
    assert [record.value for record in tailer][:19] == [first.value] * 19  # type: ignore[union-attr]
    assert log.delete_before(4 * SEGMENT, force_after=0.01) != []
    assert log.first_position == 4 * SEGMENT + HEADER


def test_held_first_segment_is_deleted_after_its_release(logs: Logs) -> None:
    log = filled(logs, 4)
    view = log.tailer().read().view()  # type: ignore[union-attr]
    with pytest.raises(SegmentHeldError) as caught:
        parts_of(log).queue.delete(0, 0.01)
    assert caught.value.position == 0
    assert Path(parts_of(log).directory.segment_path(0)).exists()
    assert bytes(view) == bytes(16)
    assert parts_of(log).queue.numbers()[0] == 0
    with ThreadPoolExecutor(1) as pool:
        deleting = pool.submit(parts_of(log).queue.delete, 0, 30)
        assert not deleting.done()
        del view
        deleting.result(timeout=60)
    assert not Path(parts_of(log).directory.segment_path(0)).exists()


def test_deletion_stops_before_a_held_segment(logs: Logs) -> None:
    log = filled(logs, 8)
    held = parts_of(log).queue.hold(3, "a test")
    assert held is not None
    with pytest.raises(SegmentHeldError, match="a test"):
        log.delete_before(6 * SEGMENT, 0.01)
    assert parts_of(log).queue.numbers()[:4] == [3, 4, 5, 6]
    held[0].release(held[1])
    assert len(log.delete_before(6 * SEGMENT, 0.01)) == 3
    assert log.delete_before(6 * SEGMENT, 0.01) == []
    assert parts_of(log).queue.first_number == 6


def test_concurrent_lookups_survive_drops_of_idle_segments(logs: Logs) -> None:
    """Threads read at random positions, over more segments than stay mapped."""
    log = filled(logs, 60)

    def read(seed: int) -> int:
        generator = np.random.default_rng(seed)
        total = 0
        for number in generator.integers(0, 60, 300).tolist():
            total += log.read(number * SEGMENT + HEADER).value == bytes([number]) * 16
        return total

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, range(4))) == [300] * 4


def test_closed_queue_refuses_every_call(logs: Logs) -> None:
    log = filled(logs, 1)
    log.close()
    for use in (
        parts_of(log).queue.numbers,
        lambda: parts_of(log).queue.get(0),
        lambda: parts_of(log).queue.hold(0, "x"),
        lambda: parts_of(log).queue.first_number,
    ):
        with pytest.raises(ClosedError):
            use()


def test_view_into_a_deleted_segment_is_refused(logs: Logs) -> None:
    log = filled(logs, 4)
    record = log.tailer().read()
    assert record is not None
    log.delete_before(3 * SEGMENT)
    with pytest.raises((PositionError, CorruptRecordError)):
        record.view()
    assert record.value == bytes(16)


def test_delete_takes_a_segment_off_the_list_before_unmapping(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(logs, 3)
    listed: list[bool] = []
    engine = parts_of(log).engine

    class Noting:
        """The engine as the queue sees it, which records whether a forgotten segment is still
        listed.
        """

        def __getattr__(self, name: str) -> Any:
            return getattr(engine, name)

        def forget(self, number: int) -> int:
            listed.append(number in parts_of(log).queue._files)
            return engine.forget(number)

    monkeypatch.setattr(parts_of(log).queue.get(0), "_core", Noting())
    parts_of(log).queue.delete(0, 0.0)
    assert listed == [False]
