"""Export log metrics to Prometheus: `LogCollector` for a registry."""

from __future__ import annotations

from commitlog.tools.observe.log_collector import LogCollector

__all__ = ["LogCollector"]
