"""Joins of staged segments, a follower's copy, restored logs, and a log with its store."""

from __future__ import annotations

import contextlib
import select
import shutil
import time
from pathlib import Path

import pyarrow as pa

import commitlog
from commitlog import CommitLog, Options, Store
from commitlog.errors import CommitLogError
from commitlog.keep import restore
from commitlog.replication import follow, promote, serve
from commitlog.stage.joining import join
from commitlog.stage.staging import StagingWriter
from tests.faults.device.checks import (
    DELETED,
    FLUSHED,
    Found,
    check_log,
    check_records,
    check_sound,
    found_in,
    read,
)
from tests.faults.device.diary import Diary, Story
from tests.faults.device.workload import Place, Workload
from tests.faults.writers import APPENDED, OPENED, SEGMENT_SIZE, value_of

DONE, STORED = "J", "S"
_LIMIT_S = 30.0


# --- joins ----------------------------------------------------------------------------------------

_JOINS, _IN_A_JOIN = 12, 400


def _join(place: Place, number: int) -> int:
    """Stage a batch on the device and join it; return where it ends."""
    values = [value_of(number, index) for index in range(_IN_A_JOIN)]
    joined = join(
        place.disk / "log",
        _stage(place, number, values),
        query="q",
        batch=number,
        options=Options(segment_size=SEGMENT_SIZE),
    )
    return joined.end_position


def _stage(place: Place, number: int, values: list[bytes]) -> list[str]:
    writer = StagingWriter(str(place.disk / f"staged-{number}"), SEGMENT_SIZE)
    writer.write(pa.RecordBatch.from_pydict({"value": values}))
    return writer.finish()


def _write_joins(diary: Diary, place: Place, number: int) -> None:
    for each in range(_JOINS):
        end = _join(place, each)
        diary.say(DONE, 0, each, end)


def _check_joins(place: Place, story: Story) -> int:
    """Check that each join is there whole or not at all, and that the next ones add the rest."""
    folder, last = place.disk / "log", story.last(DONE)
    done = 0 if last is None else last.index + 1
    _finish_join(folder, expected=done > 0)
    found = read(folder) if (folder / "log.json").exists() else []
    joins = {each.mark.session for each in found}
    assert len(joins) in (done, done + 1), f"{done} joins had returned, {len(joins)} are there"
    _check_joined(found, len(joins))
    for number in range(max(0, done - 1), done + 2):
        shutil.rmtree(place.disk / f"staged-{number}", ignore_errors=True)
        _join(place, number)
    _check_joined(read(folder), done + 2)
    check_sound(folder)
    return done * _IN_A_JOIN


def _finish_join(folder: Path, *, expected: bool) -> None:
    with contextlib.suppress(() if expected else CommitLogError):
        check_sound(folder)
        commitlog.open(folder, segment_size=SEGMENT_SIZE).close()
        check_sound(folder)


def _check_joined(found: list[Found], joins: int) -> None:
    expected = [(number, index) for number in range(joins) for index in range(_IN_A_JOIN)]
    assert [each.mark for each in found] == expected


# --- a follower's copy ----------------------------------------------------------------------------

_FOLLOWED = 500


def _serve(diary: Diary, place: Place, number: int) -> None:
    """Append on another machine; a record counts when the copy on the device has it durably."""
    path = place.beside / "log"
    log = commitlog.open(path, segment_size=SEGMENT_SIZE, flush="sync")
    with log, serve(path) as server:
        (place.beside / "url.new").write_text(server.url("log"))
        (place.beside / "url.new").rename(place.beside / "url")
        for index in range(_FOLLOWED):
            position = log.append(value_of(0, index), sync=index % 5 == 0)
            diary.say(APPENDED, 0, index, position)
            if index % 5 == 0:
                assert server.wait_replicated(position, copies=1, timeout=_LIMIT_S)
                diary.say(FLUSHED, 0, index, position + 1)
        (place.beside / "enough").touch()


def _follow(diary: Diary, place: Place, number: int) -> None:
    """Follow, and begin anew some times."""
    while not (place.beside / "url").exists():
        select.select([], [], [], 0.01)
    url = (place.beside / "url").read_text()
    turn = 0
    while not (place.beside / "enough").exists():
        with follow(url, place.disk / "copy", name="copy"):
            diary.say(OPENED, 1, turn)
            began = time.monotonic()
            while time.monotonic() - began < 0.5 and not (place.beside / "enough").exists():
                select.select([], [], [], 0.01)
        turn += 1


def _check_copy(place: Place, story: Story) -> int:
    """Check what a reader of the copy finds, promote the copy, and append to it."""
    folder = place.disk / "copy"
    exists = story.last(OPENED) is not None
    with contextlib.suppress(() if exists else CommitLogError):
        check_sound(folder)
        before = read(folder)
        promised = check_records(before, story)
        promote(folder)
        assert read(folder) == before
        assert check_log(folder, story) == promised
        return promised
    return 0


# --- restored logs --------------------------------------------------------------------------------

_RESTORED, _RESTORES = 900, 8


