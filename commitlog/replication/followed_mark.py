"""The file `followed` of a copy: up to where the primary that it follows was durable.

A crash takes no record that was durable. So a primary that ends lower after a recovery has an older
state, restored from a backup or a snapshot, and its copy must not be cut to that.
"""

from __future__ import annotations

import logging
import time

from commitlog.errors import CorruptSegmentError
from commitlog.segment import checked_json
from commitlog.segment.directory import LogDirectory

NAME = "followed"
_INTERVAL_S = 10.0  # between two writes while records come

_logger = logging.getLogger("commitlog.replication")


class FollowedMark:
    """Remember how far the primary of a copy was durable; write it every ten seconds.

    Attributes
    ----------
    position : int
        Below it, the primary had everything durably that the copy has.
    """

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self.position = self._written = _read(directory)
        self._written_s = time.monotonic()

    def note(self, position: int) -> None:
        """Note that everything below a position of the copy is durable at the primary."""
        self.position = max(self.position, position)
        if time.monotonic() - self._written_s >= _INTERVAL_S:
            self.settle()

    def lower(self, position: int) -> None:
        """Note that the copy is cut at a position."""
        self.position = min(self.position, position)
        self.settle()

    def settle(self) -> None:
        """Write the position durably if it has changed."""
        self._written_s = time.monotonic()
        if self.position != self._written:
            with self._directory.translate_errors(f"write `{NAME}`"):
                checked_json.write(self._directory, NAME, {"durable": self.position})
            self._written = self.position


def _read(directory: LogDirectory) -> int:
    try:
        content = checked_json.read(directory, NAME)
    except CorruptSegmentError as error:
        _logger.warning("%s", error)
        return 0
    found = None if content is None else content.get("durable")
    return found if type(found) is int and found >= 0 else 0
