"""RemoteTopic: a log on another machine, which tasks read from its server."""

from __future__ import annotations

import time
from typing import Literal

from commitlog.errors import NotALogError, ReplicationError, SequenceError
from commitlog.extension import open_source
from commitlog.network.remote.server_source import ServerSource
from commitlog.options import Options, ready_wait_s
from commitlog.spark.log_topic import LogTopic

_FLUSH_S = 0.1  # between two questions for a flush


class RemoteTopic(LogTopic):
    """A log on another machine. The driver follows its end, and asks the server for positions to
    cut at, so it fetches no segment that the server has. With a store, tasks read whole segments
    from there.
    """

    _looks_always = True

    def __init__(
        self,
        name: str,
        place: str,
        visibility: Literal["flushed", "committed"],
        store: str | None = None,
    ) -> None:
        super().__init__(name, place, visibility, store=store)
        self._asked_s = 0.0

    def _open_log(self) -> None:
        self._server = ServerSource(self.location, ready_wait_s(Options()))
        self._begin(open_source(self._server, store=self._opened_store()))

    def _find(self, what: str, value: int) -> int | None:
        found = self._server.connection.ask("find", {"what": what, "value": value}).get("found")
        return found if type(found) is int else None

    def _check_present(self) -> None:
        self._server.check()

    def _is_stored(self, number: int) -> bool:
        return self._view.is_stored(number)

    def _is_older(self, position: int) -> bool:
        """Return whether only the store has a position."""
        return self._view.is_older(position // self.segment_size)

    def _has_changed(self) -> bool:
        """Return whether the server has another log by now. While it is out of reach, the query
        waits.
        """
        try:
            self._server.check()
        except NotALogError:
            return True
        except ReplicationError:
            return False
        return False

    def _stamped(self) -> tuple[int, ...]:
        return ()  # the connection says it

    def _ask_for_flush(self) -> None:
        now_s = time.monotonic()
        waits = self.log.committed_position > self.log.flushed_position
        if self._visibility == "flushed" and waits and now_s - self._asked_s >= _FLUSH_S:
            self._asked_s = now_s
            self._find("flush", 0)

    def _since(self, timestamp_ns: int) -> int | None:
        if self._is_older(self.first):
            return super()._since(timestamp_ns)
        found = self._find("since", timestamp_ns)
        return None if found is None or found >= self.end else found

    def sequence_of(self, position: int) -> int:
        if self._is_older(position):
            return super().sequence_of(position)
        return self._known(self._find("sequence_of", position), position)

    def position_of(self, sequence: int) -> int:
        if self._is_older(self.first):
            return super().position_of(sequence)
        return self._known(self._find("position_of", sequence), None)

    def _known(self, found: int | None, position: int | None) -> int:
        if found is None:
            raise SequenceError(
                "the server does not know this sequence: try again",
                path=self.location,
                position=position,
            )
        return found

    def _entry(self, position: int) -> int | None:
        return self._find("boundary", position)
