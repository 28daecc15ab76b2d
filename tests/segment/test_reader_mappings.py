"""A handle that reads maps few segments, however many it has passed, and none that was deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog
from tests.setups import BY_HAND, Logs


def mapped(log: CommitLog) -> list[str]:
    """Return the segments of a log that this process has mapped, by the lines of the system."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if f"{log.path}/" in line and ".seg" in line]


def fill(log: CommitLog, segments: int) -> None:
    for number in range(segments):
        log.append(b"%d" % number)
        log.roll()


def test_reader_unmaps_deleted_segments(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    with commitlog.open(log.path, "r") as reader, reader.tailer() as tailer:
        for _ in range(4):
            fill(log, 30)
            assert len(list(tailer)) == 30  # ahead of the flush
            log.flush()
            log.delete_before(log.tail_position)
        fill(log, 2)
        assert len(list(tailer)) == 2
        gone = [line for line in mapped(log) if "(deleted)" in line]
        assert len(gone) <= 1


@pytest.mark.wing
def test_watch_of_a_log_keeps_no_segment_mapped(logs: Logs) -> None:
    from commitlog.tools.observe.watching import LogWatch

    """Each look searches for the end of the log."""
    log = logs.open(**BY_HAND, flush="none")
    with LogWatch(log.path) as watch:
        for _ in range(40):
            fill(log, 1)
            watch.look()
        log.flush()
        log.delete_before(log.tail_position)
        watch.look()
        assert [line for line in mapped(log) if "(deleted)" in line] == []
