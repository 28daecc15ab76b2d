"""The checkpoint: the newer valid one of two records counts, a torn one never does, and its
position never exceeds `flushed`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from commitlog import CommitLog
from commitlog.flush import checkpoint
from commitlog.flush.checkpoint import Checkpoint
from commitlog.log.parts import parts_of
from tests.setups import BY_HAND, HEADER, SEGMENT, Logs, Setup


@pytest.fixture
def log(logs: Logs) -> Iterator[CommitLog]:
    return logs.open(checkpoint_interval=3600, **BY_HAND)


def read(log: CommitLog) -> Checkpoint | None:
    fd = os.open(log.path, os.O_RDONLY)
    try:
        return checkpoint.read(fd, log.identity.uuid)
    finally:
        os.close(fd)


def test_clean_mark_is_set_only_while_the_log_is_closed(log: CommitLog) -> None:
    first = read(log)
    assert first is not None
    assert (first.position, first.clean) == (HEADER, False)
    log.append(b"x")
    log.close()
    assert read(log) == Checkpoint(position=HEADER + 24, clean=True, count=first.count + 1)


def test_records_alternate_between_two_places(log: CommitLog) -> None:
    file = Path(log.path, "checkpoint")
    contents = [file.read_bytes()]
    start = read(log)
    assert start is not None
    for turn in range(1, 5):
        parts_of(log).engine.write_checkpoint(turn * HEADER, False)
        contents.append(file.read_bytes())
        assert read(log) == Checkpoint(
            position=turn * HEADER, clean=False, count=start.count + turn
        )
    half = len(contents[0]) // 2
    for before, after in itertools.pairwise(contents):
        assert (before[:half] == after[:half]) != (before[half:] == after[half:])


def test_torn_checkpoint_leaves_the_previous_one(log: CommitLog) -> None:
    parts_of(log).engine.write_checkpoint(2 * HEADER, False)
    parts_of(log).engine.write_checkpoint(3 * HEADER, False)
    file = Path(log.path, "checkpoint")
    whole = file.read_bytes()
    latest = read(log)
    assert latest is not None
    assert latest.position == 3 * HEADER
    before = Checkpoint(position=2 * HEADER, clean=False, count=latest.count - 1)
    seen = set()
    for offset in range(len(whole)):
        file.write_bytes(whole[:offset] + bytes([whole[offset] ^ 0x10]) + whole[offset + 1 :])
        found = read(log)
        assert found in (before, latest)
        seen.add(found)
    assert seen == {before, latest}
    for length in range(0, len(whole), 64):
        file.write_bytes(whole[:length])
        assert read(log) in (None, before, latest)
    file.write_bytes(whole)


def test_checkpoint_of_another_log_is_ignored(log: CommitLog, logs: Logs) -> None:
    other = logs.open("other")
    other.close()
    Path(log.path, "checkpoint").write_bytes(Path(other.path, "checkpoint").read_bytes())
    assert read(log) is None


def test_checkpoint_never_exceeds_flushed(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(
        setup,
        checkpoint_interval=0.001,
        flush_interval=0.001,
        flush_least_pages=0,
        commit_interval=0.001,
        commit_least_pages=0,
    )
    for turn in range(200):
        log.append(bytes(500), sync=False)
        mark = read(log)
        assert mark is not None
        assert mark.position <= log.flushed_position
        if turn % 20 == 0:
            log.flush()
    assert read(log).count > 1  # type: ignore[union-attr]


def test_idle_log_gets_a_checkpoint_of_all_that_is_flushed(
    logs: Logs, setup: Setup, until: Callable[[Callable[[], bool]], None]
) -> None:
    """The flush that follows at once is within the interval, so only the idle log writes it."""
    log = logs.open_as(setup, checkpoint_interval=0.2, flush_interval=0.01)
    log.append(b"x")
    flushed = log.flush()
    until(lambda: read(log) == Checkpoint(position=flushed, clean=False, count=read(log).count))  # type: ignore[union-attr]


def settled(log: CommitLog) -> Checkpoint:
    parts_of(log).engine.settle_checkpoint(log.flushed_position)
    found = read(log)
    assert found is not None
    return found


def test_settled_checkpoint_is_written_once(logs: Logs) -> None:
    log = logs.open(flush="none", checkpoint_interval=3600, **BY_HAND)
    log.append(b"x")
    log.flush()
    first = settled(log)
    assert [settled(log) for _ in range(3)] == [first] * 3
    log.append(b"x")
    log.flush()
    assert settled(log).position == first.position + 24


def test_handles_of_one_log_write_one_checkpoint(logs: Logs) -> None:
    """A handle that knows an older count writes a record that is in force all the same."""
    options = {"flush": "none", "checkpoint_interval": 3600, **BY_HAND}
    log, other = logs.open(**options), logs.open(**options)
    for _ in range(5):
        log.append(b"x")
        log.flush()
        found = settled(log)
        assert settled(other) == found
    other.append(b"x")
    flushed = other.flush()
    assert settled(other).position == flushed
    assert settled(log) == settled(other)


def test_deletion_writes_the_checkpoint_first(logs: Logs) -> None:
    log = logs.open(checkpoint_interval=3600, **BY_HAND)
    while log.tail_position < 4 * SEGMENT:
        log.append(bytes(5000))
    log.flush()
    assert read(log).position == HEADER  # type: ignore[union-attr]
    assert log.delete_before(3 * SEGMENT)
    assert read(log).position == log.flushed_position  # type: ignore[union-attr]
