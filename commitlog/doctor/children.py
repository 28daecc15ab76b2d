"""Children: forked processes that do a part of a check and report the result."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

LIMIT_S = 20.0


class ChildError(OSError):
    """A child process failed, died, or took too long."""


class Children:
    """Start child processes. Leaving the context kills all of them, also after an exception."""

    def __init__(self) -> None:
        self._pids: list[int] = []
        self._answers: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for pid in self._pids[:]:
            self.kill(pid)

    def start(self, work: Callable[[], Any]) -> int:
        """Fork a child that runs `work`; return its process id.

        The result of `work` must be serializable as JSON.
        """
        answer, send = os.pipe()
        pid = os.fork()
        if pid == 0:
            _run(work, send)
        os.close(send)
        self._pids.append(pid)
        self._answers[pid] = answer
        return pid

    def answer(self, pid: int, limit_s: float = LIMIT_S) -> Any:
        """Wait for a child to end; return the result of its work.

        Raises
        ------
        ChildError
            The work raised, the child died, or `limit_s` expired.
        """
        received = bytearray()
        deadline = time.monotonic() + limit_s
        while select.select([self._answers[pid]], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(self._answers[pid], 65536)
            if not piece:
                break
            received += piece
        else:
            self.kill(pid)
            raise ChildError(f"a child process did not end within {limit_s:g} s")
        self.kill(pid)
        if not received:
            raise ChildError("a child process died without an answer")
        fine, result = json.loads(received)
        if not fine:
            raise ChildError(result)
        return result

    def kill(self, pid: int) -> None:
        """Kill a child by SIGKILL and reap it."""
        if pid in self._pids:
            self._pids.remove(pid)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(self._answers.pop(pid))


def _run(work: Callable[[], Any], send: int) -> None:
    """Run `work` in the child, send the result, and exit without the parent's exit handlers."""
    try:
        try:
            answer = json.dumps((True, work()))
        except BaseException as error:  # noqa: BLE001 - a child never returns into its parent's code
            answer = json.dumps((False, f"{type(error).__name__}: {error}"))
        os.write(send, answer.encode())
    finally:
        os._exit(0)
