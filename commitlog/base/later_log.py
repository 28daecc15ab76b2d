"""LaterLog: messages that are noted under a lock, and logged once it is released.

A log handler may append, or wait for a thread that appends.
"""

from __future__ import annotations

import logging
from collections import deque


class LaterLog:
    """Keep messages until `report`. Any thread may call."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._notes: deque[tuple[int, str, tuple[object, ...]]] = deque()

    def note(self, level: int, message: str, *details: object) -> None:
        self._notes.append((level, message, details))

    def report(self) -> None:
        """Log the noted messages. Call this while no lock is held."""
        while self._notes:
            try:
                level, message, details = self._notes.popleft()
            except IndexError:  # another thread took the last one
                return
            self._logger.log(level, message, *details)
