"""ServingProcess: the process that serves the open logs of this one."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from io import RawIOBase
from multiprocessing.spawn import get_executable
from typing import Any, NamedTuple, cast

from commitlog import errors
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import CommitLogError, InvalidOptionError, ReplicationError
from commitlog.recovery.lineage import Rank
from commitlog.remote.sockets import close_in_child
from commitlog.replication.server import Port, checked_copies, name_of, twice, url_of

_logger = logging.getLogger("commitlog.replication")
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.stdin.readline());"
    "from commitlog.replication.serving_program import main; main()"
)
_ANSWER_S = 30.0
_CLOSE_S = 3.0
_PAUSE_S = 1.0  # before a process that has died is started again


class _Log(NamedTuple):
    path: str
    require: int
    on_fence: Callable[[Rank], None]


class ServingProcess:
    """Serve open logs in a process of its own, so that followers and acknowledgements do not wait
    for this program's threads, nor these for them.

    `Replication.server` returns it. The process ends with this one. If it dies, it is started
    again, and followers connect again.

    Parameters
    ----------
    port : Port
        Where it listens.
    """

    def __init__(self, port: Port) -> None:
        self._settings = port
        self._logs: dict[str, _Log] = {}
        self._lock = threading.Lock()
        self._answers: dict[int, Future[Any]] = {}
        self._number = 0
        self._closing = False
        self._address = port.address
        self._port = self._address.port
        self._pid = os.getpid()
        self._process = self._started()

    # --- as the server of `serve` -----------------------------------------------------------------

    @property
    def port(self) -> int:
        """Return the port that the server listens on."""
        return self._port

    @property
    def pid(self) -> int:
        """Return the process's id."""
        return self._process.pid

    @property
    def names(self) -> list[str]:
        """Return the names of the logs."""
        return list(self._logs)

    def url(self, name: str | None = None) -> str:
        """Return the URL of a log, by default of the first one, as this machine reaches it."""
        return url_of(self._address, self._port, self._name_of(name))

    def followers(self, log: str | None = None) -> dict[str, int]:
        """Return up to which position each follower has a log durably, by the follower's name."""
        found: dict[str, int] = self._ask("followers", log=self._name_of(log))
        return found

    def replicated_position(self, copies: int = 1, *, log: str | None = None) -> int:
        """Return the position up to which so many followers have a log durably."""
        reached: int = self._ask("reached", log=self._name_of(log), copies=checked_copies(copies))
        return reached

    def wait_replicated(
        self,
        position: int,
        *,
        copies: int = 1,
        timeout: Duration | None = None,
        log: str | None = None,
    ) -> bool:
        """Wait until the record at a position is durable here and on other machines: see
        `Server.wait_replicated`.
        """
        limit_s = None if timeout is None else parse_duration(timeout, "timeout")
        done: bool = self._ask(
            "wait",
            limit_s=float("inf") if limit_s is None else limit_s + _ANSWER_S,
            log=self._name_of(log),
            position=position,
            copies=checked_copies(copies),
            timeout_s=limit_s,
        )
        return done

    def _name_of(self, log: str | None) -> str:
        name = self.names[0] if log is None else log
        if name not in self._logs:
            raise InvalidOptionError(f"no log of the name {name!r} is served: see `names`")
        return name

    # --- logs -------------------------------------------------------------------------------------

    def _add(self, path: str, require: int, on_fence: Callable[[Rank], None]) -> None:
        """Serve a log; `on_fence` gets the epoch of a copy that was promoted."""
        name = name_of(path)
        if name in self._logs:
            raise twice(name)
        self._logs[name] = _Log(path, require, on_fence)
        try:
            self._port = self._ask("add", path=path, name=name, require=require)
        except BaseException:
            del self._logs[name]
            raise

    def _remove(self, name: str) -> bool:
        """End the serving of a log; with the last one, end the process and return True."""
        del self._logs[name]
        if not self._logs:
            self._close()
            return True
        with contextlib.suppress(ReplicationError):  # it has died, and starts without this log
            self._ask("remove", name=name)
        return False

    def _close(self) -> None:
        with contextlib.suppress(CommitLogError):
            self._ask("close", limit_s=_CLOSE_S)
        with self._lock:
            self._closing = True
            process = self._process
        self._end(process)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.kill()
        process.wait()

    # --- the process ------------------------------------------------------------------------------

    def _started(self) -> subprocess.Popen[bytes]:
        where, port = self._settings.listen.rpartition(":")[0], self._settings
        process = subprocess.Popen(
            [os.fsdecode(get_executable() or sys.executable), "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert process.stdin is not None
        close_in_child(cast(RawIOBase, process.stdin))
        settings = {
            "listen": f"{where}:{self._port}",
            "token": port.token,
            "tokens": None if port.tokens is None else os.path.abspath(port.tokens),
            "tls": None if port.tls is None else [os.path.abspath(path) for path in port.tls],
            "level": logging.getLogger("commitlog").getEffectiveLevel(),
        }
        for line in (sys.path, settings):
            process.stdin.write(json.dumps(line).encode() + b"\n")
        threading.Thread(
            target=self._listen, args=(process,), name="commitlog serving", daemon=True
        ).start()
        return process

    def _ask(self, act: str, limit_s: float | None = None, **content: Any) -> Any:
        """Send a request and return its result; raise the error that it reports."""
        answer: Future[Any] = Future()
        limit_s = _ANSWER_S if limit_s is None else limit_s
        with self._lock:
            self._number += 1
            number = self._number
            self._answers[number] = answer
            line = json.dumps({"do": act, "number": number, **content}).encode() + b"\n"
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(line)
            except (OSError, ValueError):
                del self._answers[number]
                raise self._dead() from None
        try:
            return answer.result(None if limit_s == float("inf") else limit_s)
        except TimeoutError:
            raise ReplicationError(
                f"the process {self._process.pid}, which serves the logs, did not answer for "
                f"{limit_s:g} s: is it stopped?"
            ) from None
        finally:
            self._answers.pop(number, None)

    def _dead(self) -> ReplicationError:
        return ReplicationError("the process that serves the logs has ended: try again")

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Take what the process says until it ends."""
        assert process.stdout is not None
        with open(process.stdout.fileno(), "rb", closefd=False) as lines, process.stdout:
            for line in lines:
                self._take(json.loads(line))
        with self._lock:
            waiting, self._answers = self._answers, {}
        for answer in waiting.values():
            answer.set_exception(self._dead())
        if not self._closing and os.getpid() == self._pid:
            self._start_again(process)

    def _take(self, said: dict[str, Any]) -> None:
        if "logger" in said:
            logging.getLogger(said["logger"]).log(said["level"], "%s", said["message"])
        elif "fenced" in said:
            log = self._logs.get(said["fenced"])
            if log is not None:
                log.on_fence(Rank(**said["rank"]))
        elif (answer := self._answers.get(said["number"])) is not None:
            if "error" in said:
                answer.set_exception(_error_of(said))
            else:
                answer.set_result(said["result"])

    def _start_again(self, ended: subprocess.Popen[bytes]) -> None:
        self._end(ended)
        _logger.warning(
            "the process that serves logs at port %d has ended with status %s: starting it again",
            self._port,
            ended.returncode,
        )
        time.sleep(_PAUSE_S)
        with self._lock:
            if self._closing:
                return
            self._process = process = self._started()
        try:
            for name, log in list(self._logs.items()):
                self._ask("add", path=log.path, name=name, require=log.require)
        except CommitLogError as error:
            _logger.error("the logs at port %d are not served: %s", self._port, error)
            self._end(process)  # which starts it again


def _error_of(said: dict[str, Any]) -> CommitLogError:
    kind: type[CommitLogError] = getattr(errors, said["error"])
    return kind(said["message"], path=said["path"], position=said["position"])
