"""Python workers that print no stack trace when Spark closes their socket.

If Spark has closed the Unix domain socket of a worker, the worker's last flush fails with a broken
pipe, and PySpark's daemon prints a stack trace. Executors do so once for each query, and planning
workers a minute after the last query.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable

Work = Callable[[socket.socket, bool], int]
_UNHEARD = 1  # tells the daemon not to reuse the worker
_DAEMON = "pyspark.daemon"


def quietly(work: Work) -> Work:
    """Wrap a daemon's `worker`: on a broken pipe it ends silently and is not reused."""

    def work_quietly(sock: socket.socket, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except BrokenPipeError:
            return _UNHEARD

    return work_quietly


def quiet_planner() -> None:
    """Wrap the worker loop of this process if PySpark's daemon forked it. It forks all planning
    workers.
    """
    main = sys.modules["__main__"]
    spec = vars(main).get("__spec__")
    if spec is not None and spec.name == _DAEMON:
        vars(main)["worker"] = quietly(vars(main)["worker"])
