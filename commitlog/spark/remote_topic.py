"""RemoteTopic: a log on another machine, which tasks read from its server."""

from __future__ import annotations

import time
from typing import Literal

from commitlog.errors import SequenceError
from commitlog.remote.connection import Connection
from commitlog.remote.remote_directory import RemoteDirectory
from commitlog.spark.log_topic import LogTopic

_FLUSH_S = 0.1  # between two questions for a flush


class RemoteTopic(LogTopic):
    """A log on another machine. The driver follows its end, and asks the server where to cut, so it
    fetches no segment.
    """

    def __init__(self, name: str, place: str, visibility: Literal["flushed", "committed"]) -> None:
        super().__init__(name, place, visibility)
        directory = self._parts.directory
        assert isinstance(directory, RemoteDirectory)
        self._server: Connection = directory.connection
        self._asked_s = 0.0

    def _find(self, what: str, value: int) -> int | None:
        found = self._server.ask("find", {"what": what, "value": value}).get("found")
        return found if type(found) is int else None

    def _check_present(self) -> None:
        self._parts.directory.check()

    def ask_for_flush(self) -> None:
        """Ask the server for a flush if this read waits for durable records."""
        now_s = time.monotonic()
        waits = self.log.committed_position > self.log.flushed_position
        if self._visibility == "flushed" and waits and now_s - self._asked_s >= _FLUSH_S:
            self._asked_s = now_s
            self._find("flush", 0)

    def position_since(self, timestamp_ns: int) -> int | None:
        found = self._find("since", timestamp_ns)
        return None if found is None or found >= self.end else found

    def sequence_of(self, position: int) -> int:
        return self._known(self._find("sequence_of", position), position)

    def position_of(self, sequence: int) -> int:
        return self._known(self._find("position_of", sequence), None)

    def _known(self, found: int | None, position: int | None) -> int:
        if found is None:
            raise SequenceError(
                "the server does not know this sequence: try again",
                path=self.location,
                position=position,
            )
        return found

    def boundary(self, position: int) -> int:
        found = self._find("boundary", position)
        base = position - position % self.segment_size
        return base if found is None or found < base else found
