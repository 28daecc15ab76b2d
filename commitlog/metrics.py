"""Export log metrics to Prometheus: `LogCollector` for a registry, `MetricsFile` for a textfile."""

from __future__ import annotations

from commitlog.observe.log_collector import LogCollector
from commitlog.observe.metrics_file import MetricsFile

__all__ = ["LogCollector", "MetricsFile"]
