"""A log in a forked child: a pooled log is refused, a mapped log continues with its own slot."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from commitlog import CommitLog
from commitlog.base.service import start_lock
from commitlog.errors import (
    ClaimError,
    CommitLogError,
    ForkedError,
    RolledBackError,
)
from commitlog.log.parts import parts_of
from tests.interrupting import interrupted_at
from tests.setups import BY_HAND, Logs, Setup
from tests.steps import die


def test_pooled_log_after_fork_refuses_child_and_serves_parent(
    logs: Logs, in_child: Callable[..., Any]
) -> None:
    for backing in ("anonymous", "shm"):
        log = logs.open(backing, pool=logs.pool(backing))
        log.append(b"parent's")

        def use(log: CommitLog = log) -> int:
            attempts = [
                lambda: log.append(b"x"),
                lambda: log.append_many([b"x"]),
                lambda: log.claim(5),
                log.commit,
                log.flush,
                log.roll,
            ]
            for attempt in attempts:
                with pytest.raises(ForkedError, match="open the log again"):
                    attempt()
            log.close()
            return len(attempts)

        assert in_child(use) == 6
        log.append(b"still")
        log.flush()
        assert list(log.tailer().values()) == [b"parent's", b"still"]


def test_mapped_log_after_fork_appends_through_an_own_slot(
    logs: Logs, in_child: Callable[..., Any]
) -> None:
    log = logs.open()
    log.append(b"parent")

    def append() -> tuple[int | None, list[bytes]]:
        log.append_array(np.zeros((4000, 16), dtype=np.uint8))
        with log.claim(5) as claim:
            claim.buffer[:] = b"child"
        log.flush()
        found = list(log.tailer().values())
        slot = parts_of(log).engine.slot
        log.close()
        return slot, found

    slot, found = in_child(append)
    assert slot not in (None, parts_of(log).engine.slot)
    log.append(b"parent again")
    assert list(log.tailer().values()) == [*found, b"parent again"]
    assert found == [b"parent", *[bytes(16)] * 4000, b"child"]


def fork_held(act: Callable[[], None]) -> Callable[[], int]:
    """Fork a child that waits. The returned function lets it run `act` and returns its exit status,
    0 on success.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)

    def let_go() -> int:
        os.close(writer)
        os.close(reader)
        return os.waitpid(child, 0)[1]

    return let_go


def test_forked_child_appends_after_the_parent_closed_the_log(logs: Logs) -> None:
    log = logs.open()
    log.append(b"parent")

    def append_and_die() -> None:
        log.append(b"child")
        die()

    let_go = fork_held(append_and_die)
    log.close()
    assert os.WTERMSIG(let_go()) == signal.SIGKILL
    assert list(logs.open().tailer().values()) == [b"parent", b"child"]


def test_forked_child_after_a_pooled_reopen_overwrites_nothing(logs: Logs) -> None:
    log = logs.open()
    log.append(b"parent")

    def append() -> None:
        with pytest.raises(ForkedError):
            log.append(b"child")

    let_go = fork_held(append)
    log.close()
    with logs.open(pool=logs.pool()) as pooled:
        pooled.append(bytes(5000))
    assert let_go() == 0
    assert list(logs.open().tailer().values()) == [b"parent", bytes(5000)]


def test_forked_child_cannot_end_a_claim_of_the_parent(
    logs: Logs, setup: Setup, in_child: Callable[..., Any]
) -> None:
    log = logs.open_as(setup, **BY_HAND)
    with log.claim(6) as claim:

        def leave() -> bool:
            with pytest.raises((RolledBackError, ClaimError, ForkedError)), claim:
                pass
            return True

        assert in_child(leave)
        claim.buffer[:] = b"parent"
    assert list(log.tailer(visibility="appended").values()) == [b"parent"]


def test_parent_locks_held_at_fork_do_not_block_the_child(
    logs: Logs, in_child: Callable[..., Any]
) -> None:
    log = logs.open()
    log.append(b"there")

    def use() -> list[bytes]:
        signal.alarm(60)
        log.append(b"child")
        log.roll()
        log.append(b"on")
        found = list(log.tailer().values())
        log.close()
        return found

    locks = [
        parts_of(log).writer.roll_turn.taken(),
        parts_of(log).queue._deleted_turn.taken(),
        parts_of(log).closing.entered(),
        parts_of(log).adopting.entered(),
        parts_of(log).finding.entered(),
    ]
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as held:
        for lock in locks:
            held.enter_context(lock)
        # A reentrant lock would admit the child, which runs in the same thread.
        assert pool.submit(in_child, use).result() == [b"there", b"child", b"on"]


