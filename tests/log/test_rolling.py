"""Roll cycles: what ends a cycle, agreement between processes, wrong clocks, and disk usage."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import commitlog
from commitlog import CommitLog, TransientStorePool
from commitlog._kernel.segments import read_opened
from commitlog.errors import InvalidOptionError, TailerLagError
from commitlog.log.parts import parts_of
from tests.clock import Clock, clocked, instant_ns

SEGMENT = 1 << 20
NOON = "2026-11-21T12:00:00+01:00"


def open_log(path: Path, **options: Any) -> CommitLog:
    cycle = commitlog.RollCycle(options.pop("roll_cycle", "HOURLY"), time_zone="Europe/Berlin")
    return commitlog.open(path, **{"roll_cycle": cycle, "segment_size": SEGMENT} | options)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 50
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def cycles_of(log: CommitLog) -> list[tuple[int, list[bytes]]]:
    """Return each cycle that the segment headers name, with the values of its segment."""
    found = []
    for number in parts_of(log).queue.numbers():
        page = Path(parts_of(log).directory.segment_path(number)).read_bytes()[:4096]
        opened = read_opened(page)
        if opened is not None:
            start, stop = number * log.segment_size, (number + 1) * log.segment_size
            values = [
                record.value
                for record in log.tailer(visibility="appended")
                if start <= record.position < stop
            ]
            assert opened[1] == parts_of(log).directory.cycle_clock.number_at(opened[0])  # type: ignore[union-attr]
            found.append((opened[1], values))
    return found


# --- what ends a cycle ----------------------------------------------------------------------------


@clocked(NOON)
def test_first_append_after_a_cycle_ends_begins_a_segment(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        log.append(b"noon")
        clock.set("2026-11-21T12:59:59.999+01:00")
        log.append(b"the last moment")
        clock.set("2026-11-21T13:00+01:00")
        log.append(b"one")
        noon = parts_of(log).directory.cycle_at(instant_ns(NOON))
        assert cycles_of(log) == [(noon, [b"noon", b"the last moment"]), (noon + 1, [b"one"])]
        assert log.tail_position > SEGMENT


APPENDS: dict[str, Callable[[CommitLog], object]] = {
    "append": lambda log: log.append(b"late"),
    "append with a key": lambda log: log.append(b"late", key=b"k", sync=True),
    "append with a timestamp": lambda log: log.append(b"late", timestamp_ns=1),
    "append_many": lambda log: log.append_many([b"late"]),
    "append_many with a timestamp": lambda log: log.append_many([b"late"], timestamp_ns=1),
    "append_array": lambda log: log.append_array(np.frombuffer(b"late", np.uint8).reshape(1, 4)),
    "append_array with a timestamp": lambda log: log.append_array(
        np.frombuffer(b"late", np.uint8).reshape(1, 4), timestamp_ns=1
    ),
    "claim": lambda log: claim(log, b"late"),
    "claim with a timestamp": lambda log: claim(log, b"late", timestamp_ns=1),
}


def claim(log: CommitLog, value: bytes, **options: Any) -> None:
    with log.claim(len(value), **options) as claimed:
        claimed.buffer[:] = value


@pytest.mark.parametrize("pooled", [False, True])
@clocked(NOON)
def test_every_kind_of_append_rolls_at_the_end_of_a_cycle(
    clock: Clock, path: Path, pooled: bool
) -> None:
    with contextlib.ExitStack() as stack:
        pool = (
            stack.enter_context(
                TransientStorePool(buffers=3, buffer_size=SEGMENT, lock_memory="off", low_water=0)
            )
            if pooled
            else None
        )
        log = stack.enter_context(open_log(path, pool=pool, flush="none"))
        log.append(b"first")
        for append in APPENDS.values():
            clock.move(3600)
            append(log)
        found = cycles_of(log)
        assert [values for _, values in found] == [[b"first"]] + [[b"late"]] * len(APPENDS)
        assert [cycle - found[0][0] for cycle, _ in found] == list(range(len(APPENDS) + 1))


@pytest.mark.wing
@clocked(NOON)
def test_bus_message_rolls_at_the_end_of_a_cycle(clock: Clock, path: Path) -> None:
    from commitlog import bus

    open_log(path).close()
    with bus.writer(path) as writer:
        writer.write(b"first")
        clock.move(3600)
        writer.write(b"late")
        assert [values for _, values in cycles_of(writer.log)] == [[b"first"], [b"late"]]


@clocked(NOON)
def test_given_timestamp_does_not_decide_the_cycle(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        for hours in range(-30, 30):
            log.append(b"x", timestamp_ns=clock.now_ns + hours * 3600 * 10**9)
        assert parts_of(log).queue.numbers()[0] == 0
        assert len(cycles_of(log)) == 1


@clocked(NOON)
def test_cycle_larger_than_a_segment_spans_several_segments(clock: Clock, path: Path) -> None:
    with open_log(path, segment_size=65536) as log:
        for number in range(100):
            log.append(b"%04d" % number * 1000)
        clock.move(3600)
        log.append(b"next")
        found = cycles_of(log)
        assert len(found) > 6
        assert len({cycle for cycle, _ in found[:-1]}) == 1
        assert found[-1] == (found[0][0] + 1, [b"next"])


@clocked("2026-10-24T22:30:00Z")
def test_daily_cycle_at_clock_change_has_23_or_25_hours(clock: Clock, path: Path) -> None:
    """The day on which Berlin's clocks go back has 25 hours."""
    with open_log(path, roll_cycle="DAILY") as log:
        for hour in range(27):
            log.append(b"%d" % hour)
            clock.move(3600)
        assert [(cycle, len(values)) for cycle, values in cycles_of(log)] == [
            (20751, 25),
            (20752, 2),
        ]
    clock.set("2027-03-27T23:30:00Z")
    with open_log(path, roll_cycle="DAILY") as log:
        for hour in range(25):
            log.append(b"%d" % hour)
            clock.move(3600)
        assert [(cycle, len(values)) for cycle, values in cycles_of(log)][2:] == [
            (20905, 23),
            (20906, 2),
        ]


