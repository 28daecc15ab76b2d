"""Appends that wait for the device, and appends that a flush makes durable later."""

from __future__ import annotations

import threading
from typing import Any

from commitlog import CommitLog
from tests.faults.device.checks import FLUSHED, check_log
from tests.faults.device.diary import Diary, Story
from tests.faults.device.workload import Place, Workload, Write
from tests.faults.writers import APPENDED, OPENED, open_log, value_of

QUICK = {
    "flush_interval": 0.005,
    "flush_least_pages": 0,
    "checkpoint_interval": 0.02,
    "commit_interval": 0.002,
}
POOLS: dict[str, dict[str, Any] | None] = {"mapped": None, "pooled": {}, "shm": {"backing": "shm"}}
_SYNCED, _FLUSHED, _THREADS = 400, 2500, 4


def check(place: Place, story: Story) -> int:
    """Check the one log on the device."""
    return check_log(place.disk / "log", story)


def opened(place: Place, diary: Diary, kind: str, **options: Any) -> CommitLog:
    log, _ = open_log(str(place.disk / "log"), POOLS[kind], QUICK | options)
    diary.say(OPENED, 0, 0, log.tail_position)
    return log


def append_synced(log: CommitLog, diary: Diary, session: int, count: int) -> None:
    """Append records that are durable when the call returns."""
    for index in range(count):
        position = log.append(value_of(session, index))
        diary.say(APPENDED, session, index, position)
        diary.say(FLUSHED, session, index, position + 1)


def _sync_one(kind: str) -> Write:
    def write(diary: Diary, place: Place, number: int) -> None:
        append_synced(opened(place, diary, kind, flush="sync"), diary, 0, _SYNCED)

    return write


def _sync_threads(diary: Diary, place: Place, number: int, kind: str = "mapped") -> None:
    log = opened(place, diary, kind, flush="sync")
    threads = [
        threading.Thread(
            target=append_synced, args=(log, diary, number * 10 + index, _SYNCED // _THREADS)
        )
        for index in range(_THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _group(diary: Diary, place: Place, number: int) -> None:
    """Append batches of which each waits for one flush."""
    log = opened(place, diary, "mapped", flush="sync")

    def append(session: int) -> None:
        index = 0
        while index < _SYNCED:
            count = 1 + index % 17
            values = [value_of(session, index + step) for step in range(count)]
            positions = log.append_many(values).tolist()
            for step, position in enumerate(positions):
                diary.say(APPENDED, session, index + step, position)
            diary.say(FLUSHED, session, index, positions[-1] + 1)
            index += count

    threads = [threading.Thread(target=append, args=(session,)) for session in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _async(kind: str) -> Write:
    def write(diary: Diary, place: Place, number: int) -> None:
        log = opened(place, diary, kind, flush="async")
        for index in range(_FLUSHED):
            diary.say(APPENDED, 0, index, log.append(value_of(0, index)))
            if index % 100 == 99:
                diary.say(FLUSHED, 0, index, log.flush())
            elif index % 10 == 0:
                diary.say(FLUSHED, 0, index, log.flushed_position)

    return write


def _roll(diary: Diary, place: Place, number: int) -> None:
    """Roll after every few records, by hand; the tail moves into segments made ahead or not."""
    log = opened(place, diary, "mapped", flush="sync", allocate_ahead=number)
    for index in range(160):
        position = log.append(value_of(number, index))
        diary.say(APPENDED, number, index, position)
        diary.say(FLUSHED, number, index, position + 1)
        if index % 5 == 0:
            log.roll()


WORKLOADS = (
    *(Workload(f"sync-{kind}", (_sync_one(kind),), check) for kind in POOLS),
    Workload("sync-threads", (_sync_threads,), check),
    Workload("sync-processes", (_sync_threads, _sync_threads), check),
    Workload("group-commit", (_group,), check),
    *(Workload(f"flush-{kind}", (_async(kind),), check) for kind in POOLS),
    Workload("roll", (_roll, _roll), check),
)
