"""Session: the requests of one client of a server of logs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from commitlog.base.host import host
from commitlog.base.side_logs import is_side_log
from commitlog.errors import CommitLogError, FencedError
from commitlog.network.remote import update as updates
from commitlog.network.remote import wire
from commitlog.network.remote.channel import SILENCE_S, Channel
from commitlog.network.remote.wire import RefusedError
from commitlog.network.replication.follower_stream import FollowerStream, throttled
from commitlog.network.replication.permits import Permit, Permits
from commitlog.network.replication.reading import Reading
from commitlog.network.replication.sender import flushed_chunks
from commitlog.network.replication.served import Served

_logger = logging.getLogger("commitlog.replication")
_FOLLOWERS_LIMIT = 64  # at once
_READERS_LIMIT = 256  # likewise
_READS = ("look", "tailer", "find", "read", "watch")  # all other actions are of followers
_CLIENT = "the client"


class Sessions:
    """What all sessions of a server share.

    Parameters
    ----------
    logs : mapping
        The logs by their names.
    permits : Permits, optional
        The tokens.
    grows : bool
        Whether a log that is not there may come, so that a client tries again.
    """

    def __init__(self, logs: Mapping[str, Served], permits: Permits | None, *, grows: bool) -> None:
        self._logs = logs
        self._permits = permits
        self._grows = grows
        self._followers = host.semaphore(_FOLLOWERS_LIMIT)
        self._readers = host.semaphore(_READERS_LIMIT)
        self._lock = host.lock()
        self._waiting: set[Channel] = set()  # for a request
        self._ended = False

    def end(self) -> None:
        """End connections that wait for a request; others end after the one that they serve."""
        with self._lock:
            self._ended = True
            for channel in self._waiting:
                channel.cancel()

    def run(self, channel: Channel) -> None:
        """Answer the requests of a client until `end`, until it ends the connection, by an
        `OSError`, or until its token is refused.
        """
        while (request := self._next(channel)) is not None:
            try:
                content = wire.content_of(request, _CLIENT)
                self._answer(channel, str(content.get("action")), content)
            # RecursionError: a value of great depth.
            except (CommitLogError, RefusedError, _BusyError, RecursionError) as error:
                channel.send(wire.refusal(error))
                if not channel.trusted:
                    return
            except OSError:
                raise
            except Exception as error:  # a fault of this program, and of one request only
                _logger.exception("a request of a client failed")
                channel.send(wire.refusal(_BusyError(f"the server failed: {error!r}")))
                return

    def _next(self, channel: Channel) -> bytes | None:
        with self._lock:
            if self._ended:
                return None
            self._waiting.add(channel)
        try:
            channel.wait_at_most(SILENCE_S)
            return channel.receive(wire.REQUEST_LIMIT)[0]
        finally:
            with self._lock:
                self._waiting.discard(channel)

    def _answer(self, channel: Channel, action: str, content: dict[str, Any]) -> None:
        reads = action in _READS
        permit = self._permit_of(content)
        channel.trusted = permit is not None
        if permit is None:
            raise RefusedError(
                "the token is missing or wrong: pass the one of the server, or set "
                "COMMITLOG_TOKEN for a command",
                by_token=True,
            )
        served = self._log_of(content, permit, follow=not reads)
        view = served.view
        is_allowed = self._still_allowed(content, served, follow=not reads)
        try:
            self._execute(channel, served, content, permit, is_allowed)
        except FencedError as error:
            if view.is_cut:  # since it was found: it is opened again
                raise _BusyError(str(error)) from error
            raise

    def _execute(
        self,
        channel: Channel,
        served: Served,
        content: dict[str, Any],
        permit: Permit,
        is_allowed: Callable[[], bool],
    ) -> None:
        action = str(content.get("action"))
        if action == "follow":
            with _room(self._followers, f"{_FOLLOWERS_LIMIT} followers"):
                stream = FollowerStream(served, content)
                if not stream.has_epoch:
                    raise _BusyError("the log has another epoch by now")
                if not stream.has_position:
                    raise _BusyError("the follower asks for a position beyond the end of the log")
                stream.run(channel, is_allowed)
        elif action == "chunks":
            for chunk in flushed_chunks(_side_of(served, content), content):
                channel.send(*chunk.message())
            channel.send(wire.END)
        elif action == "digests" and "side" in content:
            side = _side_of(served, content)
            channel.send(wire.text(side.answer(action, content, permit)))
        elif action in ("read", "watch"):
            with _room(self._readers, f"{_READERS_LIMIT} readers"):
                self._send_updates(channel, served, content, throttled(is_allowed))
        else:
            channel.send(wire.text(served.answer(action, content, permit)))

    def _permit_of(self, content: dict[str, Any]) -> Permit | None:
        """Return what the token of a request allows; None if it is missing or wrong."""
        return Permit() if self._permits is None else self._permits.find(content.get("token"))

    def _log_of(self, content: dict[str, Any], permit: Permit, *, follow: bool) -> Served:
        """Return the log that a request names, if its token allows what the request does."""
        name = str(content.get("log"))
        why = permit.refusal(name, follow=follow)
        if why is not None:
            raise RefusedError(why)
        served = self._logs.get(name)
        if served is None:
            raise (_BusyError if self._grows else RefusedError)(f"there is no log {name!r} here")
        if not served.renew():
            raise _BusyError(f"the log {name!r} was removed here")
        return served

    def _still_allowed(
        self, content: dict[str, Any], served: Served, *, follow: bool
    ) -> Callable[[], bool]:
        """Return a function that says whether the tokens of now allow a request, which may last,
        and whether its log is still served.
        """
        name, log, is_there = str(content.get("log")), served.log, throttled(served.renew)

        def check() -> bool:
            permit = self._permit_of(content)
            if permit is None or permit.refusal(name, follow=follow) is not None:
                return False
            return is_there() and served.log is log

        return check

    def _send_updates(
        self,
        channel: Channel,
        served: Served,
        content: dict[str, Any],
        is_allowed: Callable[[], bool],
    ) -> None:
        reading, last = Reading(served.log), wire.END
        found = (
            reading.read(content.get("read"))
            if content["action"] == "read"
            else reading.watch(content.get("watch"), served.stopping)
        )
        try:
            for update in found:
                if not is_allowed():
                    break
                channel.send(updates.head_of(update), update.content)
        except CommitLogError as error:
            last = wire.text({"error": updates.text_of(error)})
        channel.send(last)


def _side_of(served: Served, content: dict[str, Any]) -> Served:
    """Return the side log that a follower asks for."""
    folder = content.get("side")
    if not is_side_log(folder):
        raise RefusedError(f"there is no side log {folder!r:.200}")
    return served.side(str(folder))


class _BusyError(Exception):
    """A request is refused that may succeed later."""


@contextmanager
def _room(room: threading.BoundedSemaphore, most: str) -> Iterator[None]:
    if not room.acquire(blocking=False):
        raise _BusyError(f"the server has {most}, its limit")
    try:
        yield
    finally:
        room.release()
