"""The process that Spark forks its Python workers from: ``python -m commitlog.spark.worker_daemon``, which `session` names to Spark.

It is PySpark's own with two differences. What every worker of ours needs is imported once, before the fork. And a worker that has nothing
left to say when Spark hangs up ends in silence: over a Unix domain socket PySpark's last flush meets a broken pipe then, and its stack
trace would come once a query.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_UNHEARD = 1  # how a worker ends that is not to be used again


def main() -> None:
    """Fork workers until Spark hangs up."""
    work = daemon.worker

    def work_quietly(sock: socket.socket, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except BrokenPipeError:
            return _UNHEARD

    daemon.worker = work_quietly
    daemon.manager()


if __name__ == "__main__":
    main()
