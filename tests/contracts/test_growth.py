"""Work on one of many segments, tailers, producers or topics does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import commitlog
from commitlog import CommitLog, Retention, Store
from commitlog.keep import archive_segments, prune
from commitlog.log.parts import parts_of
from commitlog.segment import producers_file
from tests.counting import calls_of, counted
from tests.setups import BY_HAND, SEGMENT, Logs

FEW, MANY = 40, 160
# One listing and a few calls are made once, however much there is to do.
SLACK = 1.25


def filled(logs: Logs, segments: int, name: str, **options: Any) -> CommitLog:
    log = logs.open(name, **{**BY_HAND, "allocate_ahead": 1, **options})
    for number in range(segments):
        log.append(b"%d" % number)
        log.roll()
    log.flush()
    log.prune(Retention(max_bytes="1TiB"))  # seals
    return log


def assert_linear(cost_of: Callable[[int], int]) -> None:
    few, many = cost_of(FEW) / FEW, cost_of(MANY) / MANY
    assert many <= few * SLACK


@pytest.mark.parametrize("how", ["delete_before", "prune", "outside", "archive"])
def test_each_deletion_costs_the_same(logs: Logs, tmp_path: Path, how: str) -> None:
    def cost_of(number: int) -> int:
        log = filled(logs, number + 1, str(number))
        everything = Retention(max_bytes=0)
        work: dict[str, Callable[[], object]] = {
            "delete_before": lambda: log.delete_before(log.tail_position),
            "prune": lambda: log.prune(everything),
            "outside": lambda: prune(log.path, everything),
            "archive": lambda: archive_segments(log.path, Store(tmp_path / f"archive {number}")),
        }
        calls = calls_of(work[how])
        assert parts_of(log).directory.segment_numbers()[0] == number
        return calls

    assert_linear(cost_of)


def test_deletions_of_a_log_with_producers_cost_the_same(logs: Logs) -> None:
    """`producers` is read and replaced once for all of them, not for each."""

    def cost_of(number: int) -> int:
        log = filled(logs, number + 1, str(number))
        for name in range(40):
            log.append(b"value", producer=f"producer {name}", producer_sequence=0)
        return calls_of(lambda: log.delete_before(number * SEGMENT))

    assert_linear(cost_of)


def test_retention_of_single_segments_reads_producers_rarely(logs: Logs) -> None:
    log = filled(logs, 80, "log")
    log.append(b"value", producer="a", producer_sequence=0)
    written = []
    with pytest.MonkeyPatch.context() as patch:
        extend = producers_file.extend
        patch.setattr(
            producers_file, "extend", lambda *given: (written.append(given), extend(*given))[1]
        )
        for number in range(1, 65):
            assert len(log.delete_before(number * SEGMENT)) == 1
    assert len(written) <= 4 + 1


def test_each_required_tailer_costs_the_same(logs: Logs) -> None:
    def cost_of(number: int) -> int:
        log = logs.open(str(number), **BY_HAND)
        log.append(b"value")
        tailers = []

        def declare() -> None:
            tailers.extend(
                log.tailer(f"t{each}", required=True, max_lag="1MiB") for each in range(number)
            )

        calls = calls_of(declare)
        for tailer in tailers:
            tailer.close()
        return calls + calls_of(lambda: [log.evict_tailer(f"t{each}") for each in range(number)])

    assert_linear(cost_of)


class Message(msgspec.Struct):
    number: int


@pytest.mark.wing
def test_each_first_append_of_a_topic_costs_the_same(logs: Logs) -> None:
    """The folder is listed for each, but no schema is read again."""

    def cost_of(number: int) -> int:
        log = logs.open(str(number), segment_size="4MiB")

        def append() -> None:
            for each in range(number):
                commitlog.topic(log, Message, name=f"topic-{each}").append(Message(each))

        with counted() as calls:
            append()
        assert calls.pop("listdir") <= 2 * number * number
        return calls.total()

    assert_linear(cost_of)


@pytest.mark.wing
def test_schemas_of_more_topics_than_remembered_are_read_once(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from commitlog.topics import catalog

    monkeypatch.setattr(catalog, "_MOST_KNOWN", 8)
    log = logs.open(segment_size="4MiB")
    for each in range(20):
        commitlog.topic(log, Message, name=f"topic-{each}").append(Message(each))
    with counted() as calls:
        commitlog.topic(log, Message, name="another").append(Message(1))
    assert calls["open"] < 10


@pytest.mark.wing
def test_look_at_a_log_measures_no_old_segment_again(logs: Logs) -> None:
    from commitlog.watching import LogWatch

    def cost_of(number: int) -> int:
        log = filled(logs, number + 1, str(number))
        with LogWatch(log.path) as watch:
            watch.look()
            with counted(here=True) as calls:  # a log allocates ahead in its own time
                disk_bytes = watch.look().disk_bytes
        assert disk_bytes == parts_of(log).directory.whole_disk_bytes()
        return calls.total() - calls.pop("listdir")

    assert cost_of(MANY) <= cost_of(FEW) * SLACK
