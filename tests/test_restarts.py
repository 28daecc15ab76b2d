"""Restarts that users of Chronicle Queue rely on: a program ends in the middle of a write, or
restarts repeatedly.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import commitlog


def in_a_child_that_exits(act: Callable[[], object]) -> None:
    """Run a function in a forked process that exits without closing anything."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_exit_during_third_message_leaves_exactly_two(tmp_path: Path) -> None:
    path = tmp_path / "log"

    def write_two_and_a_half() -> None:
        log = commitlog.open(path)
        log.append(b"first")
        log.append(b"second")
        log.claim(100).buffer[:50] = bytes(range(50))

    in_a_child_that_exits(write_two_and_a_half)
    with commitlog.open(path, "r") as reader:
        assert list(reader.tailer().values()) == [b"first", b"second"]
    with commitlog.open(path) as log:
        assert list(log.tailer().values()) == [b"first", b"second"]
        assert [record.value for record in log.tailer(direction="backward")] == [
            b"second",
            b"first",
        ]
        assert log.count() == 2


def test_abandoned_claim_leaves_no_gap_in_sequences(tmp_path: Path) -> None:
    path = tmp_path / "log"

    def abandon() -> None:
        log = commitlog.open(path)
        log.append(b"before")
        kept.append(log.claim(100))

    kept: list[object] = []
    for _ in range(3):
        in_a_child_that_exits(abandon)
        with commitlog.open(path) as log:
            log.append(b"after")
    with commitlog.open(path, "r") as log:
        records = list(log.tailer())
        assert [record.value for record in records] == [b"before", b"after"] * 3
        assert [record.sequence for record in records] == list(range(6))
        assert log.last_sequence == 5
        assert [log.count(records[0].position, record.position) for record in records] == list(
            range(6)
        )


def test_last_position_survives_five_restarts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    expected = None
    for start in range(5):
        with commitlog.open(path, segment_size=65536, roll_cycle="HOURLY") as log:
            assert log.last_position == expected
            for number in range(start * 3):
                expected = log.append(b"%d" % number * 2000)
                assert log.last_position == expected
            if start % 2:
                # The last position is then in the preceding segment.
                log.roll()
            assert log.last_position == expected
        with commitlog.open(path, "r") as reader:
            assert reader.last_position == expected
            assert expected is None or reader.read(expected).position == expected
