"""Children: forked processes that do a part of a check and say what came of it."""

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
    """A child did not do its part."""


class Children:
    """Start child processes; leaving the context ends all of them, also after an exception."""

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
        """Fork a child that runs `work`; what that returns goes into JSON. The child's process
        number.
        """
        answer, say = os.pipe()
        pid = os.fork()
        if pid == 0:
            _live(work, say)
        os.close(say)
        self._pids.append(pid)
        self._answers[pid] = answer
        return pid

    def answer(self, pid: int, limit_s: float = LIMIT_S) -> Any:
        """What a child's work returned; the child has ended then.

        Raises
        ------
        ChildError
            It raised, died, or took longer than it may.
        """
        said = bytearray()
        deadline = time.monotonic() + limit_s
        while select.select([self._answers[pid]], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(self._answers[pid], 65536)
            if not piece:
                break
            said += piece
        else:
            self.kill(pid)
            raise ChildError(f"a child process did not end within {limit_s:g} s")
        self.kill(pid)
        if not said:
            raise ChildError("a child process died without a word")
        fine, result = json.loads(said)
        if not fine:
            raise ChildError(result)
        return result

    def kill(self, pid: int) -> None:
        """End a child by SIGKILL, and wait until it is gone."""
        if pid in self._pids:
            self._pids.remove(pid)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(self._answers.pop(pid))


def _live(work: Callable[[], Any], say: int) -> None:
    """A child's whole life. Nothing of the parent's is run or flushed at its end."""
    try:
        try:
            words = json.dumps((True, work()))
        except BaseException as error:  # noqa: BLE001 - a child never gets back into its parent's code
            words = json.dumps((False, f"{type(error).__name__}: {error}"))
        os.write(say, words.encode())
    finally:
        os._exit(0)