def test_fork_waits_for_a_service_that_is_starting(in_child: Callable[..., Any]) -> None:
    began, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with start_lock:
            began.set()
            assert not forked.wait(0.05)

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(hold)
        began.wait()
        assert in_child(lambda: start_lock.acquire(timeout=60))
        forked.set()
        held.result()


def requests_of(log: CommitLog, threads: int) -> tuple[list[str], list[str], list[str]]:
    """Append from so many threads at once; return what failed, and the files and threads that the
    log has then.
    """
    barrier = threading.Barrier(threads)

    def request(number: int) -> str:
        barrier.wait(60)
        try:
            log.append(b"%d" % number, sync=number % 2 == 0)
        except CommitLogError as error:
            return repr(error)
        return ""

    with ThreadPoolExecutor(threads) as pool:
        failed = [outcome for outcome in pool.map(request, range(threads)) if outcome]
    return failed, held_files(), log_threads()


def held_files() -> list[str]:
    """The files that a handle keeps open: other descriptors come and go."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            links.append(os.path.basename(os.readlink(f"/proc/self/fd/{name}")))
    return sorted(link for link in links if link in ("lock", "cursors", "checkpoint"))


def log_threads() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return sorted(name for name in names if name.startswith("commitlog "))


@pytest.mark.parametrize("children", [20, pytest.param(100, marks=pytest.mark.long)])
def test_racing_threads_of_a_child_adopt_the_log_once(
    logs: Logs, in_child: Callable[..., Any], children: int
) -> None:
    """As under a server that forks its workers, which then serve requests in threads."""
    log = logs.open(segment_size=1 << 20)
    alone = in_child(lambda: requests_of(log, 1))
    assert alone[0] == []
    for _ in range(children):
        assert in_child(lambda: requests_of(log, 17)) == alone
    assert len(list(log.tailer())) == 1 + 17 * children


def _limit_that_leaves(free: int) -> int:
    """Return the limit of descriptors below which so many numbers are unused."""
    used = {int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/dev/fd/{name}")}
    unused = (number for number in itertools.count() if number not in used)
    return next(itertools.islice(unused, free, None))


def test_adoption_that_fails_leaves_nothing_and_succeeds_later(
    logs: Logs, in_child: Callable[..., Any]
) -> None:
    log = logs.open()

    def append() -> list[int]:
        descriptors = [len(os.listdir("/proc/self/fd"))]
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        for free in range(3):
            resource.setrlimit(resource.RLIMIT_NOFILE, (_limit_that_leaves(free), limit[1]))
            with pytest.raises(CommitLogError):
                log.append(b"refused")
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
            descriptors.append(len(os.listdir("/proc/self/fd")))
        log.append(b"accepted")
        return descriptors

    before, *after = in_child(append)
    assert after == [before] * 3
    assert list(log.tailer().values()) == [b"accepted"]


def test_interrupted_adoption_refuses_its_own_thread_at_once(
    logs: Logs, in_child: Callable[..., Any]
) -> None:
    log = logs.open()

    def append() -> int:
        refused = 0

        def interrupt() -> None:
            nonlocal refused
            with contextlib.suppress(ForkedError):
                log.append(b"nested")
                return
            refused += 1

        interrupted_at(30, lambda: log.append(b"outer"), interrupt)
        log.append(b"later")
        return refused

    assert in_child(append) == 1
    assert list(log.tailer().values()) == [b"outer", b"later"]


def test_close_in_the_middle_of_an_adoption_leaks_no_thread(
    logs: Logs, in_child: Callable[..., Any]
) -> None:
    log = logs.open()

    def close() -> list[tuple[int, int]]:
        found = []
        line, more = 1, True
        while more:
            child = os.fork()
            if child == 0:
                with contextlib.suppress(CommitLogError):
                    more = interrupted_at(line, lambda: log.append(b"x"), log.close)
                log.close()
                os._exit(len(log_threads()) if more else 255)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            more = status != 255
            found.append((line, status))
            line += 1 + line // 8
        return [(line, status) for line, status in found if status not in (0, 255)]

    assert in_child(close) == []
