"""Watch a log from another process: `LogWatch`."""

from __future__ import annotations

from commitlog.observe.watching import LogFigures, LogWatch, WriterFigures
from commitlog.stats import StoreStats

__all__ = ["LogFigures", "LogWatch", "StoreStats", "WriterFigures"]
