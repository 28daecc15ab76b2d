"""A queue goes on on a promoted copy, and on a restored log."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import commitlog
import commitlog.errors
from commitlog import Store, replication
from commitlog.keep import restore
from commitlog.network.replication.side_sources import SideSources
from commitlog.queues import Queue
from commitlog.queues.upkeep import write_base
from tests.steps import die, die_at, replace_hook

LIMIT_S = 30.0


def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def records(path: Path) -> list[tuple[int, int, bytes]]:
    try:
        with commitlog.open(path, "r") as log, log.tailer() as tailer:
            return [(each.position, each.type, each.value) for each in tailer]
    except (commitlog.errors.LogNotFoundError, commitlog.errors.NotALogError):
        return []  # it is just being put there


def values(path: Path, name: str = "mailer") -> list[bytes]:
    """Return all jobs that can be taken."""
    with commitlog.queue(path, name) as jobs:
        return [job.value for job in jobs.taking(timeout=0.5)]


def test_promoted_copy_goes_on_where_the_queue_was(tmp_path: Path) -> None:
    log, copy = tmp_path / "jobs", tmp_path / "copy"
    with commitlog.queue(log, "mailer", sync=True) as jobs:
        for number in range(100):
            jobs.put(b"%d" % number)
        for job in jobs.take_many(50):
            job.accept()
        (poison,) = jobs.take_many(1)
        poison.reject("no such address")
        jobs.put(b"later", after="1h")
        with followed(log, copy) as settled:
            settled(jobs)
    replication.promote(copy)
    assert values(copy) == [b"%d" % number for number in range(51, 100)]
    with commitlog.queue(copy, "mailer") as jobs:
        (letter,) = jobs.dead()
        assert (letter.value, letter.reason) == (b"50", "no such address")


@contextlib.contextmanager
def followed(log: Path, copy: Path) -> Iterator[Callable[[Queue], None]]:
    """Follow; yield a function that waits until a copy has all of a queue."""
    with replication.serve(log) as server, replication.follow(server.url(), copy) as follower:

        def settled(jobs: Queue) -> None:
            assert follower.wait(jobs._parts.log.flush(), LIMIT_S)
            jobs._parts.state.log.flush()
            for each in ("queues/mailer/state", "queues/mailer/dead", "queues/.delayed"):
                until(lambda each=each: records(log / each) == records(copy / each))

        yield settled


def put(jobs: Queue, numbers: range) -> None:
    for number in numbers:
        jobs.put(b"%d" % number)


def test_compacted_state_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("commitlog.queues.state_log._SEGMENT_SIZE", "64KiB")
    log, copy = tmp_path / "jobs", tmp_path / "copy"
    with commitlog.queue(log, "mailer") as jobs, followed(log, copy) as settled:
        put(jobs, range(1600))
        for _ in range(1590):
            jobs.take(0).accept()
        settled(jobs)
        first = "queues/mailer/state/00000000000000000000.seg"
        until(lambda: write_base(jobs._parts) or not (log / first).exists())
        settled(jobs)
        until(lambda: not (copy / first).exists())
    replication.promote(copy)
    assert values(copy) == [b"%d" % number for number in range(1590, 1600)]


def test_former_primary_takes_the_state_of_the_new_one(tmp_path: Path) -> None:
    log, copy = tmp_path / "jobs", tmp_path / "copy"
    with commitlog.queue(log, "mailer") as jobs, followed(log, copy) as settled:
        put(jobs, range(20))
        jobs.accept(jobs.take_many(5))
        settled(jobs)
    with commitlog.queue(log, "mailer") as jobs:
        jobs.accept(jobs.take_many(5))  # which no copy has
    replication.promote(copy)
    with commitlog.queue(copy, "mailer") as jobs:
        assert jobs.take(0).value == b"5"
        with followed(copy, log) as settled:
            jobs.take(0).accept()
            settled(jobs)
    replication.promote(log)
    assert values(log) == [b"5", *(b"%d" % number for number in range(7, 20))]


def test_removed_queue_is_removed_from_the_copy(tmp_path: Path) -> None:
    log, copy = tmp_path / "jobs", tmp_path / "copy"
    with commitlog.open(log) as opened, followed(log, copy) as settled:
        with commitlog.queue(opened, "mailer") as jobs:
            put(jobs, range(3))
            jobs.take(0).accept()
            settled(jobs)
        shutil.rmtree(log / "queues/mailer")
        until(lambda: not (copy / "queues/mailer/state").exists())
        with commitlog.queue(opened, "mailer", start="end") as jobs:
            jobs.put(b"new")
            settled(jobs)
    replication.promote(copy)
    assert values(copy) == [b"new"]


def test_side_log_that_cannot_be_read_stays_in_the_copy(tmp_path: Path) -> None:
    log, copy = tmp_path / "jobs", tmp_path / "copy"
    with commitlog.queue(log, "mailer", sync=True) as jobs, followed(log, copy) as settled:
        put(jobs, range(3))
        jobs.take(0).reject("no use")
        settled(jobs)
    identity = log / "queues/mailer/dead/log.json"
    content = identity.read_bytes()
    identity.write_bytes(b"damaged")
    sources = SideSources(str(log))
    assert sources.ends() == {**(sources.ends() or {}), "queues/mailer/dead": None}
    sources.close()
    with (
        replication.serve(log) as server,
        replication.follow(server.url(), copy) as follower,
        commitlog.queue(log, "later") as jobs,
    ):
        assert follower.wait(1, LIMIT_S)
        until((copy / "queues/later/state/log.json").exists)
        assert (copy / "queues/mailer/dead/log.json").exists()
    identity.write_bytes(content)


@pytest.mark.parametrize("name", ["side log moved aside", "side log put in place"])
def test_promotion_finishes_a_killed_replacement(name: str, tmp_path: Path) -> None:
    log, copy = tmp_path / "jobs", tmp_path / "copy"
    with commitlog.queue(log, "mailer", sync=True) as jobs:
        put(jobs, range(3))
        jobs.take(0).reject("no use")
        with followed(log, copy) as settled:
            settled(jobs)
        shutil.rmtree(copy / "queues/mailer/dead")  # an empty one takes its place
        with commitlog.open(copy / "queues/mailer/dead"):
            pass
        pid = follow_killed_at(log, copy, name)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    replication.promote(copy)
    with commitlog.queue(copy, "mailer") as jobs:
        assert [letter.value for letter in jobs.dead()] == [b"0"]
    assert not {"dead.new", "dead.old"} & set(os.listdir(copy / "queues/mailer"))


def follow_killed_at(log: Path, copy: Path, name: str) -> int:
    """Follow in a process that ends at a step of that name."""
    pid = os.fork()
    if pid:
        return pid
    try:
        replace_hook(lambda step: die() if step == name else None)
        with replication.serve(log) as server, replication.follow(server.url(), copy) as follower:
            follower.wait(1 << 40, LIMIT_S)
    finally:
        os._exit(0)


def test_delayed_job_comes_once_on_a_promoted_copy(tmp_path: Path) -> None:
    log, copy = tmp_path / "jobs", tmp_path / "copy"
    with commitlog.queue(log, "mailer") as jobs, followed(log, copy) as settled:
        jobs.put(b"soon", after=0.3)
        jobs.take(10).accept()
        jobs.put(b"later", after=4)
        settled(jobs)
    replication.promote(copy)
    with commitlog.queue(copy, "mailer") as jobs:
        assert jobs.take(20).value == b"later"
        assert jobs.take_many(10, 0.2) == []


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(each, marks=pytest.mark.long) for each in range(2, 8))]
)
def test_killed_followers_lose_no_job(tmp_path: Path, seed: int) -> None:
    """The follower is killed at a step, again and again, while jobs are done and buried."""
    log, copy, chance = tmp_path / "jobs", tmp_path / "copy", random.Random(seed)
    dead, done, count = set[int](), set[int](), 0
    with commitlog.queue(log, "mailer", sync=True) as jobs, replication.serve(log) as server:
        for _ in range(4):
            put(jobs, range(count, count + 20))
            count += 20
            jobs._parts.log.flush()
            pid = follow_killed(server.url(), copy, chance.randrange(5, 90))
            for job in jobs.take_many(12, 0):
                if chance.random() < 0.3:
                    job.reject("no use")
                    dead.add(int(job.value))
                else:
                    job.accept()
                    done.add(int(job.value))
            for letter in list(jobs.dead())[:1]:
                jobs.requeue([letter])
                dead.remove(int(letter.value or b""))
            os.waitpid(pid, 0)
    if not (copy / "log.json").exists():
        return
    with commitlog.open(copy, "r") as opened, opened.tailer() as tailer:
        there = {int(record.value) for record in tailer}
    replication.promote(copy)
    with commitlog.queue(copy, "mailer") as jobs:
        left = [int(job.value) for job in jobs.taking(timeout=0)]
        letters = [int(letter.value or b"") for letter in jobs.dead()]
    found = left + letters
    assert len(found) == len(set(found)), "a job came twice"
    assert there <= {*left, *letters, *done}, "a job was lost"


def follow_killed(url: str, copy: Path, step: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        replace_hook(die_at(step))
        with replication.follow(url, copy) as follower:
            follower.wait(1 << 40, 3)
    finally:
        os._exit(0)


# --- stores ---------------------------------------------------------------------------------------


def has_stored(store: Path, log: Path, folder: str) -> bool:
    """Return whether a restore would have all of a side log."""
    shutil.rmtree(log.parent / "probe", ignore_errors=True)
    try:
        restore(store, log.parent / "probe")
    except commitlog.errors.CommitLogError:
        return False
    return records(log.parent / "probe" / folder) == records(log / folder)


def test_restored_log_goes_on_where_the_queue_was(tmp_path: Path) -> None:
    log, store, new = tmp_path / "jobs", tmp_path / "store", tmp_path / "new"
    with (
        commitlog.open(log, store=Store(store, every=0.05)) as opened,
        commitlog.queue(opened, "mailer") as jobs,
    ):
        put(jobs, range(20))
        jobs.accept(jobs.take_many(10))
        jobs.take(0).reject("no use")
        jobs.put(b"later", after="1h")
        jobs._parts.state.log.flush()
        for folder in ("queues/mailer/state", "queues/mailer/dead", "queues/.delayed"):
            until(lambda folder=folder: has_stored(store, log, folder))
    restore(store, new)
    assert values(new) == [b"%d" % number for number in range(11, 20)]
    with commitlog.queue(new, "mailer") as jobs:
        assert [letter.value for letter in jobs.dead()] == [b"10"]
    # The restored log goes on with the store, and so do its queues.
    with commitlog.open(new, store=Store(store, every=0.05)) as opened:
        jobs = commitlog.queue(opened, "mailer")
        put(jobs, range(30, 33))
        jobs.take(0).accept()
    restore(store, tmp_path / "newer")
    assert values(tmp_path / "newer") == [b"31", b"32"]


def test_store_keeps_a_queue_that_a_directory_lacks(tmp_path: Path) -> None:
    log, store = tmp_path / "jobs", tmp_path / "store"
    with (
        commitlog.open(log, store=Store(store, every=0.05)) as opened,
        commitlog.queue(opened, "mailer") as jobs,
    ):
        put(jobs, range(3))
        jobs.take(0).reject("no use")
        until(lambda: has_stored(store, log, "queues/mailer/dead"))
    shutil.rmtree(log / "queues")  # as a backup that was made without queues
    with commitlog.open(log, store=Store(store, every=0.05)) as opened:
        with commitlog.queue(opened, "other"):
            until(lambda: has_stored(store, log, "queues/other/state"))
        shutil.rmtree(log / "queues/other")
        until(lambda: len(list(store.glob("*.side"))) == 2)
    restore(store, tmp_path / "new")
    with commitlog.queue(tmp_path / "new", "mailer") as jobs:
        assert [letter.value for letter in jobs.dead()] == [b"0"]


def test_machine_lost_while_it_stores_loses_no_job(tmp_path: Path) -> None:
    """What was stored at any moment is a queue: no job is neither left nor finished."""
    log, store = tmp_path / "jobs", tmp_path / "store"
    done, dead = set[int](), set[int]()
    with (
        commitlog.open(log, store=Store(store, every=0.02)) as opened,
        commitlog.queue(opened, "mailer", backoff=0) as jobs,
    ):
        put(jobs, range(200))
        opened.flush()
        for step in range(5):
            for job in jobs.take_many(10):
                if int(job.value) % 2:
                    job.accept()
                    done.add(int(job.value))
                else:
                    job.reject("no use")
                    dead.add(int(job.value))
            jobs.requeue(list(jobs.dead())[:2])
            with contextlib.suppress(shutil.Error):  # what is just being deleted
                shutil.copytree(store, tmp_path / f"store{step}")
    for step in range(5):
        new = tmp_path / f"new{step}"
        try:
            restore(tmp_path / f"store{step}", new)
        except commitlog.errors.CommitLogError:
            continue  # nothing was stored so early, or the copy of the store lacks a part
        with commitlog.open(new, "r") as opened, opened.tailer() as tailer:
            there = {int(record.value) for record in tailer}
        with commitlog.queue(new, "mailer") as jobs:
            left = [int(job.value) for job in jobs.taking(timeout=0)]
            letters = [int(letter.value or b"") for letter in jobs.dead()]
        assert there <= {*left, *letters, *done}, f"step {step}: a job was lost"
        assert len(left) == len(set(left))


def test_store_of_a_promoted_copy_has_its_queues(tmp_path: Path) -> None:
    log, copy, store = tmp_path / "jobs", tmp_path / "copy", tmp_path / "store"
    with (
        commitlog.open(log, store=Store(store, every=0.05)) as opened,
        commitlog.queue(opened, "mailer") as jobs,
        followed(log, copy) as settled,
    ):
        put(jobs, range(20))
        jobs.accept(jobs.take_many(5))
        settled(jobs)
    replication.promote(copy)
    with (
        commitlog.open(copy, store=Store(store, every=0.05)) as opened,
        commitlog.queue(opened, "mailer") as jobs,
    ):
        jobs.accept(jobs.take_many(5))
        jobs._parts.state.log.flush()
        until(lambda: has_stored(store, copy, "queues/mailer/state"))
    assert len(list(store.glob("*.side"))) == 1
    restore(store, tmp_path / "new")
    assert values(tmp_path / "new") == [b"%d" % number for number in range(10, 20)]
