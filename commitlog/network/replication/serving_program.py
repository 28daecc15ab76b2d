"""The program that serves the logs of another one: see `ServingProcess`, which starts it.

It takes requests from its input, each a line of JSON, and writes answers and events to its output.
It ends with its input, and so with the program that has started it.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from typing import Any, TextIO

from commitlog.errors import CommitLogError
from commitlog.extension import Rank
from commitlog.network.replication.server import Port
from commitlog.network.replication.serving import Serving

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
        logger = logging.getLogger("commitlog")
        logger.addHandler(self)
        logger.setLevel(settings.pop("level"))
        port = Port(**settings, plain_text=True)  # the other program has asked for it
        self._serving = Serving(port, self._fence)

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
        act = getattr(self._serving, request.pop("do"))
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

    def _fence(self, name: str, rank: Rank) -> None:
        self._say({"fenced": name, "rank": rank._asdict()})
