"""SealTable: reads the seal of each segment once."""

from __future__ import annotations

import pytest

from commitlog.log.parts import parts_of
from commitlog.segment.directory import LogDirectory
from commitlog.segment.seal_table import SealTable
from tests.setups import HEADER, Logs


def filled(logs: Logs, stamps: list[int]) -> SealTable:
    """Create a sealed segment for each timestamp, with one record (none if it is 0), and a live
    one.
    """
    log = logs.open(allocate_ahead=0, prefault=False)
    for stamp in stamps:
        if stamp:
            log.append(b"x", timestamp_ns=stamp)
        log.roll()
    assert parts_of(log).writer.allocation is not None
    parts_of(log).writer.allocation.sealed_below()
    return SealTable(parts_of(log).directory)


def test_seal_table_returns_the_seals_of_the_segments(logs: Logs) -> None:
    table = filled(logs, [5, 0])
    seal = table.get(0)
    assert seal is not None
    assert (seal.end, seal.first_sequence, seal.record_count, seal.largest_timestamp_ns) == (
        HEADER + 24,
        0,
        1,
        5,
    )
    assert table.get(1).first_sequence == 1  # type: ignore[union-attr]
    assert table.get(2) is None
    assert table.get(99) is None


def test_no_segment_is_opened_twice(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(logs, list(range(1, 41)))
    assert table.sealed_before(0, 41) == 40
    assert table.first_since(17, 0, 40) == 16
    read = []
    monkeypatch.setattr(LogDirectory, "read_header", lambda directory, number: read.append(number))
    for stamp in range(1, 41):
        assert table.first_since(stamp, 0, 40) == stamp - 1
    assert read == []


def test_first_segment_since_a_time_uses_running_maxima(logs: Logs) -> None:
    stamps = [50, 0, 20, 70, 60, 0, 65, 90, 10]
    table = filled(logs, stamps)
    for stamp in range(1, 100):
        expected = next((number for number, largest in enumerate(stamps) if largest >= stamp), 9)
        assert table.first_since(stamp, 0, 9) == expected
    # The same without the first segments, as after a deletion.
    for stamp in range(1, 100):
        expected = next(
            (number for number, largest in enumerate(stamps) if number >= 4 and largest >= stamp), 9
        )
        assert table.first_since(stamp, 4, 9) == expected
