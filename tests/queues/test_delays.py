"""Jobs that are put with a delay."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import commitlog
from commitlog.errors import (
    DiskFullError,
    InvalidOptionError,
    IOFailureError,
    PositionError,
    RecordTooLargeError,
    RecordTypeError,
)
from commitlog.queues.delayed_log import DelayedJob, DelayedLog
from commitlog.queues.delays import _Mover
from commitlog.queues.due_index import DueIndex
from tests.steps import die_at, replace_hook


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_delayed_job_comes_when_it_is_due(path: Path) -> None:
    with commitlog.queue(path, "jobs") as queue:
        before = time.time_ns()
        headers = {"trace": b"7"}
        assert queue.put(b"late", key=b"k", type=3, headers=headers, after="60ms") == -1
        queue.put(b"now")
        assert queue.take(0).value == b"now"
        job = queue.take("30s")
        assert (job.value, job.key, job.type, job.headers) == (b"late", b"k", 3, headers)
        tick_ns = 10_000_000  # the time of a record is that of the last tick
        assert job.record.timestamp_ns - before >= 60_000_000 - tick_ns


def test_time_that_has_passed_is_now(path: Path) -> None:
    with commitlog.queue(path, "jobs") as queue:
        queue.put(b"a", at="2020-01-01")
        assert queue.take("30s").value == b"a"


@pytest.mark.parametrize(
    "when",
    [
        {"after": -1},
        {"after": "soon"},
        {"at": "never"},
        {"at": dt.datetime(2030, 1, 1)},  # noqa: DTZ001
        {"at": -5},
        {"after": 1, "at": 5},
    ],
)
def test_invalid_time_is_refused(path: Path, when: dict[str, object]) -> None:
    with commitlog.queue(path, "jobs") as queue, pytest.raises(InvalidOptionError):
        queue.put(b"a", **when)  # type: ignore[arg-type]


def test_delayed_job_that_fits_no_record_is_refused(path: Path) -> None:
    with (
        commitlog.queue(path, "jobs", segment_size="64KiB") as queue,
        pytest.raises(RecordTooLargeError),
    ):
        queue.put(b"x" * 60_000, after=1)


def test_delayed_job_outlives_its_process(path: Path, until: Callable[..., None]) -> None:
    with commitlog.queue(path, "jobs") as queue:
        queue.put(b"a", after="100ms")
    with commitlog.queue(path, "jobs") as queue:
        assert queue.take("30s").value == b"a"
        assert queue.take_many(1, "300ms") == []


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.long)])
def test_kill_at_a_step_of_a_move_repeats_no_job(tmp_path: Path, stride: int) -> None:
    step, is_killed = 2 - stride, True
    while is_killed:
        step += stride
        path = tmp_path / f"log{step}"
        with commitlog.queue(path, "jobs"):
            pass
        pid = os.fork()
        if pid == 0:
            with commitlog.queue(path, "jobs") as queue:
                replace_hook(die_at(step))
                for number in range(3):
                    queue.put(b"%d" % number, at=number + 1)
                jobs = [queue.take("30s") for _ in range(3)]
                queue._parts.log.flush()
                del jobs
                os._exit(0)
        is_killed = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
        with commitlog.queue(path, "jobs") as queue:
            queue.put(b"last", at=5)
            jobs = []
            while not jobs or jobs[-1].value != b"last":
                jobs.append(queue.take("30s"))
            assert queue.take_many(1, "50ms") == []
        with commitlog.open(path, "r") as log:
            values = [record.value for record in log.tailer()]
        assert len(values) == len(set(values)), f"step {step}: {values}"
        assert values[-1] == b"last"
        put = [value for value in values if value != b"last"]
        assert put == [b"0", b"1", b"2"][: len(put)]
    assert step > 5


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1000)), unique_by=lambda job: job[1]),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1001, 2000)), unique_by=lambda job: job[1]),
)
def test_due_index_pops_by_time(first: list[tuple[int, int]], then: list[tuple[int, int]]) -> None:
    import numpy as np

    table = np.array(first, np.int64).reshape(-1, 2)
    index = DueIndex(table[:, 0], table[:, 1])
    for due, position in then:
        index.add(due, position)
    jobs = {position: due for due, position in (*first, *then)}
    assert index.lowest == min(jobs, default=None)
    popped = []
    for now in range(0, 51, 7):
        found = index.pop_due(now, 3)
        while found:
            assert all(jobs[position] <= now for position in found)
            popped += found
            found = index.pop_due(now, 3)
    rest = {position for position, due in jobs.items() if due > 49}
    assert sorted(popped) == sorted(jobs.keys() - rest)
    assert [jobs[each] for each in popped] == sorted(jobs[each] for each in popped)
    assert len(index) == len(rest)


@pytest.mark.parametrize("given", [{"value": None}, {"value": "a"}, {"key": 5}, {"type": -1}])
def test_delayed_job_that_no_append_takes_is_refused(path: Path, given: dict[str, Any]) -> None:
    with commitlog.queue(path, "jobs") as queue, pytest.raises(RecordTypeError):
        queue.put(**{"value": b"a", "after": 1, **given})


def test_delayed_log_that_cannot_be_opened_keeps_no_job_back(path: Path) -> None:
    with commitlog.queue(path, "jobs") as queue:
        (path / "queues" / ".delayed").write_bytes(b"no log")
        queue.put(b"a")
        queue.take("30s").accept()


def test_full_disk_delays_a_due_job(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that moves jobs waits, and goes on when there is room again."""
    monkeypatch.setattr("commitlog.queues.delays._LOOK_S", 0.05)
    append, left = DelayedLog.begin_moves, [DiskFullError("no room"), IOFailureError("no disk")]

    def full(self: DelayedLog, moves: Any) -> None:
        if left:
            raise left.pop()
        append(self, moves)

    monkeypatch.setattr(DelayedLog, "begin_moves", full)
    with commitlog.queue(path, "jobs") as queue:
        queue.put(b"a", after=0.05)
        assert queue.take("30s").value == b"a"
        assert not left


def test_jobs_that_no_mover_has_read_are_not_deleted(path: Path) -> None:
    with commitlog.open(path, segment_size="1MiB") as log:
        delayed = DelayedLog(log)
        job = DelayedJob(b"a" * 200_000, None, 0, None)
        places = [delayed.put(job, 1, None) for _ in range(60)]
        delayed.log.flush()
        _Mover(log, delayed)._shorten(DueIndex(), places[15])  # all that it has read are moved
        assert delayed.read(places[15]).value == delayed.read(places[59]).value == job.value
        with pytest.raises(PositionError):
            delayed.read(places[0])
        delayed.log.close()
