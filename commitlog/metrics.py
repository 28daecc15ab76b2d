"""Export log metrics to Prometheus: `LogCollector` for a registry, `MetricsFile` for a textfile."""

from __future__ import annotations

from commitlog.observe.metrics import LogCollector, MetricsFile

__all__ = ["LogCollector", "MetricsFile"]
