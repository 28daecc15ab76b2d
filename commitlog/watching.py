"""What goes on in a log, seen from outside: `LogWatch`."""

from __future__ import annotations

from commitlog.observe.watching import LogFigures, LogWatch, WriterFigures

__all__ = ["LogFigures", "LogWatch", "WriterFigures"]
