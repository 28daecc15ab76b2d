"""Child: a process of the demo's own, started, asked, killed."""

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
    """A process of the demo's did not do its part."""


class Child:
    """A Python process that runs one of the modules beside this one, with its job as JSON and the
    counters.

    It has a session of its own, so that Ctrl-C reaches the demo alone, which then ends its children
    in order.

    Parameters
    ----------
    module : str
        "writer", "reader" or "comparison".
    job : dict
        What it is to do.
    counters : Counters
        Shared with it.
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
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def ask(self) -> dict[str, Any]:
        """Send a line, wait for the answering line of JSON."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"report\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildError(
                f"the {self.module} process has ended by itself: see its message above"
            ) from None
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Wait for a line of JSON."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildError(
                f"the {self.module} process ended without an answer: see its message above"
            )
        return dict(json.loads(line))

    def kill(self) -> None:
        """SIGKILL: it cannot refuse, clean up or even notice."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        if self._process.returncode != -signal.SIGKILL:
            raise ChildError(
                f"the {self.module} process ended by itself ({self._process.returncode}) before "
                "it could be killed"
            )

    def expect_success(self, timeout: float) -> None:
        """Wait for its end, which must be a good one."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ChildError(
                f"the {self.module} process did not end within {timeout:g} s"
            ) from None
        if code != 0:
            raise ChildError(
                f"the {self.module} process failed with exit code {code}: see its message above"
            )

    def end(self) -> None:
        """Have it end, in order if it does so soon."""
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
    """In the child: the counters and the job. A SIGTERM ends it from then on through its `with`
    blocks; later ones, which would interrupt the ending itself, are ignored."""
    signal.signal(signal.SIGTERM, _end)
    return Counters(int(sys.argv[1])), dict(json.loads(sys.argv[2]))


def run(main: Callable[[], None]) -> None:
    """In the child: all of it. A SIGTERM that finds it at its end is ignored: what runs at exit is
    not to be interrupted.
    """
    try:
        main()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def tell(answer: dict[str, Any]) -> None:
    """In the child: answer the parent."""
    print(json.dumps(answer), flush=True)
