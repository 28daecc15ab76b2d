"""The metrics of work queues."""

from __future__ import annotations

from pathlib import Path

import pytest

import commitlog

prometheus_client = pytest.importorskip("prometheus_client")

from commitlog.metrics import LogCollector  # noqa: E402


def test_metrics_show_each_queue(tmp_path: Path) -> None:
    registry = prometheus_client.CollectorRegistry()
    with (
        commitlog.open(tmp_path / "log") as log,
        commitlog.queue(log, "mailer", backoff="1h") as queue,
    ):
        for number in range(4):
            queue.put(b"%d" % number)
        queue.take(0).release()
        queue.take(0).reject("no")
        job = queue.take(0)
        registry.register(LogCollector(log))

        def value(name: str) -> float | None:
            labels = {"log": log.path, "queue": "mailer"}
            return registry.get_sample_value(f"commitlog_queue_{name}", labels)

        assert (value("depth"), value("held"), value("waiting"), value("dead")) == (3, 1, 1, 1)
        assert (value("taken_total"), value("died_total"), value("workers")) == (3, 1, 1)
        assert (value("oldest_seconds") or 0) > 0
        job.accept()
