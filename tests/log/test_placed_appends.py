"""Lists whose values depend on their positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from commitlog import CommitLog
from commitlog._kernel.engine import RecordList
from commitlog.errors import ReadOnlyError, RecordTooLargeError
from commitlog.log.parts import parts_of
from tests.setups import LARGEST_VALUE, SEGMENT, Logs, Setup, all_appended

BATCH = 64 << 10
Placing = Callable[[int, int], Callable[[list[int]], list[Any]]]


def stated(size: int) -> Placing:
    """Return what makes values that state their position."""
    return lambda first, end: lambda positions: [b"%0*d" % (size, each) for each in positions]


def append(log: CommitLog, size: int, count: int, placing: Placing, **options: Any) -> Any:
    given = {"keys": None, "types": None, "timestamp_ns": None, "expect": None, **options}
    engine = parts_of(log).engine
    records = RecordList(engine, [bytes(size)] * count, placing=placing, **given)
    return engine.append_records(records, None)


def test_values_state_their_positions_over_segments(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    for size in (20, LARGEST_VALUE // 3, LARGEST_VALUE):
        positions = append(log, size, 2 * SEGMENT // size, stated(size)).tolist()
        assert positions == sorted(set(positions))
        assert [int(log.read(each).value[-18:]) for each in positions] == positions
        log.append(b"other")
    assert len(append(log, 20, 0, stated(20))) == 0


def test_batch_is_placed_at_once(logs: Logs) -> None:
    log = logs.open(segment_size="1MiB")
    asked = []

    def placing(first: int, end: int) -> Callable[[list[int]], list[bytes]]:
        asked.append((first, end))
        return stated(984)(first, end)

    append(log, 984, 150, placing)
    assert asked == [(0, 65), (65, 130), (130, 150)]
    assert 65 * (984 + 16) <= BATCH < 66 * (984 + 16)


def test_whole_list_is_placed_at_the_expected_sequence(logs: Logs) -> None:
    log = logs.open(segment_size="2MiB")
    positions = append(log, 984, 150, stated(984), expect=0).tolist()
    assert [int(value[-18:]) for value in all_appended(log)] == positions
    with pytest.raises(RecordTooLargeError, match="a list is appended as a whole"):
        append(log, 984, 1500, stated(984), expect=150)


@pytest.mark.parametrize(
    "values", [[], [b"12345678"] * 3, [b"1234567"] * 2, [b"123456789"] * 2, [None, None], "12"]
)
def test_unusable_values_append_nothing(logs: Logs, values: Any) -> None:
    log = logs.open()
    with pytest.raises((TypeError, ValueError)):
        append(log, 8, 2, lambda first, end: lambda positions: values)
    assert all_appended(log) == []


def test_reader_is_refused(logs: Logs) -> None:
    log = logs.open()
    with pytest.raises(ReadOnlyError):
        append(logs.open(log.path, "r"), 8, 1, stated(8))
