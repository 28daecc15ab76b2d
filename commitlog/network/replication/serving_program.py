"""The program that serves the logs of another one: see `ServingProcess`, which starts it.

It takes requests from its input, each a line of JSON, and writes answers and events to its output.
It ends with its input, and so with the program that has started it.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import signal
import sys
import threading
from typing import Any, TextIO

from commitlog import open as open_log
from commitlog.errors import CommitLogError
from commitlog.extension import Rank
from commitlog.network.replication.replica import fence_closed
from commitlog.network.replication.served import Served
from commitlog.network.replication.server import Port, Server

_logger = logging.getLogger("commitlog.replication")


def main() -> None:
    """Serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's; the other program decides
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    program = _Program(json.loads(sys.stdin.readline()), output)
    try:
        for line in sys.stdin:
            program.take(json.loads(line))
    except Exception:
        _logger.exception("the process that serves logs fails")
    finally:
        os._exit(0)  # without waiting for followers


class _Program(logging.Handler):
    """Execute requests, and report what is logged."""

    def __init__(self, settings: dict[str, Any], output: TextIO) -> None:
        super().__init__()
        self._output = output
        self._writing = threading.Lock()
        self._server: Server | None = None
        logger = logging.getLogger("commitlog")
        logger.addHandler(self)
        logger.setLevel(settings.pop("level"))
        self._port = Port(**settings, plain_text=True)  # the other program has asked for it

    def emit(self, record: logging.LogRecord) -> None:
        message = self.format(record)  # with the traceback, if there is one
        self._say({"logger": record.name, "level": record.levelno, "message": message})

    def _say(self, content: dict[str, Any]) -> None:
        with self._writing:
            self._output.write(json.dumps(content) + "\n")
            self._output.flush()

    def take(self, request: dict[str, Any]) -> None:
        """Execute a request; one that waits, in a thread."""
        if request["do"] == "wait":
            threading.Thread(target=self._execute, args=(request,), daemon=True).start()
        else:
            self._execute(request)

    def _execute(self, request: dict[str, Any]) -> None:
        act = getattr(self, f"_{request.pop('do')}")
        number = request.pop("number")
        try:
            answer: dict[str, Any] = {"result": act(**request)}
        except CommitLogError as error:
            answer = {"error": type(error).__name__, "message": error.message}
            answer |= {"path": error.path, "position": error.position}
        except Exception as error:  # the other program waits for an answer, perhaps without a limit
            _logger.exception("a request of the program fails")
            answer = {"error": "ReplicationError", "message": f"the request failed: {error!r}"}
            answer |= {"path": None, "position": None}
        self._say({"number": number, **answer})

    def _add(self, path: str, name: str, require: int) -> int:
        served = Served(open_log(path, "r"), functools.partial(fence_closed, path), ahead=True)
        try:
            if self._server is None:
                self._server = Server({name: served}, self._port, grows=True)
            else:
                self._server._add(name, served)
        except BaseException:
            served.log.close()
            raise
        view = served.view

        def show() -> None:
            view.raise_copied(served.acknowledged.reached(max(require, 1)))

        def fence(rank: Rank) -> None:
            self._say({"fenced": name, "rank": rank._asdict()})

        served.acknowledged.on_progress = show
        served.acknowledged.on_fence = fence
        return self._server.port

    @property
    def _serving(self) -> Server:
        assert self._server is not None
        return self._server

    def _remove(self, name: str) -> None:
        self._serving._remove(name)

    def _followers(self, log: str) -> dict[str, int]:
        return self._serving.followers(log)

    def _reached(self, log: str, copies: int) -> int:
        return self._serving.replicated_position(copies, log=log)

    def _wait(self, log: str, position: int, copies: int, timeout_s: float | None) -> bool:
        return self._serving.wait_replicated(position, copies=copies, timeout=timeout_s, log=log)

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
