"""The process that Spark forks its Python workers from: ``python -m
commitlog.spark.worker_daemon``, which `session` names to Spark.

It is PySpark's own with two differences. What every worker of ours needs is imported once, before
the fork. And a worker that has nothing left to say when Spark hangs up ends in silence.
"""

from __future__ import annotations

from pyspark import daemon

from commitlog.spark.quiet_worker import quietly


def main() -> None:
    """Fork workers until Spark hangs up."""
    vars(daemon)["worker"] = quietly(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
