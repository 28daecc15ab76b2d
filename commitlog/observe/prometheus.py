"""The parts of prometheus_client that this package uses, or an error that names the extra."""

from __future__ import annotations

try:
    from prometheus_client import CollectorRegistry, write_to_textfile
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ModuleNotFoundError(
        "commitlog.metrics needs prometheus_client: pip install 'commitlog-engine[metrics]'"
    ) from error

__all__ = [
    "Collector",
    "CollectorRegistry",
    "CounterMetricFamily",
    "GaugeMetricFamily",
    "HistogramMetricFamily",
    "Metric",
    "write_to_textfile",
]
