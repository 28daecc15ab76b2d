"""Child processes to be killed, and the pipe over which they report what was acknowledged to them.

A child writes a report after the call has returned. Everything that the parent finds in the pipe
was therefore acknowledged, even after the child's death. What was acknowledged but not yet reported
when the signal arrived is unknown to the parent.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.host import Host, host_of

ROOT = Path(__file__).resolve().parents[2]
TIME_LIMIT_S = 90.0
OWN_MOUNTS = ("unshare", "--mount")  # a launcher that gives a child mounts of its own
_REPORT = struct.Struct("<cqqq")
_F_SETPIPE_SZ = 1031
# What most targets import.
_IMPORTED = ("pytest", "tests.faults.writers", "tests.faults.account", "tests.faults.image")
_PIPE_SIZE = 1 << 20  # so that a writer rarely waits for the parent


class Report(NamedTuple):
    """A report of a child: a kind of one letter and three numbers, whose meaning the target
    defines.
    """

    kind: str
    session: int = 0
    index: int = 0
    position: int = 0


class Link:
    """The child's end of the pipes: reports out, single bytes of permission in."""

    def __init__(self, out: int, into: int) -> None:
        self._out = out
        self._into = into

    def say(self, kind: str, session: int = 0, index: int = 0, position: int = 0) -> None:
        """Report in one write, which a pipe takes completely or not at all."""
        os.write(self._out, _REPORT.pack(kind.encode(), session, index, position))

    def wait(self) -> None:
        """Wait until the parent lets the child continue; exit if the parent has gone."""
        if not os.read(self._into, 1):
            os._exit(3)


Target = Callable[..., None]


