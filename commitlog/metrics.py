"""Figures of logs for Prometheus: `LogCollector` for a registry, `MetricsFile` for
node_exporter.
"""

from __future__ import annotations

from commitlog.observe.metrics import LogCollector, MetricsFile

__all__ = ["LogCollector", "MetricsFile"]