def _prepare_store(place: Place) -> None:
    """Store a log on another machine."""
    with commitlog.open(
        place.beside / "log", segment_size=SEGMENT_SIZE, store=Store(place.beside / "store")
    ) as log:
        log.append_many([value_of(0, index) for index in range(_RESTORED)])


def _write_restores(diary: Diary, place: Place, number: int) -> None:
    for turn in range(_RESTORES):
        folder = place.disk / f"restored-{turn}"
        restore(place.beside / "store", folder)
        diary.say(DONE, 0, turn)
        with commitlog.open(folder, flush="sync") as log:
            for index in range(10):
                diary.say(APPENDED, turn + 1, index, log.append(value_of(turn + 1, index)))


def _check_restores(place: Place, story: Story) -> int:
    """Check that each restored log is whole, and that one that was not finished is none."""
    stored = read(place.beside / "log")
    last = story.last(DONE)
    done = 0 if last is None else last.index + 1
    promised = 0
    for turn in range(_RESTORES):
        folder = place.disk / f"restored-{turn}"
        if turn >= done and not (folder / "log.json").exists():
            if turn == done:
                shutil.rmtree(folder, ignore_errors=True)
                restore(place.beside / "store", folder)
                assert read(folder) == stored
            continue
        assert turn <= done, f"{folder.name} is there, and was not begun"
        told = [report for report in story.kinds(APPENDED) if report.session == turn + 1]
        promised += _check_restored(folder, stored, len(told)) if turn < done else 0
    return promised


def _check_restored(folder: Path, stored: list[Found], told: int) -> int:
    check_sound(folder)
    before = read(folder)
    assert before[: len(stored)] == stored
    with commitlog.open(folder) as log:
        assert found_in(log) == before
    assert told <= len(before) - len(stored) <= told + 1 or told == 10
    check_sound(folder)
    return len(stored) + told


# --- a log with a store ---------------------------------------------------------------------------

_IN_STORE = 1500


def _store(place: Place) -> Store:
    return Store(place.disk / "store", every=0.02)


def _stored_log(place: Place) -> CommitLog:
    return commitlog.open(
        place.disk / "log", segment_size=SEGMENT_SIZE, flush="async", store=_store(place)
    )


def _store_log(diary: Diary, place: Place, number: int) -> None:
    """Append to a log with a store on the same device, from two handles; delete what is stored."""
    for turn in range(2):
        with _stored_log(place) as log:
            diary.say(OPENED, 0, turn)
            for index in range(turn * _IN_STORE // 2, (turn + 1) * _IN_STORE // 2):
                diary.say(APPENDED, 0, index, log.append(value_of(0, index)))
                if index % 50 == 49:
                    diary.say(FLUSHED, 0, index, log.flush())
                if index % 150 == 149:
                    diary.say(STORED, 0, index, _await_store(log))
                    log.delete_before(log.tail_position)
                    first = log.first_position // SEGMENT_SIZE * SEGMENT_SIZE
                    diary.say(DELETED, 0, index, first)


def _await_store(log: CommitLog) -> int:
    """Wait until the store has what is flushed now; return where that ends."""
    end, deadline = log.flushed_position, time.monotonic() + _LIMIT_S
    while True:
        stats = log.stats().store
        assert stats is not None
        assert stats.last_error is None, stats
        if stats.position >= end:
            return end
        assert time.monotonic() < deadline, f"the store ends at {stats.position}, not {end}"
        select.select([], [], [], 0.01)


def _check_store(place: Place, story: Story) -> int:
    """Check that store and log together have all, and that the log goes on with the store."""
    folder, stored = place.disk / "log", story.last(STORED)
    in_store = _read_store(place, stored.position if stored else 0, story)
    return check_log(folder, story) if not in_store else _check_stored_log(place, story)


def _read_store(place: Place, stored: int, story: Story) -> list[Found]:
    """Return the records of the store, which has what it acknowledged."""
    found: list[Found] = []
    with contextlib.suppress(() if stored else CommitLogError):
        check_sound(place.disk / "store")
        found = read(place.disk / "store")
    at = {each.position: each.mark for each in found}
    for report in story.kinds(APPENDED):
        if report.position < stored:
            assert at.get(report.position) == (0, report.index), report
    return found


def _check_stored_log(place: Place, story: Story) -> int:
    folder = place.disk / "log"
    check_sound(folder)
    before = read(folder)
    promised = check_records(before, story)
    with commitlog.open(folder, "r", store=_store(place)) as log:
        whole = found_in(log)
    assert whole[0].sequence == 0, f"store and log together begin at {whole[0]}"
    assert whole[len(whole) - len(before) :] == before
    with _stored_log(place) as log:
        assert found_in(log) == before
        log.append(value_of(0, whole[-1].mark.index + 1))
        log.flush()
        _await_store(log)
        log.commit()
        end = found_in(log)[-1]
    restore(place.disk / "store", place.disk / "restored")
    assert read(place.disk / "restored") == [*whole, end]
    check_sound(folder)
    return promised


WORKLOADS = (
    Workload("join", (_write_joins,), _check_joins),
    Workload("follower", (_serve, _follow), _check_copy),
    Workload("restore", (_write_restores,), _check_restores, _prepare_store),
    Workload("store", (_store_log,), _check_store),
)
