"""RemoteTailers: named tailers of a log on another machine, whose server keeps the positions."""

from __future__ import annotations

import contextlib
import logging
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from commitlog import TailerState
from commitlog.base.host import host
from commitlog.base.service import Service
from commitlog.errors import CommitLogError, FencedError, ReplicationError, UnsupportedError
from commitlog.extension import Growing, TailerFile
from commitlog.network.remote.connection import Connection
from commitlog.network.remote.wire import number_of
from commitlog.types import Start

_logger = logging.getLogger("commitlog.remote")
_EVERY_S = 0.1  # between two places of a tailer that moves
_RENEW_S = 3.0  # between two signs of life of one that does not
_CLOSE_S = 5.0
_TEXTS, _FLAGS = ("name", "owner", "damage"), ("required",)


@dataclass(eq=False)
class _Place:
    """The position of a tailer, and its lease at the server."""

    name: str
    position: Callable[[], int]
    lease: str
    file: weakref.ref[RemoteTailerFile]
    saved: int
    saved_s: float
    lost: bool = False


class RemoteTailers(Service):
    """Send the positions of open tailers to the server, ten times a second and when they are
    closed.

    Parameters
    ----------
    growing : Growing
        The log here, in whose temporary folder each tailer has its page.
    connection : Connection
        The server.
    check : callable
        Raises `FencedError` if the server's log lacks records that this handle has.
    """

    def __init__(self, growing: Growing, connection: Connection, check: Callable[[], None]) -> None:
        super().__init__(f"commitlog places {connection.url}")
        self._growing = growing
        self._connection = connection
        self._check = check
        self._lock = host.lock()
        self._places: set[_Place] = set()
        self._ending = host.event()
        self._started = False
        self._pid = os.getpid()

    # --- for TailerMethods ------------------------------------------------------------------------

    def open(
        self,
        name: str,
        start: int,
        *,
        required: bool | None,
        max_lag_bytes: int,
        every_ns: int,
    ) -> TailerFile:
        """Open a named tailer at the server; a new one starts at a position."""
        if every_ns == 0:
            raise UnsupportedError(
                "durable=True would wait for the server after each record: give a duration, such "
                "as durable='1s'",
                path=self._connection.url,
            )
        answer = self._ask(
            "open",
            name,
            start=start,
            required=required,
            max_lag=max_lag_bytes or None,
            durable_s=None if every_ns < 0 else every_ns / 1e9,
        )
        position = number_of(answer, "position", self._connection.url)
        file = RemoteTailerFile(self, self._growing, name, position)
        page = file.page  # the file may be gone before its last position is sent
        lease, known = str(answer.get("lease")), weakref.ref(file)
        place = _Place(name, lambda: page.position, lease, known, position, host.monotonic())
        file.place = place
        with self._lock:
            self._places.add(place)
            if not self._started:
                self._started = True
                self.start()
        return file

    def states(self) -> list[TailerState]:
        """List all named tailers of the server."""
        listed = self._ask("list").get("tailers")
        if not isinstance(listed, list) or not all(_is_state(state) for state in listed):
            raise ReplicationError(f"{self._connection.url} sent no usable list of tailers")
        return [TailerState(**state) for state in listed]

    def reset(self, name: str, position: Start) -> None:
        """Set the position of a tailer that is not open."""
        self._ask("reset", name, position=position)

    def delete(self, name: str) -> None:
        """Delete a tailer that is not open."""
        self._ask("delete", name)

    def evict(self, name: str) -> bool:
        """Evict a tailer; return False if it was not required."""
        return bool(self._ask("evict", name).get("evicted"))

    def _ask(self, what: str, name: str | None = None, **content: object) -> dict[str, Any]:
        return self._connection.ask("tailer", {"what": what, "name": name, **content})

    # --- places -----------------------------------------------------------------------------------

    def run(self) -> None:
        while not self._ending.wait(_EVERY_S):
            with self._lock:
                places = list(self._places)
            for place in places:
                if place.file() is None:
                    self.finish(place)
                elif not place.lost:
                    self._send(place)

    def _send(self, place: _Place) -> None:
        """Send a position that has moved, or renew its lease."""
        position, now_s = place.position(), host.monotonic()
        if position == place.saved and now_s - place.saved_s < _RENEW_S:
            return
        try:
            self._save(place, position)
        except CommitLogError as error:
            _logger.info("the position of tailer %r was not saved: %s", place.name, error)

    def _save(self, place: _Place, position: int) -> None:
        answer = self._ask("save", place.name, lease=place.lease, position=position)
        if answer.get("lost"):  # the server was restarted, or the lease expired
            if not self._take_again(place, position):
                return
            self._ask("save", place.name, lease=place.lease, position=position)
        place.saved, place.saved_s = position, host.monotonic()

    def _take_again(self, place: _Place, position: int) -> bool:
        """Take another lease; return whether the position counts at the server."""
        url = self._connection.url
        try:
            answer = self._ask("open", place.name, start=position)
        except CommitLogError as error:
            place.lost = True
            _logger.error(
                "tailer %r of %s is not kept for this reader from now on: %s",
                place.name,
                url,
                error,
            )
            return False
        lease = str(answer.get("lease"))
        try:
            self._check()  # with the lease, which a later cut of the log takes away
        except CommitLogError as error:
            with contextlib.suppress(CommitLogError):
                self._ask("close", place.name, lease=lease)
            if not isinstance(error, FencedError):
                raise
            place.lost = True
            _logger.error(
                "tailer %r of %s stays where the server has it: %s", place.name, url, error
            )
            return False
        place.lease = lease
        return True

    def finish(self, place: _Place) -> None:
        """Send the last position of a tailer, and release its name."""
        with self._lock:
            if place not in self._places:
                return
            self._places.discard(place)
        if place.lost or self._pid != os.getpid():
            return
        try:
            self._save(place, place.position())
            self._ask("close", place.name, lease=place.lease)
        except CommitLogError as error:
            _logger.warning(
                "tailer %r of %s reads again from %d: its last place was not kept: %s",
                place.name,
                self._connection.url,
                place.saved,
                error,
            )

    def close(self) -> None:
        """Send what is left, and end the thread."""
        self._ending.set()
        if self._started:
            self.join(_CLOSE_S)
        with self._lock:
            places = list(self._places)
        for place in places:
            self.finish(place)


class RemoteTailerFile(TailerFile):
    """The page of a named tailer in the temporary folder; the server has its file."""

    place: _Place

    def __init__(self, keeper: RemoteTailers, growing: Growing, name: str, position: int) -> None:
        super().__init__(growing.folder, name, position)
        self.page.save(position)  # an earlier tailer of this handle may have left its own
        self.created = False
        self._keeper = keeper

    def close(self) -> None:
        self._keeper.finish(self.place)
        super().close()


def _is_state(content: object) -> bool:
    """Return whether decoded JSON is the state of a tailer."""
    known = {each.name: each.default for each in fields(TailerState)}
    if not isinstance(content, dict) or "name" not in content or not known.keys() >= content.keys():
        return False
    return all(
        value is known[name]
        if value is None
        else type(value) is (str if name in _TEXTS else bool if name in _FLAGS else int)
        and (type(value) is not int or abs(value) < 1 << 63)
        for name, value in content.items()
    )
