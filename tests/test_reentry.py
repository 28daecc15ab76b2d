"""Calls that interrupt another call of the same thread: from signal handlers, finalisers and log
handlers. None may hang, and no record may be lost or appear twice.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import itertools
import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

import commitlog
from commitlog import CommitLog, Retention
from commitlog.errors import ClosedError, CommitLogError, InUseError
from commitlog.log.parts import parts_of
from tests.interrupting import interrupted_at
from tests.setups import SEGMENT, Logs, values

BACKINGS = ["mapped", "anonymous", "shm"]
# Lines are interrupted at growing distances: the long tests do so at more of them.
APART = pytest.mark.parametrize("apart", [1, pytest.param(3, marks=pytest.mark.long)])


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    """End the process, with the stacks of all threads, if a test hangs."""
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


class Journal:
    """A log near the end of a segment, and the records that were acknowledged."""

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.done: list[bytes] = []
        self._numbers = itertools.count()
        while log.tail_position % SEGMENT < SEGMENT - 2000:
            self.append()

    def append(self, size: int = 1000, **options: Any) -> None:
        value = b"%08d" % next(self._numbers) + bytes(size - 8)
        self.log.append(value, **options)
        self.done.append(value)

    def append_many(self) -> None:
        values = [b"%08d" % next(self._numbers) + bytes(700) for _ in range(10)]
        self.log.append_many(values)
        self.done += values

    def append_over_segments(self) -> None:
        for _ in range(25):
            self.append(3000)


CALLS: dict[str, Callable[[Journal], object]] = {
    "roll": lambda journal: journal.append(3000),
    "sync": lambda journal: journal.append(3000, sync=True),
    "many": Journal.append_many,
    "producer": lambda journal: journal.append(3000, producer="p", producer_sequence=1),
    "close": lambda journal: journal.log.close(),
    "flush": lambda journal: journal.log.flush(),
    "prune": lambda journal: journal.log.prune(Retention(max_bytes="1GiB")),
    "delete": lambda journal: journal.log.delete_before(0),
    "pretouch": lambda journal: journal.log.pretouch(),
    "read": lambda journal: list(journal.log.tailer()),
    "tailer": lambda journal: journal.log.tailer("named").close(),
}
ACTS: dict[str, Callable[[Journal], object]] = {
    "append": Journal.append,
    "sync": lambda journal: journal.append(sync=True),
    "segments": Journal.append_over_segments,
    "close": lambda journal: journal.log.close(),
    "stats": lambda journal: journal.log.stats(),
    "delete": lambda journal: journal.log.delete_before(0),
    "tailer": lambda journal: list(journal.log.tailer("other").values()),
}


def opened(logs: Logs, backing: str, name: str) -> CommitLog:
    pool = None if backing == "mapped" else logs.pool(backing)
    return logs.open(name, pool=pool, allocate_ahead=0)


@pytest.mark.parametrize(
    ("backing", "call", "act"),
    [
        *[("mapped", call, act) for call in CALLS for act in ("append", "close")],
        *[("mapped", "roll", act) for act in ACTS],
        *[(backing, "roll", act) for backing in ("anonymous", "shm") for act in ACTS],
        *[("shm", call, act) for call in ("sync", "close") for act in ("append", "close")],
    ],
)
@APART
def test_call_in_the_middle_of_another_loses_nothing(
    logs: Logs, backing: str, call: str, act: str, apart: int
) -> None:
    line, more = 1, True
    while more:
        more = loses_nothing(logs, backing, line, CALLS[call], ACTS[act])
        line += 1 + line // apart


def loses_nothing(
    logs: Logs,
    backing: str,
    line: int,
    call: Callable[[Journal], object],
    act: Callable[[Journal], object],
) -> bool:
    """Interrupt a call at a line, and compare the log with what was acknowledged; return False if
    the call executes fewer lines.
    """
    journal, more = Journal(opened(logs, backing, str(line))), True

    def interrupt() -> None:
        with contextlib.suppress(ClosedError):  # the log is being closed, or was closed before
            act(journal)

    with contextlib.suppress(ClosedError):
        more = interrupted_at(line, lambda: call(journal), interrupt)
    journal.log.close()
    with logs.open(str(line), mode="r") as reader:
        assert Counter(values(reader)) == Counter(journal.done), line
    return more


def act_at_signals(act: Callable[[], object], call: Callable[[], object], signals: int) -> None:
    """Repeat a call until a handler has acted at so many signals."""
    handled = 0

    def handle(*_: object) -> None:
        nonlocal handled
        act()
        handled += 1
        signal.setitimer(signal.ITIMER_REAL, 0.002)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    try:
        while handled < signals:
            call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("backing", BACKINGS)
def test_signal_handler_appends_during_appends(logs: Logs, backing: str, sync: bool) -> None:
    journal = Journal(opened(logs, backing, "log"))
    act_at_signals(
        lambda: journal.append(sync=sync), lambda: journal.append(3000, sync=sync), signals=100
    )
    assert Counter(values(journal.log, visibility="appended")) == Counter(journal.done)


def test_signal_handler_closes_during_sync_appends_of_threads(logs: Logs) -> None:
    """As the handler of SIGTERM does; other threads append meanwhile."""
    for number in range(5):
        log = logs.open(str(number), flush="sync", allocate_ahead=0)
        done: list[bytes] = []

        def append(log: CommitLog = log, done: list[bytes] = done) -> None:
            with contextlib.suppress(ClosedError):
                while True:
                    value = os.urandom(3000)
                    log.append(value)
                    done.append(value)

        with ThreadPoolExecutor(3) as pool:
            appending = [pool.submit(append) for _ in range(3)]
            with contextlib.suppress(ClosedError):
                act_at_signals(log.close, lambda log=log: log.append(b"main"), signals=1)
            for thread in appending:
                thread.result(timeout=60)
        assert log.closed
        with logs.open(str(number), mode="r") as reader:
            assert set(done) <= set(values(reader))


@pytest.mark.parametrize("backing", BACKINGS)
def test_finaliser_appends_at_any_allocation(logs: Logs, backing: str) -> None:
    journal = Journal(opened(logs, backing, "log"))

    class Session:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            journal.append()

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(200):
            Session()
            journal.append(3000)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert Counter(values(journal.log, visibility="appended")) == Counter(journal.done)


class Appending(logging.Handler):
    """Appends each log message, and those of its own appends up to some depth."""

    def __init__(self) -> None:
        super().__init__()
        self.log: CommitLog | None = None
        self.messages: list[str] = []
        self._depth = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        depth = getattr(self._depth, "value", 0)
        if self.log is None or depth > 20:
            return
        self._depth.value = depth + 1
        try:
            self.log.append(record.getMessage().encode().ljust(900))
            self.messages.append(record.getMessage())
        except CommitLogError:
            pass
        finally:
            self._depth.value = depth


@pytest.fixture
def handler() -> Iterator[Appending]:
    """Have every log message of this process appended."""
    handler, root = Appending(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


def log_in_threads() -> None:
    """Log from two threads, so that each has the handler's lock when the log's threads log."""

    def log(_number: int) -> None:
        for number in range(400):
            logging.getLogger("program").warning("order %d failed", number)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(log, range(2), timeout=120))


@pytest.mark.parametrize(
    "case", ["low disk", "low pool", "exhausted pool", "growing pool", "slow listener", "cycles"]
)
def test_log_handler_appends_what_the_log_warns_of(
    logs: Logs, handler: Appending, case: str
) -> None:
    class Slow:
        def on_created(self, _segment: object) -> None:
            threading.Event().wait(0.05)

        on_sealed = on_released = on_deleted = on_created

    options: dict[str, Any] = {
        "low disk": lambda: {"warn_free_bytes": 0},
        "low pool": lambda: {"pool": logs.pool(buffers=3, low_water=0.5)},
        "exhausted pool": lambda: {"pool": logs.pool("shm", buffers=1, on_exhausted="mapped")},
        "growing pool": lambda: {
            "pool": logs.pool("shm", buffers=1, on_exhausted="grow", max_buffers=3)
        },
        "slow listener": lambda: {"listener": Slow()},
        "cycles": lambda: {"roll_cycle": "20ms"},
    }[case]()
    handler.log = logs.open(allocate_ahead=0, **options)
    if case == "low disk":
        parts_of(handler.log).writer.allocation.disk._warn = 1 << 60  # type: ignore[union-attr]
    log_in_threads()
    log, handler.log = handler.log, None
    log.close()
    with logs.open(mode="r") as reader:
        appended = Counter(value.decode().rstrip() for value in values(reader))
    assert appended == Counter(handler.messages)
    if case == "low disk":
        assert any("bytes are free" in message for message in handler.messages)
    if case == "low pool":
        assert any("running low" in message for message in handler.messages)


@pytest.mark.parametrize("on_lag", ["drop", "wait"])
def test_log_handler_appends_at_the_limit_of_a_tailer(
    logs: Logs, handler: Appending, on_lag: str
) -> None:
    log = logs.open(on_lag=on_lag, evict_after=0.01, lag_timeout=60)
    log.tailer("slow", required=True, max_lag="4KiB")
    handler.log = log
    for _ in range(30):
        log.append(bytes(1000))
    handler.log = None
    said = "dropped" if on_lag == "drop" else "evicted"
    assert sum(said in message for message in handler.messages) == 1


@pytest.mark.parametrize("method", ["created", "sealed", "released", "deleted"])
def test_listener_appends_to_its_log(logs: Logs, method: str) -> None:
    class Listener:
        log: CommitLog | None = None
        calls = 0

    def act(self: Listener, _segment: object) -> None:
        if self.log is not None:
            self.calls += 1
            with contextlib.suppress(ClosedError):
                self.log.append(b"event".ljust(3000))

    setattr(Listener, f"on_{method}", act)
    listener = Listener()
    log = logs.open(listener=listener, allocate_ahead=0)
    listener.log = log
    for _ in range(200):
        log.append(bytes(3000))
    log.flush()
    log.delete_before(log.tail_position)
    log.close()
    assert listener.calls > 0


def test_producer_that_interrupts_itself_is_refused_at_once(logs: Logs) -> None:
    log = logs.open(allocate_ahead=0)
    refused = 0

    def append(number: int) -> None:
        log.append(bytes(3000), producer="p", producer_sequence=number)

    def interrupt() -> None:
        nonlocal refused
        with contextlib.suppress(InUseError):
            append(1_000_000)
            return
        refused += 1

    for number in range(40):
        interrupted_at(2 + number, lambda number=number: append(number), interrupt)
    assert refused > 0
    assert log.append(b"", producer="p", producer_sequence=39) >= 0  # a repeat


class Note(msgspec.Struct):
    text: str


@pytest.mark.wing
@APART
def test_topic_append_interrupts_topic_append(logs: Logs, apart: int) -> None:
    log = logs.open(allocate_ahead=0)
    topic = commitlog.topic(log, Note)
    line, more, count = 1, True, 0
    while more:
        more = interrupted_at(
            line, lambda: topic.append(Note("x" * 3000)), lambda: topic.append(Note("y"))
        )
        line += 1 + line // apart
        count += 1 + more
    assert len(list(topic.tailer())) == count


@pytest.mark.parametrize("backing", BACKINGS)
def test_thread_that_waits_under_a_turn_stops_no_appender(logs: Logs, backing: str) -> None:
    """A signal handler may wait, in the middle of a roll, for a thread that appends."""
    log = opened(logs, backing, "log")
    journal = Journal(log)

    def wait_for_another() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(journal.append, 3000).result(timeout=60)

    for line in (5, 40, 90, 150, 250):
        while log.tail_position % SEGMENT < SEGMENT - 2000:
            journal.append()
        interrupted_at(line, lambda: journal.append(3000), wait_for_another)
    log.flush()
    assert Counter(values(log)) == Counter(journal.done)
    assert parts_of(log).engine.failed == 0