# --- clocks that are wrong ------------------------------------------------------------------------


@clocked(NOON)
def test_clock_stepping_back_never_reopens_a_sealed_cycle(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        log.append(b"noon")
        clock.move(3 * 3600)
        log.append(b"three")
        clock.set(NOON)
        for _ in range(3):
            log.append(b"noon again")
        log.roll()
        log.append(b"in a segment of its own")
    with open_log(path) as log:
        log.append(b"and in another process's life")
        clock.move(3 * 3600)
        log.append(b"three again")
        clock.move(3600)
        log.append(b"four")
        noon = parts_of(log).directory.cycle_at(instant_ns(NOON))
        assert cycles_of(log) == [
            (noon, [b"noon"]),
            (noon + 3, [b"three"] + [b"noon again"] * 3),
            (
                noon + 3,
                [b"in a segment of its own", b"and in another process's life", b"three again"],
            ),
            (noon + 4, [b"four"]),
        ]


# --- open claims, several processes ---------------------------------------------------------------


@clocked(NOON)
def test_roll_with_an_open_claim_keeps_the_order(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        log.append(b"first")
        with log.claim(6) as claimed:
            clock.move(3600)
            log.append(b"after the roll")
            assert [record.value for record in log.tailer()] == [b"first"]
            assert parts_of(log).writer.allocation is not None
            assert parts_of(log).writer.allocation.sealed_below() == 0
            claimed.buffer[:] = b"second"
        assert [record.value for record in log.tailer()] == [b"first", b"second", b"after the roll"]
        assert [values for _, values in cycles_of(log)] == [
            [b"first", b"second"],
            [b"after the roll"],
        ]
        assert parts_of(log).writer.allocation.sealed_below() == 1


def _append_each_hour(path: str, hours: int, count: int, barrier: Any, name: bytes) -> None:
    with open_log(Path(path)) as log:
        for hour in range(hours):
            barrier.wait()  # the clock is set
            for number in range(count):
                log.append(b"%d %s %d" % (hour, name, number))
            barrier.wait()


@clocked(NOON)
def test_several_processes_roll_once_per_cycle(clock: Clock, path: Path) -> None:
    writers, hours, count = 3, 8, 50
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(writers + 1, timeout=50)
    open_log(path).close()
    children = [
        context.Process(
            target=_append_each_hour, args=(str(path), hours, count, barrier, b"writer %d" % number)
        )
        for number in range(writers)
    ]
    for child in children:
        child.start()
    for _ in range(hours):
        clock.move(3600)
        barrier.wait()
        barrier.wait()
    for child in children:
        child.join()
        assert child.exitcode == 0
    with open_log(path) as log:
        found = [(cycle, values) for cycle, values in cycles_of(log) if values]
        assert [cycle - found[0][0] for cycle, _ in found] == list(range(hours))
        for hour, (_, values) in enumerate(found):
            assert len(values) == writers * count
            assert all(value.startswith(b"%d " % hour) for value in values)


@clocked(NOON)
def test_forked_child_rolls_at_the_end_of_a_cycle(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        log.append(b"parent")
        clock.move(3600)
        child = os.fork()
        if child == 0:
            log.append(b"child")
            log.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        log.append(b"parent again")
        assert [values for _, values in cycles_of(log)] == [
            [b"parent"],
            [b"child", b"parent again"],
        ]


# --- idle logs, reopened logs ---------------------------------------------------------------------


@clocked(NOON)
def test_cycle_ends_while_appends_wait_for_a_required_tailer(clock: Clock, path: Path) -> None:
    with open_log(path, on_lag="raise") as log:
        log.tailer("slow", required=True, max_lag=1).close()
        log.append(b"noon")
        with pytest.raises(TailerLagError):
            log.append(b"too far ahead")
    with open_log(path, on_lag="raise") as log:
        clock.move(3600)
        until(lambda: parts_of(log).queue.get(0).segment.sealed() is not None)
        with pytest.raises(TailerLagError):
            log.append(b"too far ahead")


@clocked(NOON)
def test_idle_log_seals_its_segment_at_the_end_of_a_cycle(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        log.append(b"noon")
        clock.move(3600)
        until(lambda: parts_of(log).queue.get(0).segment.sealed() is not None)
        assert parts_of(log).writer.allocation is not None
        for _ in range(5):
            clock.move(7 * 3600)
            parts_of(log).writer.allocation._round()
        log.append(b"after midnight")
        assert [values for _, values in cycles_of(log)] == [[b"noon"], [b"after midnight"]]


@clocked(NOON)
def test_reopening_after_a_cycle_seals_the_old_segment(clock: Clock, path: Path) -> None:
    with open_log(path) as log:
        log.append(b"noon")
    clock.move(50 * 3600)
    with open_log(path) as log:
        until(lambda: parts_of(log).queue.get(0).segment.sealed() is not None)
    clock.move(50 * 3600)
    with open_log(path) as log:
        log.append(b"days later")
        noon = parts_of(log).directory.cycle_at(instant_ns(NOON))
        assert cycles_of(log) == [(noon, [b"noon"]), (noon + 100, [b"days later"])]
        assert log.count() == 2


@clocked(NOON)
def test_skipped_cycles_leave_no_file(clock: Clock, path: Path) -> None:
    with open_log(path, tuning=commitlog.Tuning(allocate_ahead=0)) as log:
        for hours in (1, 24, 24 * 365):
            clock.move(hours * 3600)
            log.append(b"x")
            log.append(b"x")
        # three cycles, and the first segment of the log
        assert len(parts_of(log).queue.numbers()) == 4


@clocked(NOON)
def test_early_roll_returns_unused_blocks_to_the_disk(clock: Clock, path: Path) -> None:
    def allocated(number: int) -> int:
        return os.stat(parts_of(log).directory.segment_path(number)).st_blocks * 512

    with open_log(path) as log:
        log.append(b"noon")
        # The rolled-back claim becomes a SKIP behind the last record.
        with contextlib.suppress(KeyError), log.claim(3 * 4096):
            raise KeyError
        assert allocated(0) == SEGMENT
        clock.move(3600)
        log.append(b"one")
        log.flush()
        until(lambda: allocated(0) < SEGMENT // 8)
        assert os.stat(parts_of(log).directory.segment_path(0)).st_size == SEGMENT
        assert allocated(1) == SEGMENT
        clock.move(3600)
        log.append(b"two")
    # Blocks that a process did not return before it ended are returned by the next open.
    for number in range(2):
        with open(path / f"{number * SEGMENT:020d}.seg", "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, SEGMENT)
    with open_log(path) as log:
        until(lambda: allocated(0) < SEGMENT // 8 and allocated(1) < SEGMENT // 8)
        assert [record.value for record in log.tailer()] == [b"noon", b"one", b"two"]


# --- what a log is created with -------------------------------------------------------------------


def test_differing_roll_cycle_is_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    cycle = commitlog.RollCycle("daily", time_zone="Europe/Berlin", epoch="6h")
    commitlog.open(path, segment_size=SEGMENT, roll_cycle=cycle).close()
    for other in (
        "HOURLY",
        commitlog.RollCycle("DAILY", epoch="6h"),
        commitlog.RollCycle("DAILY", time_zone="Europe/Berlin"),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING), commitlog.open(path, roll_cycle=other) as log:
            assert str(log.identity.roll_cycle) == "DAILY (Europe/Berlin, epoch 21600 s)"
        (said,) = [message for message in caplog.messages if "roll_cycle" in message]
        assert "created with DAILY (Europe/Berlin, epoch 21600 s)" in said
    caplog.clear()
    with caplog.at_level(logging.WARNING), commitlog.open(path), commitlog.open(path, "r"):
        assert not [message for message in caplog.messages if "roll_cycle" in message]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"roll_cycle": "DAYLY"}, "one of MINUTELY, .*did you mean 'DAILY'"),
        ({"roll_cycle": 0}, "roll_cycle must be one of"),
        ({"roll_cycle": "5ms"}, "from 10 ms to 366 days"),
        ({"roll_cycle": float("nan")}, "roll_cycle must be one of"),
        ({"roll_cycle": None, "time_zone": "UTC"}, "there is no option 'time_zone'"),
    ],
    ids=str,
)
def test_invalid_roll_cycle_is_refused(
    tmp_path: Path, options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InvalidOptionError, match=expected):
        commitlog.open(tmp_path / "log", **options)
    assert not (tmp_path / "log").exists()
