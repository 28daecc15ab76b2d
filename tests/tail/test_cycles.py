"""Cycles: seeks, counts, and cycles without records."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import InvalidOptionError
from commitlog.log.parts import parts_of
from tests.clock import Clock, clocked, instant_ns
from tests.setups import HEADER, SEGMENT, Logs

NOON = "2026-11-21T12:00:00+01:00"
HOURS = (0, 1, 2, 6, 7, 30)  # the hours after noon that have records


def open_log(path: Path, **options: Any) -> CommitLog:
    cycle = commitlog.RollCycle(options.pop("roll_cycle", "HOURLY"), time_zone="Europe/Berlin")
    return commitlog.open(path, **{"roll_cycle": cycle, "segment_size": SEGMENT} | options)


def fill(log: CommitLog, clock: Clock) -> int:
    """Append n records in the n-th of these hours; return the number of noon's cycle."""
    for count, hour in enumerate(HOURS, 1):
        clock.set(instant_ns(NOON) + hour * 3600 * 10**9)
        for number in range(count):
            log.append(b"%d.%d" % (hour, number), key=b"%d" % hour)
    return parts_of(log).directory.cycle_at(instant_ns(NOON))


@clocked(NOON)
def test_skipped_cycles_are_passed_both_ways(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        fill(log, clock)
        expected = [
            b"%d.%d" % (hour, number)
            for count, hour in enumerate(HOURS, 1)
            for number in range(count)
        ]
        assert [record.value for record in log.tailer()] == expected
        assert [record.value for record in log.tailer(direction="backward")] == expected[::-1]
        tailer = log.tailer()
        tailer.seek(sequence=6)  # the first record after three cycles without records
        tailer.direction = "backward"
        assert tailer.read().value == b"2.2"  # type: ignore[union-attr]
        tailer.direction = "forward"
        assert [tailer.read().value for _ in range(2)] == [b"2.2", b"6.0"]  # type: ignore[union-attr]


@clocked(NOON)
def test_seek_cycle_finds_each_cycle_or_the_next_existing_one(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        noon = fill(log, clock)
        for backward in (False, True):
            tailer = log.tailer(direction="backward" if backward else "forward")
            for hour in range(-2, 33):
                found = tailer.seek_cycle(noon + hour)
                assert found is (hour in HOURS), hour
                later = [there for there in HOURS if there >= hour]
                onward = log.tailer(start=tailer.position).read()
                assert (None if onward is None else onward.value) == (
                    b"%d.0" % later[0] if later else None
                )
            assert tailer.direction == ("backward" if backward else "forward")
        assert tailer.seek_cycle(dt.datetime.fromisoformat("2026-11-21T18:59:59+01:00"))
        assert log.tailer(start=tailer.position).read().value == b"6.0"  # type: ignore[union-attr]
        assert not tailer.seek_cycle(dt.date(2026, 11, 22))
        assert log.tailer(start=tailer.position).read().value == b"30.0"  # type: ignore[union-attr]


@clocked(NOON)
def test_counts_of_cycles_equal_the_records_read(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        noon = fill(log, clock)
        with log.claim(4):
            assert log.records_in_cycle(noon + 30) == len(HOURS)  # below the claim
        for reader in (log, commitlog.open(path, "r")):
            counts = [reader.records_in_cycle(noon + hour) for hour in range(-1, 33)]
            assert [count for count in counts if count] == [1, 2, 3, 4, 5, 7]
            assert sum(counts) == reader.count() == len(list(reader.tailer()))
            assert [(cycle.number, cycle.records) for cycle in reader.cycles()] == [
                (noon + hour, count) for hour, count in zip(HOURS, (1, 2, 3, 4, 5, 7), strict=True)
            ]
        reader.close()


@clocked(NOON)
def test_cycle_reports_time_positions_and_completion(clock: Clock, path: Path) -> None:
    with open_log(path, roll_cycle="DAILY") as log:
        log.append(b"today")
        clock.move(86400)
        for _ in range(20):
            log.append(bytes(8000))
        log.flush()
        allocation = parts_of(log).writer.allocation
        assert allocation is not None
        assert allocation.sealed_below() == 3
        today, tomorrow = log.cycles()
        assert (today.start, today.end) == (
            dt.datetime.fromisoformat("2026-11-21T00:00+01:00"),
            tomorrow.start,
        )
        assert (today.over, tomorrow.over) == (True, False)
        assert today.files == (str(path / f"{0:020d}.seg"),)
        assert len(tomorrow.files) == 3
        assert (today.first_position, tomorrow.first_position) == (HEADER, SEGMENT + HEADER)
        assert (today.end_position, tomorrow.end_position) == (SEGMENT, log.tail_position)
        assert (today.bytes, tomorrow.bytes >= 20 * 8016) == (24, True)
        assert (today.records, tomorrow.records) == (1, 20)


@clocked(NOON)
def test_cycles_of_deleted_segments_are_not_listed(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        noon = fill(log, clock)
        log.flush()
        log.delete_before(3 * SEGMENT)
        assert [cycle.number for cycle in log.cycles()] == [noon + hour for hour in HOURS[3:]]
        assert log.records_in_cycle(noon) == 0
        assert not log.tailer().seek_cycle(noon)
        assert log.records_in_cycle(noon + 6) == 4


# --- logs with little in them ---------------------------------------------------------------------


@clocked(NOON)
def test_empty_last_cycle_hides_no_earlier_record(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        log.append(b"first")
        log.append(b"last")
        clock.move(3600)
        with log.claim(5) as claimed:
            position = claimed.position
            raise_in(claimed)
        assert position > SEGMENT
    clock.move(3600)
    for mode in ("a", "r"):
        with open_log(path, mode=mode) if mode == "a" else commitlog.open(path, "r") as log:
            assert log.last_sequence == 1
            assert log.read(log.last_position or 0).value == b"last"
            tailer = log.tailer(direction="backward")
            assert [record.value for record in tailer] == [b"last", b"first"]
            tailer.seek("end")
            assert tailer.read().value == b"last"  # type: ignore[union-attr]
            assert [cycle.records for cycle in log.cycles()][:2] == [2, 0]
    with open_log(path) as log:
        log.append(b"onward")
        assert [record.sequence for record in log.tailer()] == [0, 1, 2]
        assert [cycle.records for cycle in log.cycles()] == [2, 1]


@clocked(NOON)
def test_cycle_without_records_is_not_listed(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        clock.move(3600)
        log.append(b"an hour later")
        assert [(cycle.records, cycle.over) for cycle in log.cycles()] == [(1, False)]
    with commitlog.open(path, "r") as reader:
        assert [cycle.records for cycle in reader.cycles()] == [1]


def raise_in(claimed: Any) -> None:
    """Roll a claim back."""
    claimed.__exit__(ValueError, ValueError(), None)


@clocked(NOON)
def test_log_without_appends_has_one_empty_cycle(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        noon = parts_of(log).directory.cycle_at(clock.now_ns)
    for reader in (open_log(path), commitlog.open(path, "r")):
        assert [
            (cycle.number, cycle.records, cycle.bytes, cycle.over) for cycle in reader.cycles()
        ] == [(noon, 0, 0, False)]
        assert reader.records_in_cycle(noon) == reader.count() == 0
        assert (reader.last_position, reader.last_sequence) == (None, None)
        for direction in ("forward", "backward"):
            tailer = reader.tailer(direction=direction)
            assert tailer.read() is None
            assert not tailer.seek_cycle(noon)
            assert not tailer.seek_cycle(noon - 5)
            assert not tailer.seek_cycle(noon + 5)
            assert tailer.read() is None


def test_log_rolled_by_size_lists_segments_and_refuses_cycles(
    logs: Logs,
) -> None:
    log = logs.open()
    for _ in range(3):
        log.append(b"x")
        log.roll()
    assert [(cycle.number, cycle.records, cycle.over) for cycle in log.cycles()] == [
        (None, 1, True)
    ] * 3 + [(None, 0, False)]
    assert all(
        first.end == second.start
        for first, second in zip(log.cycles(), log.cycles()[1:], strict=False)
    )
    for ask in (log.records_in_cycle, log.tailer().seek_cycle):
        with pytest.raises(InvalidOptionError, match="created without roll_cycle"):
            ask(0)


NAIVE = dt.datetime(2026, 11, 21)  # noqa: DTZ001


@pytest.mark.parametrize("wrong", [True, "today", 1.5, None, 1 << 70, NAIVE], ids=repr)
def test_invalid_cycle_is_refused(tmp_path: Path, wrong: Any) -> None:
    with open_log(tmp_path / "log") as log:
        for ask in (log.records_in_cycle, log.tailer().seek_cycle):
            with pytest.raises(InvalidOptionError, match="^cycle must"):
                ask(wrong)
