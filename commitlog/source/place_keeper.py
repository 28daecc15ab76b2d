"""PlaceKeeper: who keeps the positions of the named tailers of a log."""

from __future__ import annotations

from typing import Protocol

from commitlog.errors import ReadOnlyError, TailerNotFoundError
from commitlog.tail.seek import Start
from commitlog.tail.tailer_file import TailerFile
from commitlog.tail.tailer_state import TailerState


class PlaceKeeper(Protocol):
    """Keep named tailers: files of a log's directory, or a server's."""

    def open(
        self,
        name: str,
        start: int,
        *,
        required: bool | None,
        max_lag_bytes: int,
        every_ns: int,
    ) -> TailerFile:
        """Open a named tailer, whose position is durable after so long; 0: at once; negative: when
        the system flushes it. A new one starts at a position.
        """

    def states(self) -> list[TailerState]:
        """List all named tailers."""

    def reset(self, name: str, position: Start) -> None:
        """Set the position of a tailer that is not open."""

    def delete(self, name: str) -> None:
        """Delete a tailer that is not open."""

    def evict(self, name: str) -> bool:
        """Evict a tailer; return False if it was not required."""


class NoPlaces:
    """Refuse named tailers where nothing can be saved; there are none.

    Parameters
    ----------
    path : str
        Where the log is, for errors.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def open(
        self,
        name: str,
        start: int,
        *,
        required: bool | None,
        max_lag_bytes: int,
        every_ns: int,
    ) -> TailerFile:
        raise ReadOnlyError(
            "an archive or a single segment file cannot save a tailer's position: read it with a "
            "tailer without a name",
            path=self._path,
        )

    def states(self) -> list[TailerState]:
        return []

    def reset(self, name: str, position: Start) -> None:
        raise self._missing(name)

    def delete(self, name: str) -> None:
        raise self._missing(name)

    def evict(self, name: str) -> bool:
        raise self._missing(name)

    def _missing(self, name: str) -> TailerNotFoundError:
        return TailerNotFoundError(f"there is no tailer {name!r}", path=self._path)