class Child:
    """A process that runs ``target(link, *arguments)``: a fork, or a new interpreter if `launcher`
    or `environment` is given. A child that only preloads the shim, or only has mounts of its own,
    is a fork of a host instead.

    Parameters
    ----------
    target : callable
        A function of a module's top level.
    arguments : object
        For a new interpreter, values that JSON can hold.
    launcher : sequence of str
        Command in front of the interpreter's command line, such as ``unshare -m``.
    environment : dict, optional
        Variables added to those of this process; even an empty one starts a new interpreter.
    ahead : int
        Bytes of reports that the child may be ahead of the parent before it waits.
    """

    def __init__(
        self,
        target: Target,
        *arguments: Any,
        launcher: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        ahead: int = _PIPE_SIZE,
    ) -> None:
        self._in, out = os.pipe()
        into, self._out = os.pipe()
        fcntl.fcntl(self._in, _F_SETPIPE_SZ, ahead)
        self._buffer = b""
        self.status: int | None = None
        name = f"{target.__module__}:{target.__qualname__}"
        variables = os.environ | {"PYTHONPATH": str(ROOT)} | (environment or {})
        preloaded = (environment or {}).get("LD_PRELOAD", "")
        own_mounts = tuple(launcher) == OWN_MOUNTS
        if own_mounts or (preloaded and not launcher):
            self.pid = host_with(preloaded).start(
                "tests.faults.child:run_target",
                [name, json.dumps(arguments)],
                streams={0: 0, 1: 1, 2: 2},
                descriptors=(out, into),
                environment=variables,
                own_mounts=own_mounts,
            )
        elif launcher or environment is not None:
            command = [
                *launcher,
                sys.executable,
                "-m",
                "tests.faults.child",
                name,
                json.dumps(arguments),
                str(out),
                str(into),
            ]
            self._process = subprocess.Popen(command, cwd=ROOT, env=variables, pass_fds=(out, into))
            self.pid = self._process.pid
        else:
            self.pid = os.fork()
            if self.pid == 0:
                os.close(self._in)
                os.close(self._out)
                _run(target, Link(out, into), arguments)
        os.close(out)
        os.close(into)

    # --- reports ----------------------------------------------------------------------------------

    def hear(self, count: int, limit_s: float = TIME_LIMIT_S) -> list[Report]:
        """Return the next `count` reports; fail if the child ends before."""
        deadline = time.monotonic() + limit_s
        while len(self._buffer) < count * _REPORT.size:
            left = deadline - time.monotonic()
            assert left > 0, f"the child said nothing for {limit_s:g} s"
            if select.select([self._in], [], [], left)[0]:
                data = os.read(self._in, _PIPE_SIZE)
                assert data, (
                    f"the child ended early, with status {self.wait()}; its traceback is in the "
                    "captured output"
                )
                self._buffer += data
        return self._take(count)

    def alive(self) -> bool:
        """Return whether the child still runs."""
        if (
            self.status is None
            and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        ):
            self.wait()
        return self.status is None

    def hear_some(self) -> list[Report]:
        """Return the reports available now or within 10 ms."""
        if select.select([self._in], [], [], 0.01)[0]:
            self._buffer += os.read(self._in, _PIPE_SIZE)
        return self._take(len(self._buffer) // _REPORT.size)

    def hear_rest(self) -> list[Report]:
        """Return all reports that a dead child has left in the pipe."""
        assert self.status is not None, "the child lives"
        os.set_blocking(self._in, False)
        try:
            while data := os.read(self._in, _PIPE_SIZE):
                self._buffer += data
        except BlockingIOError:
            pass  # a child of the child still has the pipe open
        return self._take(len(self._buffer) // _REPORT.size)

    def pause(self) -> list[Report]:
        """Stop the child with SIGSTOP and return its reports so far; `resume` continues it."""
        os.kill(self.pid, signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), "the child had ended"
        while select.select([self._in], [], [], 0)[0]:
            self._buffer += os.read(self._in, _PIPE_SIZE)
        return self._take(len(self._buffer) // _REPORT.size)

    def resume(self) -> None:
        """Continue the child after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def _take(self, count: int) -> list[Report]:
        data, self._buffer = (
            self._buffer[: count * _REPORT.size],
            self._buffer[count * _REPORT.size :],
        )
        return [Report(kind.decode(), *numbers) for kind, *numbers in _REPORT.iter_unpack(data)]

    def go_on(self) -> None:
        """Let the child continue after its `Link.wait`."""
        os.write(self._out, b"!")

    # --- its end ----------------------------------------------------------------------------------

    def kill(self) -> list[Report]:
        """Kill the child and return its reports so far."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL
        return self.hear_rest()

    def kill_if_alive(self) -> list[Report]:
        """Kill a child that may be ending and return its reports; `status` tells which came
        first.
        """
        os.kill(self.pid, signal.SIGKILL)
        assert self.wait() in (-signal.SIGKILL, 0), (
            "the child failed; its traceback is in the captured output"
        )
        return self.hear_rest()

    def wait(self) -> int:
        """Wait for the child's end and return its exit status, negative for a signal."""
        if self.status is None:
            ended = os.pidfd_open(self.pid)
            try:
                done, _, _ = select.select([ended], [], [], TIME_LIMIT_S)
            finally:
                os.close(ended)
            assert done, f"the child did not end within {TIME_LIMIT_S:g} s"
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            if hasattr(self, "_process"):
                self._process.returncode = self.status
        return self.status

    def join(self) -> list[Report]:
        """Wait for the child to end successfully, and return its remaining reports."""
        status = self.wait()
        assert status == 0, (
            f"the child ended with status {status}; its traceback is in the captured output"
        )
        return self.hear_rest()

    def end(self) -> None:
        """Kill the child if it still runs, and close the pipes."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        for descriptor in (self._in, self._out):
            if descriptor >= 0:
                os.close(descriptor)
        self._in = self._out = -1


def _run(target: Target, link: Link, arguments: Sequence[Any]) -> None:
    """Run the target and exit without running anything of the parent's test machinery."""
    status = 1
    try:
        target(link, *arguments)
        status = 0
    finally:
        if status:
            os.write(2, traceback.format_exc().encode())
        os._exit(status)


def host_with(library: str) -> Host:
    """Return the host that preloads a library, or none if it is empty."""
    return host_of(_IMPORTED, (), (("LD_PRELOAD", library),))


def run_target(name: str, arguments: str, out: int, into: int) -> None:
    """Run a target given as ``module:function``, with arguments in JSON, and exit."""
    module, _, function = name.partition(":")
    target = getattr(importlib.import_module(module), function)
    _run(target, Link(out, into), json.loads(arguments))


if __name__ == "__main__":
    run_target(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
