"""Contract of segment ends in every setup: records that fill a segment or do not fit, and early
rolls.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from commitlog.errors import (
    RecordTooLargeError,
)
from tests.setups import HEADER, LARGEST_VALUE, SEGMENT, Logs, Open, all_appended, values


def test_16_byte_appends_roll_the_smallest_segments(open_log: Open) -> None:
    log = open_log()
    # Twenty segments, filled exactly.
    rows = np.arange(20 * 1920 * 2, dtype=np.uint64).reshape(-1, 2)
    for number in range(20):
        positions = log.append_array(rows[number * 1920 : (number + 1) * 1920], sync=False)
        assert positions[[0, -1]].tolist() == [
            number * SEGMENT + HEADER,
            (number + 1) * SEGMENT - 32,
        ]
    assert log.tail_position == 20 * SEGMENT + HEADER
    log.commit()
    assert b"".join(values(log)) == rows.tobytes()


def test_single_appends_roll_the_smallest_segments(open_log: Open) -> None:
    log = open_log()
    written = [b"%016d" % index for index in range(4 * 1920)]
    for value in written:
        log.append(value, sync=False)
    assert log.tail_position == 4 * SEGMENT + HEADER
    assert all_appended(log) == written


def test_record_that_exactly_fills_a_segment_needs_no_padding(open_log: Open, logs: Logs) -> None:
    log = open_log()
    log.append_array(np.zeros((7, LARGEST_VALUE), dtype=np.uint8))
    assert log.tail_position == SEGMENT - 4096
    last = log.append(b"f" * (4096 - 16))
    assert last == SEGMENT - 4096
    assert log.tail_position == SEGMENT + HEADER
    assert log.append(b"next segment") == SEGMENT + HEADER
    log.close()
    log = open_log()
    assert values(log)[-2:] == [b"f" * 4080, b"next segment"]


def test_log_that_ends_with_a_full_segment_reopens(open_log: Open) -> None:
    log = open_log()
    log.append_array(np.zeros((1920, 16), dtype=np.uint8))
    tail = log.tail_position
    log.close()
    log = open_log()
    assert log.tail_position == tail == SEGMENT + HEADER
    assert log.append(b"on") == SEGMENT + HEADER
    assert len(all_appended(log)) == 1921


def test_record_larger_than_segment_rest_goes_to_next_segment(open_log: Open) -> None:
    log = open_log()
    log.append_array(np.zeros((7, LARGEST_VALUE), dtype=np.uint8))
    assert log.append(b"f" * (4096 - 15)) == SEGMENT + HEADER
    assert len(all_appended(log)) == 8


def test_record_above_the_maximum_size_is_refused(open_log: Open) -> None:
    log = open_log()
    assert log.largest_value == LARGEST_VALUE
    log.append(b"m" * LARGEST_VALUE)
    too_large = b"m" * (LARGEST_VALUE + 1)
    attempts: list[Callable[[], object]] = [
        lambda: log.append(too_large),
        lambda: log.append(b"", key=too_large),
        lambda: log.append_many([b"never", too_large]),
        lambda: log.append_array(np.zeros((3, LARGEST_VALUE + 1), dtype=np.uint8)),
        lambda: log.claim(LARGEST_VALUE + 1),
    ]
    for attempt in attempts:
        with pytest.raises(RecordTooLargeError) as caught:
            attempt()
        assert caught.value.limit == SEGMENT // 8
        assert caught.value.size is not None
        assert caught.value.size > SEGMENT // 8
    log.append(b"k", key=b"k" * (LARGEST_VALUE - 8 - 1))
    assert len(all_appended(log)) == 2


def test_early_roll_starts_a_new_segment(open_log: Open) -> None:
    log = open_log()
    for number in range(5):
        assert log.append(b"first of %d" % number) == number * SEGMENT + HEADER
        log.roll()
    log.roll()  # an empty segment is closed as well
    log.append(b"last")
    log.close()
    log = open_log()
    assert values(log) == [*(b"first of %d" % number for number in range(5)), b"last"]
