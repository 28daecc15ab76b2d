"""The process from which Spark forks Python workers: ``python -m commitlog.spark.worker_daemon``.
`session` sets it.

It is PySpark's daemon with three differences. It imports the modules that each worker needs once,
before the fork. A worker whose socket Spark has closed ends without a stack trace. With
PYTHONSAFEPATH, which `session` sets, modules of the working directory come behind all packages.
"""

from __future__ import annotations

import os
import sys

from pyspark import daemon

from commitlog.spark.quiet_worker import quietly


def main() -> None:
    """Fork workers until Spark closes the daemon's input."""
    if sys.flags.safe_path:
        sys.path.append(os.getcwd())
    vars(daemon)["worker"] = quietly(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
