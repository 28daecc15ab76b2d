"""Watch a log from another process: `LogWatch`."""

from __future__ import annotations

from commitlog.stats import StoreStats
from commitlog.tools.observe.watching import LogFigures, LogWatch, WriterFigures

__all__ = ["LogFigures", "LogWatch", "StoreStats", "WriterFigures"]
