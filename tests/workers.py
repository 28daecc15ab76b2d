"""Runs the collected tests in forks of this process: `--workers N`.

Each fork has what was imported and collected once, which takes longer than any of the tests. A fork
runs the tests of one group after the other, and a fork that dies is replaced.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from types import SimpleNamespace
from typing import Any

import pytest

Group = deque[int]  # the places of its tests among those collected


@dataclass(eq=False)
class Worker:
    """What the first process knows of a fork."""

    number: int
    pid: int
    channel: Connection
    end: int  # a descriptor that is readable when the fork has ended
    tests: Group = field(default_factory=Group)  # those that it has and did not finish
    has_all: bool = False

    def give(self, groups: deque[Group]) -> None:
        """Send the next group: a fork asks for it when it starts the last test that it has, because
        a test leaves to the next what both need.
        """
        group = groups.popleft() if groups else Group()
        self.has_all = not group
        self.tests += group
        self.channel.send(list(group))


def groups_of(items: Sequence[pytest.Item], group_of: Callable[[str], str]) -> deque[Group]:
    """Return the places of the tests by their group, in the order of the groups' first tests."""
    found: dict[str, Group] = {}
    for place, item in enumerate(items):
        found.setdefault(group_of(item.nodeid), Group()).append(place)
    return deque(found.values())


class Workers:
    """The plugin of the first process.

    Parameters
    ----------
    count : int
        How many forks run at a time.
    group_of : callable
        Returns the group of a test by its id. One fork runs all tests of a group, in their order.
    """

    def __init__(self, config: pytest.Config, count: int, group_of: Callable[[str], str]) -> None:
        self._config = config
        self._count = count
        self._group_of = group_of
        self._workers: list[Worker] = []
        self._started = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly or not session.items:
            return None  # pytest itself says so
        assert threading.enumerate() == [threading.main_thread()], "forks would lack a thread"
        groups = groups_of(session.items, self._group_of)
        # All forks have their folders in the one of this process, which it removes at its end.
        folders: Any = self._config._tmp_path_factory  # type: ignore[attr-defined]
        folders.getbasetemp()
        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        terminal.showfspath = False  # the tests of many files end in turn
        try:
            for _ in range(min(self._count, len(groups))):
                self._start(session, groups)
            while self._workers:
                ends = [worker.end for worker in self._workers]
                ready = wait([*ends, *(worker.channel for worker in self._workers)])
                for worker in [*self._workers]:
                    if worker.channel in ready:
                        self._receive(session, worker, groups)
                    elif worker.end in ready:
                        self._replace(session, worker, groups)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
        finally:
            for worker in self._workers:
                signal.pidfd_send_signal(worker.end, signal.SIGTERM)
                os.waitpid(worker.pid, 0)
        return True

    def _start(self, session: pytest.Session, groups: deque[Group]) -> None:
        ours, theirs = Pipe()
        number = self._started
        self._started += 1
        pid = os.fork()
        if pid == 0:
            for worker in self._workers:
                worker.channel.close()
            ours.close()
            Fork(session, number, theirs).run()
        theirs.close()
        worker = Worker(number, pid, ours, os.pidfd_open(pid))
        self._workers.append(worker)
        worker.give(groups)

    def _receive(self, session: pytest.Session, worker: Worker, groups: deque[Group]) -> None:
        """Do what a message of a fork says: its end, a warning, or the reports of a test."""
        name: str = "end"
        content: Any = None
        with contextlib.suppress(EOFError, OSError):
            name, content = worker.channel.recv()
        hook = self._config.hook
        if name == "end":
            self._replace(session, worker, groups)
        elif name == "more":
            worker.give(groups)
        elif name == "warning":
            hook.pytest_warning_recorded.call_historic(kwargs=content)
        else:
            reports = [
                hook.pytest_report_from_serializable(config=self._config, data=data)
                for data in content
            ]
            self._show(session.items[worker.tests.popleft()], reports)

    def _show(self, item: pytest.Item, reports: Sequence[pytest.TestReport]) -> None:
        where = {"nodeid": item.nodeid, "location": item.location}
        self._config.hook.pytest_runtest_logstart(**where)
        for report in reports:
            self._config.hook.pytest_runtest_logreport(report=report)
        self._config.hook.pytest_runtest_logfinish(**where)

    def _replace(self, session: pytest.Session, worker: Worker, groups: deque[Group]) -> None:
        """Report the test in which a fork died, and let another run those that it left."""
        self._workers.remove(worker)
        worker.channel.close()
        os.close(worker.end)
        status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if not worker.tests and worker.has_all and not status:
            return
        item = session.items[worker.tests.popleft() if worker.tests else -1]
        said = f"signal {-status}" if status < 0 else f"status {status}"
        message = f"worker {worker.number} ended with {said} while it ran this test"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", message, "call")
        self._show(item, [report])
        if worker.tests:
            groups.appendleft(worker.tests)
        if groups:
            self._start(session, groups)


class Fork:
    """The plugin of a fork, which runs the tests that the first process sends."""

    def __init__(self, session: pytest.Session, number: int, channel: Connection) -> None:
        self._session = session
        self._config = session.config
        self._number = number
        self._channel = channel
        self._tests = Group()
        self._reports: list[Any] = []
        self._is_parted = False

    def run(self) -> None:
        """Run all tests, and end the process."""
        status = 1
        try:
            self._part()
            self._run_all()
            status = 0
        except KeyboardInterrupt:
            pass
        except BaseException:  # noqa: BLE001 - shown here, as the fork ends without the interpreter
            traceback.print_exc()
        finally:
            os._exit(status)

    def _part(self) -> None:
        """Share no file, folder or terminal with the other processes."""
        manager = self._config.pluginmanager
        terminal: Any = manager.unregister(name="terminalreporter")
        # pytest-timeout writes the stacks of a test that hangs.
        manager.register(SimpleNamespace(_tw=terminal._tw), "terminalreporter")
        manager.register(self)  # which repeats the warnings so far
        self._is_parted = True
        capture: Any = manager.getplugin("capturemanager")
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
        folders: Any = self._config._tmp_path_factory  # type: ignore[attr-defined]
        folders._basetemp = folders.getbasetemp() / f"worker{self._number}"
        folders._basetemp.mkdir(mode=0o700)

    def _run_all(self) -> None:
        items = self._session.items
        self._tests += self._channel.recv()
        while self._tests:
            place = self._tests.popleft()
            if not self._tests:
                self._channel.send(("more", None))
                self._tests += self._channel.recv()
            following = items[self._tests[0]] if self._tests else None
            self._reports = []
            self._config.hook.pytest_runtest_protocol(item=items[place], nextitem=following)
            self._channel.send(("reports", self._reports))

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(data)

    @pytest.hookimpl
    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        if not self._is_parted:
            return
        text = warnings.WarningMessage(
            str(warning_message.message),
            warning_message.category,
            warning_message.filename,
            warning_message.lineno,
        )
        content = {"warning_message": text, "when": when, "nodeid": nodeid, "location": location}
        self._channel.send(("warning", content))
