"""Python workers that end in silence when Spark hangs up.

Over a Unix domain socket, the last flush of a worker that Spark has let go of meets a broken pipe,
and PySpark's daemon prints the stack trace: once a query in executors, and a minute after the last
query in the workers that plan.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable

Work = Callable[[socket.socket, bool], int]
_UNHEARD = 1  # the result of a worker that must not be reused
_DAEMON = "pyspark.daemon"


def quietly(work: Work) -> Work:
    """Wrap a daemon's `worker`, so that on a broken pipe it ends quietly and is not reused."""

    def work_quietly(sock: socket.socket, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except BrokenPipeError:
            return _UNHEARD

    return work_quietly


def quiet_planner() -> None:
    """Wrap the worker loop of this process if PySpark's own daemon has forked it, as it forks all
    workers that plan.
    """
    main = sys.modules["__main__"]
    spec = vars(main).get("__spec__")
    if spec is not None and spec.name == _DAEMON:
        vars(main)["worker"] = quietly(vars(main)["worker"])
