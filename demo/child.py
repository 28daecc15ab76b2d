"""Child: a process of the demo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from counters import Counters

_HERE = os.path.dirname(os.path.abspath(__file__))
_PATIENCE_S = 5.0


class ChildError(Exception):
    """A process of the demo failed."""


class Child:
    """Run a module of the demo in a Python process, with its job as JSON.

    The process has its own session, so that Ctrl-C reaches only the parent, which then ends its
    children in order.

    Parameters
    ----------
    module : str
        "writer", "reader" or "comparison".
    job : dict
        The arguments of the job.
    counters : Counters
        The counters, shared with the process.
    """

    def __init__(self, module: str, job: dict[str, Any], counters: Counters) -> None:
        self.module = module
        self._process = subprocess.Popen(
            [
                sys.executable,
                os.path.join(_HERE, f"{module}.py"),
                str(counters.descriptor),
                json.dumps(job),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(counters.descriptor,),
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Return whether the process has not ended."""
        return self._process.poll() is None

    def ask(self) -> dict[str, Any]:
        """Ask for a report, and wait for the line of JSON."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"report\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildError(f"the {self.module} process has ended; its message is above") from None
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Wait for a line of JSON."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildError(
                f"the {self.module} process ended without an answer; its message is above"
            )
        return dict(json.loads(line))

    def kill(self) -> None:
        """Kill the process by SIGKILL."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        if self._process.returncode != -signal.SIGKILL:
            raise ChildError(
                f"the {self.module} process ended with {self._process.returncode} before the kill"
            )

    def expect_success(self, timeout: float) -> None:
        """Wait until the process ends with exit code 0."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ChildError(
                f"the {self.module} process did not end within {timeout:g} s"
            ) from None
        if code != 0:
            raise ChildError(
                f"the {self.module} process failed with exit code {code}; its message is above"
            )

    def end(self) -> None:
        """Terminate the process; kill it if it does not end in time."""
        if self.running:
            self._process.terminate()
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def task() -> tuple[Counters, dict[str, Any]]:
    """Return, in the child, the counters and the job. From now on SIGTERM raises SystemExit, so
    that `with` blocks end; a second one is ignored.
    """
    signal.signal(signal.SIGTERM, _end)
    return Counters(int(sys.argv[1])), dict(json.loads(sys.argv[2]))


def run(main: Callable[[], None]) -> None:
    """Run `main` in the child. A SIGTERM during the exit of the interpreter is ignored."""
    try:
        main()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def tell(answer: dict[str, Any]) -> None:
    """Answer the parent, in the child."""
    print(json.dumps(answer), flush=True)
