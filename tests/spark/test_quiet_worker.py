"""Workers whose connection Spark has closed."""

from __future__ import annotations

import socket
import sys

import pytest
from pyspark import daemon

from commitlog.spark import quiet_worker


def test_planning_worker_with_closed_connection_ends_silently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = socket.socketpair()

    def work(sock: socket.socket, authenticated: bool) -> int:
        sock.sendall(b"an answer that Spark does not read")
        return 0

    monkeypatch.setattr(daemon, "worker", work)
    monkeypatch.setitem(sys.modules, "__main__", daemon)
    quiet_worker.quiet_planner()
    with ours:
        assert vars(daemon)["worker"](ours, True) == 0
        theirs.close()
        assert vars(daemon)["worker"](ours, True) == 1


def test_quiet_planner_changes_no_other_program(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(vars(sys.modules["__main__"]))
    quiet_worker.quiet_planner()
    assert vars(sys.modules["__main__"]) == before
