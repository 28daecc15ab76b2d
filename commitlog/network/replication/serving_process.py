"""ServingProcess: the process that serves the open logs of this one."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from commitlog.base.path import absolute
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import CommitLogError, InvalidOptionError, ReplicationError
from commitlog.extension import Rank
from commitlog.network.replication.server import Port, checked_copies, name_of, twice, url_of
from commitlog.network.replication.serving_child import ServingChild

_logger = logging.getLogger("commitlog.replication")
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
        self._lock = threading.Lock()  # held while the process is replaced
        self._changing = threading.Lock()  # held while logs come and go
        self._closing = threading.Event()
        self._address = port.address
        self._port = self._address.port
        self._pid = os.getpid()
        self._child = self._start_child()

    # --- as the server of `serve` -----------------------------------------------------------------

    @property
    def port(self) -> int:
        """Return the port that the server listens on."""
        return self._port

    @property
    def pid(self) -> int:
        """Return the process's id."""
        return self._child.pid

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
        name, path = name_of(path), absolute(path)  # this program may change its directory
        with self._changing:
            if name in self._logs:
                raise twice(name)
            self._logs = {**self._logs, name: _Log(path, require, on_fence)}
            try:
                self._port = self._ask("add", path=path, name=name, require=require)
            except BaseException:
                self._forget(name)
                raise

    def _forget(self, name: str) -> None:
        self._logs = {each: log for each, log in self._logs.items() if each != name}

    def _remove(self, name: str) -> bool:
        """End the serving of a log; with the last one, end the process and return True."""
        with self._changing:
            self._forget(name)
            if self._logs:
                with contextlib.suppress(ReplicationError):  # it has died, and starts without it
                    self._ask("remove", name=name)
                return False
        self._close()
        return True

    def _close(self) -> None:
        with contextlib.suppress(CommitLogError):
            self._ask("close", limit_s=_CLOSE_S)
        with self._lock:
            self._closing.set()
            child = self._child
        child.end()

    # --- the process ------------------------------------------------------------------------------

    def _start_child(self) -> ServingChild:
        where, port = self._settings.listen.rpartition(":")[0], self._settings
        settings = {
            "listen": f"{where}:{self._port}",
            "token": port.token,
            "tokens": port.tokens,
            "tls": port.tls,
            "level": logging.getLogger("commitlog").getEffectiveLevel(),
        }
        return ServingChild(settings, self._take, self._start_again)

    def _ask(self, act: str, limit_s: float | None = None, **content: Any) -> Any:
        """Send a request and return its result; raise the error that it reports."""
        return self._child.ask(act, _ANSWER_S if limit_s is None else limit_s, **content)

    def _take(self, said: dict[str, Any]) -> None:
        """Log what the process logs, and fence a log."""
        if "logger" in said:
            logging.getLogger(said["logger"]).log(said["level"], "%s", said["message"])
        elif (log := self._logs.get(said["fenced"])) is not None:
            log.on_fence(Rank(**said["rank"]))

    def _start_again(self, ended: ServingChild) -> None:
        """Start the process again until that succeeds or the last log is closed."""
        if os.getpid() != self._pid:
            return
        ended.end()
        while not self._closing.is_set():
            _logger.warning(
                "the process that serves logs at port %d has ended with status %s: starting it "
                "again",
                self._port,
                ended.status,
            )
            self._closing.wait(_PAUSE_S)
            try:
                with self._lock:
                    if self._closing.is_set():
                        return
                    self._child = child = self._start_child()
            except ReplicationError as error:
                _logger.error("%s", error)
                continue
            self._serve_all(child)
            return

    def _serve_all(self, child: ServingChild) -> None:
        try:
            with self._changing:
                for name, log in self._logs.items():
                    child.ask("add", _ANSWER_S, path=log.path, name=name, require=log.require)
        except CommitLogError as error:
            _logger.error("the logs at port %d are not served: %s", self._port, error)
            child.end()  # which starts it again
