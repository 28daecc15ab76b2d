"""Deletions, checkpoints of an idle log, and clean closes."""

from __future__ import annotations

import json
import select
from pathlib import Path
from uuid import UUID

import commitlog
from commitlog import CommitLog, Retention
from commitlog._kernel.memory import read_checkpoint
from commitlog.keep import verify
from tests.faults.device.checks import DELETED, FLUSHED, check_log
from tests.faults.device.diary import Diary, Story
from tests.faults.device.workload import Place, Workload, Write
from tests.faults.device.workloads.appending import QUICK, check, opened
from tests.faults.writers import APPENDED, OPENED, close_log, open_log, value_of

BEGUN, CLOSED, SETTLED = "B", "C", "K"
# A checkpoint is durable `checkpoint_interval` and a second after a flush; thrice that.
_SETTLE_S = 3.0
_MAPPED = "mapped"


def _append(log: CommitLog, diary: Diary, index: int) -> int:
    position = log.append(value_of(0, index))
    diary.say(APPENDED, 0, index, position)
    return position


def _first_segment(log: CommitLog) -> int:
    return log.first_position // log.segment_size * log.segment_size


def _delete_before(diary: Diary, place: Place, number: int) -> None:
    log = opened(place, diary, _MAPPED, flush="async")
    for index in range(2500):
        _append(log, diary, index)
        if index % 100 == 99:
            diary.say(FLUSHED, 0, index, log.flush())
        if index % 400 == 399:
            log.delete_before(log.tail_position - 2 * log.segment_size)
            diary.say(DELETED, 0, index, _first_segment(log))


def _retain(kind: str) -> Write:
    """Let retention delete; `prune` says when a deletion is durable, the service does not."""

    def write(diary: Diary, place: Place, number: int) -> None:
        rule = Retention(max_bytes="512KiB", interval=0.05)
        log = opened(place, diary, kind, flush="async", retention=rule)
        for index in range(2500):
            _append(log, diary, index)
            if index % 50 == 49:
                diary.say(FLUSHED, 0, index, log.flush())
            if index % 500 == 499:
                log.prune(rule)
                diary.say(DELETED, 0, index, _first_segment(log))
        log.delete_before(log.tail_position)
        diary.say(DELETED, 0, 2500, _first_segment(log))

    return write


def _idle(diary: Diary, place: Place, number: int) -> None:
    """Append bursts, and do nothing behind each until its checkpoint must be durable."""
    log = opened(place, diary, _MAPPED, flush="async")
    for burst in range(3):
        for index in range(burst * 60, burst * 60 + 60):
            _append(log, diary, index)
        end = log.flush()
        diary.say(FLUSHED, 0, burst, end)
        select.select([], [], [], _SETTLE_S)
        diary.say(SETTLED, 0, burst, end)


def _check_idle(place: Place, story: Story) -> int:
    """Check that the checkpoint covers what was flushed before the log was idle."""
    folder, settled = place.disk / "log", story.last(SETTLED)
    if settled is not None:
        uuid = UUID(json.loads((folder / "log.json").read_text())["uuid"]).bytes
        found = read_checkpoint((folder / "checkpoint").read_bytes(), uuid)
        assert found is not None
        assert found[0] >= settled.position, f"the checkpoint is {found}, not {settled.position}"
    return check_log(folder, story)


def _close(diary: Diary, place: Place, number: int) -> None:
    """Open, append and close; the close makes all durable, with a mark that it was clean."""
    for turn, kind in enumerate(("mapped", "pooled", "shm") * 4):
        diary.say(BEGUN, 0, turn)
        options = QUICK | {"flush": "none" if turn % 2 else "async"}
        pool = {"mapped": None, "pooled": {}, "shm": {"backing": "shm"}}[kind]
        log, made = open_log(str(place.disk / "log"), pool, options)
        diary.say(OPENED, 0, turn, log.tail_position)
        for index in range(turn * 70, turn * 70 + 70):
            _append(log, diary, index)
        end = log.tail_position
        close_log(log, made)
        diary.say(FLUSHED, 0, turn, end)
        diary.say(CLOSED, 0, turn, end)


def _check_close(place: Place, story: Story) -> int:
    """Check that a log that was closed is clean, and ends where it ended."""
    folder, closed = place.disk / "log", story.last(CLOSED)
    begun = max((each.index for each in story.followed if each.kind == BEGUN), default=0)
    if closed is not None and begun == closed.index:
        _check_clean(folder, closed.position)
    return check_log(folder, story)


def _check_clean(folder: Path, end: int) -> None:
    report = verify(folder)
    assert report.clean, report
    assert report.torn is None, report
    with commitlog.open(folder, "r") as log:
        assert log.tail_position == end


WORKLOADS = (
    Workload("delete-before", (_delete_before,), check),
    Workload("retention-mapped", (_retain("mapped"),), check),
    Workload("retention-pooled", (_retain("pooled"),), check),
    Workload("idle", (_idle,), _check_idle),
    Workload("close", (_close,), _check_close),
)
