"""ServingChild: one process that serves logs, with requests, answers and events over its pipes."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from io import RawIOBase
from multiprocessing.spawn import get_executable
from typing import Any, cast

from commitlog import errors
from commitlog.errors import CommitLogError, ReplicationError
from commitlog.network.remote.sockets import close_in_child

_logger = logging.getLogger("commitlog.replication")
# Imports the package of this program, also if its place is on no path that the process has.
_START = """\
import json, sys
from importlib.util import module_from_spec, spec_from_file_location
path, places = json.loads(sys.stdin.readline())
sys.path[:] = path
spec = spec_from_file_location(
    "commitlog", places[0] + "/__init__.py", submodule_search_locations=places)
sys.modules["commitlog"] = module = module_from_spec(spec)
spec.loader.exec_module(module)
from commitlog.network.replication.serving_program import main
main()
"""


class ServingChild:
    """Start a process that runs `serving_program`, and talk to it. Any thread may ask it.

    Parameters
    ----------
    settings : dict
        What the program gets first.
    on_event : callable
        Takes what the process says without a request, in a thread of its own.
    on_end : callable
        Called in the same thread after the process has ended, with this object.

    Raises
    ------
    ReplicationError
        The process cannot be started.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        on_event: Callable[[dict[str, Any]], None],
        on_end: Callable[[ServingChild], None],
    ) -> None:
        self._on_event = on_event
        self._on_end = on_end
        self._writing = threading.Lock()
        self._lock = threading.Lock()  # not held while a pipe is full
        self._numbers = itertools.count()
        self._answers: dict[int, Future[Any]] = {}  # of requests without an answer
        self._ended = False
        try:
            self._process = _start_program()
        except OSError as error:
            raise _unstarted(error) from error
        try:
            close_in_child(cast(RawIOBase, self._process.stdin))
            for line in (_paths(), settings):
                self._write(line)
            threading.Thread(target=self._listen, name="commitlog serving", daemon=True).start()
        except (OSError, RuntimeError) as error:
            self.end()
            raise _unstarted(error) from error

    @property
    def pid(self) -> int:
        """Return the process's id."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Return the status with which the process has ended."""
        return self._process.returncode

    def ask(self, act: str, limit_s: float, **content: Any) -> Any:
        """Send a request and return its result; raise the error that the process reports."""
        answer: Future[Any] = Future()
        with self._lock:
            if self._ended:
                raise _dead()
            number = next(self._numbers)
            self._answers[number] = answer
        try:
            self._send({"do": act, "number": number, **content})
            return answer.result(None if limit_s == float("inf") else limit_s)
        except TimeoutError:
            raise ReplicationError(
                f"the process {self.pid}, which serves the logs, did not answer for {limit_s:g} s: "
                "is it stopped?"
            ) from None
        finally:
            with self._lock:
                self._answers.pop(number, None)

    def _send(self, request: dict[str, Any]) -> None:
        try:
            with self._writing:
                self._write(request)
        except (OSError, ValueError):  # ValueError: the pipe is closed
            raise _dead() from None

    def _write(self, content: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(content).encode() + b"\n")

    def end(self) -> None:
        """Kill the process; a second call does nothing."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()

    # --- the thread -------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Take what the process says until it ends. Nothing that it says ends this thread before.

        Requests of other threads come at any moment: each answer is given once.
        """
        assert self._process.stdout is not None
        with (
            open(self._process.stdout.fileno(), "rb", closefd=False) as lines,
            self._process.stdout,
        ):
            for line in lines:
                try:
                    self._take(line)
                except Exception:
                    _logger.exception("what process %d says cannot be used", self.pid)
        with self._lock:
            self._ended = True
            waiting, self._answers = self._answers, {}
        for answer in waiting.values():
            answer.set_exception(_dead())
        self._on_end(self)

    def _take(self, line: bytes) -> None:
        if not line.endswith(b"\n"):
            return  # the process was killed while it wrote
        said = json.loads(line)
        if "number" not in said:
            self._on_event(said)
            return
        with self._lock:
            answer = self._answers.pop(said["number"], None)
        if answer is None:
            return  # its caller has given up
        if "error" in said:
            answer.set_exception(_error_of(said))
        else:
            answer.set_result(said["result"])


def _start_program() -> subprocess.Popen[bytes]:
    """Start an interpreter that imports nothing from the working directory.

    It has the flags of this one, and gets its path by a pipe: neither the working directory nor
    PYTHONPATH may have a module that it imports before.
    """
    flags = ["-P"]
    for flag, is_set in (
        ("-I", sys.flags.isolated),
        ("-E", sys.flags.ignore_environment),
        ("-s", sys.flags.no_user_site),
    ):
        if is_set:
            flags.append(flag)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.Popen(
        [os.fsdecode(get_executable() or sys.executable), *flags, "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
        env=environment,
    )


def _paths() -> list[list[str]]:
    """Return the path of this program without the working directory, and the package's places."""
    path = [each for each in map(str, sys.path) if os.path.isabs(each)]
    return [path, [os.path.abspath(each) for each in sys.modules["commitlog"].__path__]]


def _dead() -> ReplicationError:
    return ReplicationError("the process that serves the logs has ended: try again")


def _unstarted(error: Exception) -> ReplicationError:
    return ReplicationError(f"the process that serves the logs cannot be started: {error}")


def _error_of(said: dict[str, Any]) -> CommitLogError:
    kind: type[CommitLogError] = getattr(errors, said["error"])
    return kind(said["message"], path=said["path"], position=said["position"])
