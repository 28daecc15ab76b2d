"""Queues: take, accept, release, reject, renew; their terms, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.errors import (
    ClosedError,
    CommitLogError,
    CorruptQueueError,
    ForkedError,
    InvalidOptionError,
    IOFailureError,
    JobFinishedError,
    LeaseLostError,
    LogNotFoundError,
    NoJobError,
    QueueNotFoundError,
    ReadOnlyError,
)
from commitlog.queues import Job, Queue
from commitlog.queues.upkeep import write_base
from tests.steps import replace_hook


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def queue(path: Path) -> Iterator[Queue]:
    with commitlog.queue(path, "jobs", segment_size="64KiB", backoff=0) as queue:
        yield queue


def values(jobs: list[Job]) -> list[bytes]:
    return [job.value for job in jobs]


# --- the ends of a job ----------------------------------------------------------------------------


def test_block_that_ends_accepts_its_job(queue: Queue) -> None:
    queue.put(b"a")
    queue.put(b"b")
    with queue.take(0) as job:
        assert (job.value, job.attempt, job.key) == (b"a", 1, None)
    assert job.is_finished
    assert values(queue.take_many(10, 0)) == [b"b"]


def test_block_that_raises_releases_its_job(queue: Queue) -> None:
    queue.put(b"a")
    with pytest.raises(KeyError), queue.take(0):
        raise KeyError("no")
    again = queue.take(0)
    assert (again.value, again.attempt) == (b"a", 2)


def test_interrupted_block_does_not_count_as_attempt(queue: Queue) -> None:
    queue.put(b"a")
    with pytest.raises(KeyboardInterrupt), queue.take(0):
        raise KeyboardInterrupt
    assert queue.take(0).attempt == 1


def test_released_job_waits_for_its_time(queue: Queue) -> None:
    queue.put(b"a")
    queue.take(0).release(after="50ms")
    with pytest.raises(NoJobError):
        queue.take(0)
    assert queue.stats().waiting == 1
    assert queue.take("20s").attempt == 2


def test_failed_jobs_back_off(path: Path) -> None:
    with commitlog.queue(path, "jobs", backoff="50s") as queue:
        queue.put(b"a")
        queue.take(0).release()
        (job,) = queue._parts.table.snapshot()[1]
        wait_s = (job[8] - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) / 1e9
        assert 30 < wait_s <= 50


def test_rejected_job_is_a_dead_letter(queue: Queue) -> None:
    queue.put(b"a", key=b"k", type=7, headers={"trace": b"7"})
    queue.take(0).release(0, reason="first")
    queue.take(0).reject("second")
    (letter,) = queue.dead()
    assert (letter.value, letter.key, letter.type) == (b"a", b"k", 7)
    assert letter.headers == {"trace": b"7"}
    assert (letter.reason, letter.attempts) == ("second", 2)
    assert [(one["attempt"], one["reason"]) for one in letter.history] == [
        (1, "first"),
        (2, "second"),
    ]
    assert queue.take_many(1, 0) == []


def test_spent_attempts_make_a_dead_letter(path: Path) -> None:
    with commitlog.queue(path, "jobs", backoff=0, max_attempts=2) as queue:
        queue.put(b"a")
        queue.put(b"b")
        for _ in range(2):
            queue.take(0).release(0, reason="no luck")
        assert queue.take(0).value == b"b"
        (letter,) = queue.dead()
        assert letter.reason == "all 2 attempts have failed, the last one: no luck"


def test_requeued_dead_letter_comes_again(queue: Queue) -> None:
    queue.put(b"a")
    queue.take(0).reject("no")
    assert queue.requeue() == 1
    assert list(queue.dead()) == []
    job = queue.take(0)
    assert (job.value, job.attempt) == (b"a", 1)
    job.accept()


def test_job_that_is_accepted_twice_is_refused(queue: Queue) -> None:
    queue.put(b"a")
    job = queue.take(0)
    job.accept()
    for end in job.accept, job.release, job.reject, job.renew:
        with pytest.raises(JobFinishedError, match="the job was accepted already"):
            end()


def test_late_accept_is_refused(path: Path) -> None:
    with commitlog.queue(path, "jobs", lease="20ms", backoff=0) as queue:
        queue.put(b"a")
        late = queue.take(0)
        job = queue.take("20s")
        assert (job.attempt, job.value) == (2, b"a")
        with pytest.raises(LeaseLostError, match="the lease of 0.02 s ended"):
            late.accept()
        with pytest.raises(JobFinishedError):
            late.accept()
        assert queue.stats().expired == 1


def test_renewed_job_is_kept(path: Path) -> None:
    with commitlog.queue(path, "jobs", lease="10s") as queue:
        queue.put(b"a")
        job = queue.take(0)
        before = job.until_ns
        job.renew()
        assert job.until_ns > before


def test_accept_of_several_jobs_reports_those_that_are_lost(path: Path) -> None:
    with commitlog.queue(path, "jobs", lease="20ms", backoff=0) as queue:
        queue.put(b"a")
        lost = queue.take(0)
        again = queue.take("20s")  # when the lease has ended
        queue.change(lease="60s")
        again.renew()
        queue.put(b"b")
        held = queue.take(0)
        with pytest.raises(LeaseLostError):
            queue.accept([lost, held])
        assert held.is_finished
        assert not again.is_finished


# --- loops ----------------------------------------------------------------------------------------


def test_loop_accepts_what_it_is_done_with(queue: Queue) -> None:
    for number in range(10):
        queue.put(b"%d" % number)
    seen = [job.value for job in queue.taking(batch=4, timeout=0)]
    assert seen == [b"%d" % number for number in range(10)]
    assert queue.stats().depth == 0


def test_loop_that_is_left_returns_the_rest(queue: Queue) -> None:
    for number in range(4):
        queue.put(b"%d" % number)
    for job in queue.taking(batch=4, timeout=0):
        if job.value == b"1":
            break
    del job
    jobs = {job.value: job.attempt for job in queue.take_many(10, 0)}
    assert jobs == {b"1": 2, b"2": 1, b"3": 1}


def test_job_of_a_loop_may_be_rejected(queue: Queue) -> None:
    queue.put(b"a")
    queue.put(b"b")
    for job in queue.taking(batch=2, timeout=0):
        if job.value == b"a":
            job.reject("no")
    assert [letter.value for letter in queue.dead()] == [b"a"]
    assert queue.stats().depth == 0


def test_coroutines_take_jobs(queue: Queue) -> None:
    async def work() -> list[bytes]:
        taking = asyncio.create_task(queue.take_async("20s"))
        await asyncio.sleep(0)
        queue.put(b"a")
        job = await taking
        job.accept()
        queue.put(b"b")
        done = [job.value]
        async for each in queue.taking_async(batch=2):
            done.append(each.value)
            break
        with pytest.raises(NoJobError):
            await queue.take_async(0)
        return done

    assert asyncio.run(work()) == [b"a", b"b"]


def test_cancelled_coroutine_takes_no_job(queue: Queue) -> None:
    async def work() -> None:
        taking = asyncio.create_task(queue.take_async())
        await asyncio.sleep(0.01)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking

    asyncio.run(work())
    queue.put(b"a")
    assert queue.take(0).attempt == 1


# --- several queues, threads, processes -----------------------------------------------------------


def test_queues_of_a_log_are_independent(path: Path) -> None:
    with (
        commitlog.open(path) as log,
        commitlog.queue(log, "one") as one,
        commitlog.queue(log, "two") as two,
    ):
        log.append(b"a")
        one.take(0).accept()
        assert one.take_many(1, 0) == []
        assert two.take(0).value == b"a"


def test_new_queue_begins_at_the_end_if_asked(path: Path) -> None:
    with commitlog.open(path) as log:
        log.append(b"before")
        with commitlog.queue(log, "late", start="end") as queue:
            log.append(b"after")
            assert values(queue.take_many(5, 0)) == [b"after"]


def test_threads_share_the_jobs(queue: Queue) -> None:
    seen: list[bytes] = []
    for number in range(400):
        queue.put(b"%d" % number)

    def work() -> None:
        seen.extend(job.value for job in queue.taking(batch=3, timeout=0))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A thread may have left while another one held the rest.
    seen.extend(job.value for job in queue.taking(timeout=0))
    assert sorted(seen, key=int) == [b"%d" % number for number in range(400)]


def test_put_wakes_a_thread_that_waits(queue: Queue, until: Callable[..., None]) -> None:
    taken: list[bytes] = []
    thread = threading.Thread(target=lambda: taken.append(queue.take("30s").value))
    thread.start()
    until(lambda: queue._parts.table.is_watched)
    queue.put(b"a")
    thread.join(30)
    assert taken == [b"a"]


def in_child(call: object) -> int:
    """Run a call in a forked child; return the status with which it ended."""
    pid = os.fork()
    if pid == 0:
        try:
            call()  # type: ignore[operator]
            os._exit(0)
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_job_of_a_worker_that_died_comes_at_once(queue: Queue) -> None:
    queue.put(b"a")

    def take_and_die() -> None:
        queue.take(0)
        os.kill(os.getpid(), 9)

    assert in_child(take_and_die) == -9
    job = queue.take("20s")
    assert (job.value, job.attempt) == (b"a", 2)
    job.release(0, reason="why")
    job = queue.take(0)
    job.reject("enough")
    (letter,) = queue.dead()
    assert [one["what"] for one in letter.history] == ["the worker died", "released", "rejected"]


def test_forked_child_has_no_job_of_its_parent(queue: Queue) -> None:
    queue.put(b"a")
    queue.put(b"b")
    job = queue.take(0)

    def child() -> None:
        for end in job.accept, job.release, job.reject, job.renew:
            with pytest.raises(ForkedError, match="the job is the parent's"):
                end()
        with queue.take(0) as own:
            assert own.value == b"b"
        with pytest.raises(ForkedError):
            job.accept()

    assert in_child(child) == 0
    job.accept()
    assert queue.stats().depth == 0


def test_attempts_outlive_the_leases(path: Path) -> None:
    """As after a crash of the machine: the leases are lost, and nothing else. The first time that a
    job is handed out is not noted, because most jobs are done then.
    """
    with commitlog.queue(path, "jobs", backoff=0, max_attempts=3) as queue:
        queue.put(b"a")
    for attempt in (1, 1, 2, 3):

        def take_and_die() -> None:
            with commitlog.queue(path, "jobs") as queue:
                job = queue.take(0)
                assert job.attempt == attempt  # noqa: B023
                os.kill(os.getpid(), 9)

        assert in_child(take_and_die) == -9
        (path / "queues" / "jobs" / "leases").unlink()
    with commitlog.queue(path, "jobs") as queue:
        assert queue.take_many(1, 0) == []
        (letter,) = queue.dead()
        assert (letter.value, letter.attempts) == (b"a", 3)


def test_acceptances_outlive_the_leases(path: Path) -> None:
    with commitlog.queue(path, "jobs", segment_size="64KiB") as queue:
        for number in range(1000):
            queue.put(b"%d" % number)
        for job in queue.take_many(600, 0):
            if int(job.value) % 3:
                job.accept()
    (path / "queues" / "jobs" / "leases").unlink()
    with commitlog.queue(path, "jobs") as queue:
        left = [int(job.value) for job in queue.taking(timeout=0)]
        assert left == [n for n in range(1000) if n >= 600 or n % 3 == 0]


# --- limits ---------------------------------------------------------------------------------------


def test_limits_hold_jobs_back(path: Path) -> None:
    with commitlog.queue(path, "jobs", in_flight=3) as queue:
        for number in range(5):
            queue.put(b"%d" % number)
        jobs = queue.take_many(5, 0)
        assert len(jobs) == 3
        assert queue.take_many(5, 0) == []
        jobs[0].accept()
        assert values(queue.take_many(5, 0)) == [b"3"]
        queue.change(in_flight=10, worker_in_flight=4)
        assert values(queue.take_many(5, 0)) == [b"4"]


def test_keys_come_one_at_a_time(path: Path) -> None:
    with commitlog.queue(path, "jobs", order="key", backoff=0) as queue:
        for number, key in enumerate(b"aabab"):
            queue.put(b"%d" % number, key=bytes([key]))
        queue.put(b"5")
        first = queue.take_many(10, 0)
        assert values(first) == [b"0", b"2", b"5"]
        first[0].release("20ms")
        assert queue.take_many(10, 0) == []
        again = queue.take("20s")
        assert again.value == b"0"
        again.accept()
        assert values(queue.take_many(10, 0)) == [b"1"]


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a/b", "", "..", "-x", 7])
def test_invalid_name_is_refused(path: Path, name: str) -> None:
    with pytest.raises(InvalidOptionError, match="name must"):
        commitlog.queue(path, name)
    assert not path.exists()


def test_other_terms_are_refused_unless_changed(path: Path) -> None:
    with commitlog.queue(path, "jobs", lease="10s"):
        with pytest.raises(InvalidOptionError, match="lease=10.0, and this call asks for 20.0"):
            commitlog.queue(path, "jobs", lease="20s")
        with commitlog.queue(path, "jobs", lease="20s", change=True) as other:
            assert other.terms.lease_s == 20.0
    with commitlog.queue(path, "jobs") as queue:
        assert queue.terms.lease_s == 20.0


@pytest.mark.parametrize(
    "terms",
    [
        {"lease": 0},
        {"lease": "x"},
        {"max_attempts": 0},
        {"max_attempts": 4001},
        {"in_flight": 0},
        {"order": "fifo"},
        {"backoff": -1},
        {"sync": 1},
        {"change": "yes"},
    ],
)
def test_invalid_term_is_refused(path: Path, terms: dict[str, object]) -> None:
    with pytest.raises(InvalidOptionError, match=next(iter(terms))):
        commitlog.queue(path, "jobs", **terms)  # type: ignore[arg-type]


def test_missing_log_or_queue_is_refused(path: Path) -> None:
    with pytest.raises(LogNotFoundError):
        commitlog.queue(path, "jobs", mode="r")
    with commitlog.open(path), pytest.raises(QueueNotFoundError, match="no queue 'jobs'"):
        commitlog.queue(path, "jobs", mode="r")


def test_reading_handle_takes_nothing(queue: Queue, path: Path) -> None:
    queue.put(b"a")
    with commitlog.queue(path, "jobs", mode="r") as reader:
        assert [record.value for record in reader.peek(5)] == [b"a"]
        assert reader.stats().depth == 1
        with pytest.raises(ReadOnlyError):
            reader.take(0)


def test_queue_of_a_log_and_a_topic_is_refused(path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="either a log or topic="):
        commitlog.queue()


def test_job_of_another_queue_is_refused(queue: Queue) -> None:
    with pytest.raises(InvalidOptionError, match="jobs must be jobs of this queue"):
        queue.accept([7])  # type: ignore[list-item]


def test_closed_queue_gives_its_jobs_back(path: Path) -> None:
    with commitlog.open(path) as log:
        log.append(b"a")
        queue = commitlog.queue(log, "jobs")
        job = queue.take(0)
        queue.close()
        queue.close()
        with pytest.raises(ClosedError):
            job.accept()
        with pytest.raises(ClosedError):
            queue.take(0)
        with commitlog.queue(log, "jobs") as again:
            assert again.take(0).value == b"a"


def test_jobs_and_queues_cannot_be_pickled(queue: Queue) -> None:
    queue.put(b"a")
    for thing in (queue, queue.take(0)):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(thing)


def test_damaged_state_is_refused(path: Path) -> None:
    with commitlog.queue(path, "jobs") as queue:
        queue.put(b"a")
        queue.take(0).accept()
    folder = path / "queues" / "jobs"
    (folder / "leases").unlink()
    (segment,) = folder.glob("state/*.seg")
    with open(segment, "r+b") as file:
        file.seek(4096 + 40)
        file.write(b"damage")
    with pytest.raises(CorruptQueueError, match="the state of this queue is damaged"):
        commitlog.queue(path, "jobs")


def test_state_of_another_log_is_refused(path: Path, tmp_path: Path) -> None:
    with commitlog.queue(path, "jobs"):
        pass
    with commitlog.open(tmp_path / "other"):
        (tmp_path / "other" / "queues").mkdir()
    (path / "queues" / "jobs").rename(tmp_path / "other" / "queues" / "jobs")
    with pytest.raises(CorruptQueueError, match="the queue of another log"):
        commitlog.queue(tmp_path / "other", "jobs")


def test_deleted_leases_are_noticed(queue: Queue, path: Path) -> None:
    (path / "queues" / "jobs" / "leases").unlink()
    with pytest.raises(commitlog.CommitLogError, match="`leases` was deleted or replaced"):
        commitlog.queue(path, "jobs")


# --- operate --------------------------------------------------------------------------------------


def test_purge_finishes_what_no_worker_holds(queue: Queue) -> None:
    for number in range(200):
        queue.put(b"%d" % number)
    held = queue.take(0)
    queue.take(0).release("1h")
    assert queue.purge() == 199
    held.accept()
    assert queue.stats().depth == 0


def test_paused_queue_hands_out_nothing(queue: Queue) -> None:
    queue.put(b"a")
    job = queue.take(0)
    queue.put(b"b")
    assert not queue.drain(timeout=0)
    assert queue.take_many(1, 0) == []
    job.accept()
    assert queue.drain(timeout=0)
    queue.resume()
    assert queue.take(0).value == b"b"


def test_close_lets_other_threads_finish_what_they_accept(path: Path) -> None:
    """A thread that is accepting durably keeps its jobs; none is finished twice."""
    accepted: list[int] = []

    def accept(jobs: list[Job], begun: threading.Event) -> None:
        with contextlib.suppress(ClosedError):
            for job in jobs:
                begun.set()
                job.accept()
                accepted.append(job.position)

    for _ in range(5):
        queue = commitlog.queue(path, "jobs", sync=True, max_attempts=100)
        queue.log.append_many([b"job"] * 20)
        begun = threading.Event()
        thread = threading.Thread(target=accept, args=(queue.take_many(20), begun))
        thread.start()
        begun.wait()
        queue.close()
        thread.join()
    with commitlog.queue(path, "jobs") as queue:
        left = [job.position for job in queue.taking(batch=100, timeout=0)]
        with queue.log.tailer() as tailer:
            assert sorted(accepted + left) == [record.position for record in tailer]


def test_letters_that_two_requeue_come_once(path: Path) -> None:
    with commitlog.queue(path, "jobs") as one, commitlog.queue(path, "jobs") as other:
        one.put(b"a")
        one.take().reject()
        letters = list(one.dead())
        assert one.requeue(letters) == 1
        one.take().accept()
        assert other.requeue(letters) == 0
        assert other.take_many(1, 0) == []


@pytest.mark.parametrize("step", ["requeue noted", "requeued"])
def test_base_during_a_requeue_keeps_its_job(path: Path, tmp_path: Path, step: str) -> None:
    """Between the note and the job, a base of another worker would have neither."""
    with commitlog.queue(path, "jobs") as one, commitlog.queue(path, "jobs") as other:
        one.put(b"a")
        one.take().reject()
        one.put(b"b")
        held = one.take()

        def passed(name: str) -> None:
            if name == step:
                with other._parts.worker.file.compacting() as is_ours:
                    if is_ours:
                        write_base(other._parts)

        replace_hook(passed)
        try:
            one.requeue()
        finally:
            replace_hook(None)
        held.accept()
        shutil.copytree(path, tmp_path / "after")  # a power cut would leave this
    with commitlog.queue(tmp_path / "after", "jobs") as queue:
        assert queue.take(0).value == b"a"


def test_queue_without_its_hold_on_the_log_is_refused(path: Path) -> None:
    """Retention would delete what it has not finished."""
    with commitlog.open(path, "a") as log:
        log.append(b"a")
    (path / "tailers").mkdir(exist_ok=True)
    (path / "tailers" / "queue+jobs").mkdir()
    with pytest.raises(CommitLogError):
        commitlog.queue(path, "jobs")


def test_purge_takes_more_than_the_limits(path: Path) -> None:
    with commitlog.queue(path, "jobs", in_flight=1) as queue:
        queue.log.append_many([b"job"] * 10)
        held = queue.take()
        assert queue.purge() == 9
        held.accept()


def test_drain_takes_jobs_of_dead_workers_back(path: Path) -> None:
    with commitlog.queue(path, "jobs") as queue:
        queue.put(b"a")
        pid = os.fork()
        if pid == 0:
            queue.take()
            os._exit(1)
        os.waitpid(pid, 0)
        assert queue.drain(30)


def test_name_without_room_for_its_tailer_is_refused(path: Path) -> None:
    with commitlog.queue(path, "n" * 122) as queue:
        assert len(list(queue.log.tailers())) == 1
    with pytest.raises(InvalidOptionError, match="128 bytes"):
        commitlog.queue(path, "n" * 123)


def test_moved_directory_keeps_the_job_that_is_rejected(path: Path) -> None:
    """A dead letter at the old path would be lost."""
    with commitlog.queue(path, "jobs") as queue:
        queue.put(b"a")
        job = queue.take()
        path.rename(path.with_name("moved"))
        with pytest.raises(IOFailureError, match="moved"):
            job.reject("bad")
        with pytest.raises(IOFailureError, match="moved"):
            queue.put(b"b", after=1)
        assert not path.exists()
    with commitlog.queue(path.with_name("moved"), "jobs") as queue:
        assert queue.take_many(1, 0) == []  # it is doomed, and is buried now
        assert [letter.value for letter in queue.dead()] == [b"a"]


@pytest.mark.parametrize("reason", [None, b"x", ValueError("x")])
def test_reason_that_is_no_text_is_refused(queue: Queue, reason: Any) -> None:
    queue.put(b"a")
    job = queue.take()
    for end in (job.reject, lambda reason: job.release(reason=reason)):
        with pytest.raises(InvalidOptionError, match="reason must be a str"):
            end(reason)
    job.accept()


def test_coroutines_sleep_together(queue: Queue) -> None:
    """They share a nap: one after the other, each of them would wait for all others."""
    naps = []

    async def take() -> None:
        nap = queue._nap
        queue._nap = lambda: (naps.append(1), nap())  # type: ignore[assignment, method-assign]
        tasks = [asyncio.create_task(queue.take_async(0.01)) for _ in range(50)]
        for task in tasks:
            with pytest.raises(NoJobError):
                await task

    asyncio.run(take())
    assert len(naps) < 10
