"""Waiting for records: wake-up delay and cost of each idle strategy, for readers and writers."""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog, Options, Tuning
from commitlog._kernel.engine import announce_sleeper
from commitlog._kernel.readers import IDLE
from commitlog.errors import InUseError, InvalidOptionError
from commitlog.log.parts import parts_of
from tests.host import start_code
from tests.setups import Logs
from tests.test_interrupts import interrupted_when

OTHER_USER = 65534
IDLES = ["spin", "yield", "backoff", "block"]

# A reader process that follows the log. It prints the delay of each record since its append, and at
# the end its processor time.
FOLLOWER = """
import sys, time, resource
import commitlog

with commitlog.open(sys.argv[1], mode="r") as log:
    tailer = log.tailer(start="end")
    print("ready", flush=True)
    for record in tailer.follow(timeout=60, idle=sys.argv[2]):
        came = time.monotonic_ns()
        if not record.value:
            break
        print(came - int.from_bytes(record.value, "little"), flush=True)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(usage.ru_utime + usage.ru_stime, flush=True)
"""


class Follower:
    """A reader process whose output is read line by line."""

    def __init__(self, path: Path, idle: str) -> None:
        self.process = start_code(FOLLOWER, path, idle, stdout=subprocess.PIPE, text=True)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def cpu_s(self) -> float:
        """Return the processor time used so far, from /proc."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(params=["disk", "shm"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CommitLog]:
    """A mapped log, on a disk or in shared memory."""
    path = (
        tmp_path
        if request.param == "disk"
        else Path(tempfile.mkdtemp(prefix="commitlog-test-", dir="/dev/shm"))
    )
    with commitlog.open(path / "log", "a", Options(segment_size=1 << 20)) as opened:
        yield opened
    if request.param == "shm":
        shutil.rmtree(path)


def someone_waits(log: CommitLog) -> bool:
    return bool(parts_of(log).engine.cursors["waiters"])


def test_blocked_reader_wakes_at_once_and_uses_no_cpu_waiting(
    log: CommitLog, until: Callable[..., None]
) -> None:
    with Follower(Path(log.path), "block") as follower:
        assert follower.line() == "ready"
        delays_ns = []
        for _ in range(60):
            # Let the reader fall asleep: the wake-up is measured, after a sleep of any length.
            until(lambda: someone_waits(log))
            time.sleep(0.002)
            log.append(time.monotonic_ns().to_bytes(8, "little"))
            delays_ns.append(int(follower.line()))
        # A missed wake-up would take the rest of a 50 ms slice; scheduling may take a while, too.
        assert statistics.median(delays_ns) < 25e6
        before = follower.cpu_s()
        slept = threading.Event().wait(1.5)
        taken = follower.cpu_s() - before
        assert not slept
        assert taken <= 0.15
        log.append(b"")
        assert float(follower.line()) < 30
        assert follower.process.wait(60) == 0


def test_reader_that_backs_off_sleeps_until_an_append(
    log: CommitLog, until: Callable[..., None]
) -> None:
    with Follower(Path(log.path), "backoff") as follower:
        assert follower.line() == "ready"
        for _ in range(3):
            until(lambda: someone_waits(log))
            log.append(time.monotonic_ns().to_bytes(8, "little"))
            assert int(follower.line()) > 0


def test_spinning_reader_shows_in_the_cpu_time_measure(
    log: CommitLog,
) -> None:
    with Follower(Path(log.path), "spin") as follower:
        assert follower.line() == "ready"
        before = follower.cpu_s()
        deadline = time.monotonic() + 60
        while follower.cpu_s() - before < 0.3:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        log.append(b"")
        follower.line()
        assert follower.process.wait(60) == 0


@pytest.mark.parametrize("idle", IDLES)
def test_waiting_reader_lets_other_threads_run(logs: Logs, idle: Any) -> None:
    log = logs.open()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(log.tailer().read, timeout=None, idle=idle)
        turns = 0
        before = time.thread_time()
        # Processor time of this thread while the other one waits.
        while time.thread_time() - before < 0.02:
            turns += 1
        assert not waiting.done()
        log.append(b"x")
        record = waiting.result(timeout=60)
    assert record is not None
    assert record.value == b"x"


@pytest.mark.parametrize("idle", IDLES)
@pytest.mark.parametrize("how", ["read", "read_batch", "follow"])
def test_ctrl_c_ends_every_kind_of_wait(logs: Logs, idle: Any, how: str) -> None:
    log = logs.open()
    tailer = log.tailer()
    waits: dict[str, Callable[[], object]] = {
        "read": lambda: tailer.read(timeout=None, idle=idle),
        "read_batch": lambda: tailer.read_batch(timeout=None, idle=idle),
        "follow": lambda: next(tailer.follow(idle=idle)),
    }

    def in_the_kernel() -> bool:
        try:
            tailer.direction = "forward"
        except InUseError:
            return True
        return False

    with pytest.raises(KeyboardInterrupt), interrupted_when(in_the_kernel):
        waits[how]()
    log.append(b"next")
    assert [record.value for record in tailer] == [b"next"]


@pytest.mark.parametrize("idle", IDLES)
def test_read_returns_none_after_its_timeout(logs: Logs, idle: Any) -> None:
    tailer = logs.open().tailer()
    for read in (lambda: tailer.read("30ms", idle), lambda: tailer.read(0.03, idle=idle)):
        began = time.monotonic()
        assert read() is None
        assert 0.03 <= time.monotonic() - began < 10


def test_unknown_idle_strategy_is_refused(logs: Logs) -> None:
    tailer = logs.open().tailer()
    for wrong in ("sleep", "", None, 1):
        for wait in (tailer.follow, tailer.read, tailer.read_batch):
            with pytest.raises(
                InvalidOptionError, match="idle must be one of 'spin', 'yield', 'backoff', 'block'"
            ):
                wait(timeout=1, idle=wrong)  # type: ignore[operator]
    assert set(IDLE) == set(IDLES)


def test_append_signals_only_while_a_reader_sleeps(
    log: CommitLog, until: Callable[..., None]
) -> None:
    def signals() -> int:
        return parts_of(log).engine.cursors["append_signal"]

    before = signals()
    for idle in ("spin", "yield"):  # a reader that backs off sleeps in the end
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(log.tailer(start="end").read, timeout=None, idle=idle)
            log.append(b"x")
            waiting.result(timeout=60)
    log.append_many([b"x"] * 1000)
    assert (signals(), parts_of(log).engine.cursors["waiters"]) == (before, 0)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(log.tailer(start="end").read, timeout=None, idle="block")
        until(lambda: someone_waits(log))
        log.append(b"x")
        waiting.result(timeout=60)
    after = signals()
    assert after == before + 1
    for _ in range(1000):
        log.append(b"x")
    assert (signals(), parts_of(log).engine.cursors["waiters"]) == (after, 0)


def test_killed_sleeping_reader_costs_one_wake_up(
    log: CommitLog, until: Callable[..., None]
) -> None:
    with Follower(Path(log.path), "block") as follower:
        assert follower.line() == "ready"
        until(lambda: someone_waits(log))
        os.kill(follower.process.pid, signal.SIGKILL)
        follower.process.wait()
    before = parts_of(log).engine.cursors["append_signal"]
    log.append_many([b"x"] * 100)
    log.append(b"x")
    assert (
        parts_of(log).engine.cursors["append_signal"],
        parts_of(log).engine.cursors["waiters"],
    ) == (before + 1, 0)


def test_sleeper_across_a_reopen_is_woken_by_the_first_append(logs: Logs) -> None:
    log = logs.open()
    reader = logs.open(mode="r")
    seen = announce_sleeper(parts_of(reader).engine)
    log.close()
    log = logs.open()
    assert someone_waits(log)
    log.append(b"x")
    assert parts_of(reader).engine.cursors["append_signal"] == seen + 1
    assert not someone_waits(log)


@pytest.mark.parametrize("idle", IDLES)
def test_reader_without_write_permission_can_wait(
    tmp_path: Path, in_child: Callable[..., Any], idle: Any
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="commitlog-test-"))
    # Keep the set of files constant during the test.
    options = Options(segment_size=65536, tuning=Tuning(allocate_ahead=0))
    log = commitlog.open(directory / "log", "a", options)
    directory.chmod(0o755)
    (directory / "log").chmod(0o755)
    for file in (directory / "log").iterdir():
        file.chmod(0o444)

    def use() -> tuple[bool, bool, bytes]:
        if os.geteuid() == 0:
            os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
            os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
        with commitlog.open(directory / "log", "r", Options()) as reader:
            tailer = reader.tailer()
            assert tailer.read(timeout=0.02, idle=idle) is None  # one wait has timed out
            os.write(ready, b"x")
            record = tailer.read(timeout=60, idle=idle)
            assert record is not None
            return (
                parts_of(reader).engine.cursors.writable,
                parts_of(reader).engine.cursors["waiters"] != 0,
                record.value,
            )

    told, ready = os.pipe()
    appender = threading.Thread(target=lambda: (os.read(told, 1), log.append(b"came")))
    appender.start()
    try:
        outcome = in_child(use)
    finally:
        os.write(ready, b"x")
        appender.join()
        log.close()
        shutil.rmtree(directory)
        os.close(told)
        os.close(ready)
    assert outcome == (False, False, b"came")
