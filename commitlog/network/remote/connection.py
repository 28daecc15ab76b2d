"""Connection: requests to a server of logs for one of its logs, with bounded retries."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from commitlog.base.host import host
from commitlog.errors import ClosedError, CommitLogError, ReplicationError
from commitlog.network.remote import update as updates
from commitlog.network.remote import wire
from commitlog.network.remote.channel import SILENCE_S, Channel
from commitlog.network.remote.endpoint import Endpoint
from commitlog.network.remote.update import Update
from commitlog.network.remote.wire import RefusedError

PATIENCE_S = 10.0  # for a server that does not answer
TOKEN, ROOTS = "COMMITLOG_TOKEN", "COMMITLOG_TLS_ROOTS"
_PAUSE_S, _PAUSE_LONGEST_S = 0.05, 1.0
_CALL_S = 10.0
_READ_S = 30.0  # for a range of some MiB
_UNUSED_KEPT = 4  # connections
_UNUSED_S = SILENCE_S / 2  # the server ends a connection without requests after SILENCE_S
Answer = TypeVar("Answer")


class Connection:
    """A connection to the server of one log. Any thread may use it.

    Parameters
    ----------
    url : str
        ``"tls://host:port/log"``, or ``"tcp://"`` on loopback. The token and the path of the
        certificates to trust are those of the variables COMMITLOG_TOKEN and COMMITLOG_TLS_ROOTS.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        token = os.environ.get(TOKEN)
        wire.check_token(token, TOKEN)
        self._server = Endpoint(url, token, os.environ.get(ROOTS))
        self._lock = host.lock()
        self._unused: list[tuple[float, Channel]] = []  # since when
        self._closed = False
        self.refused = False  # for good
        self.patience_s = PATIENCE_S

    # --- questions --------------------------------------------------------------------------------

    def ask(
        self, action: str, content: dict[str, Any] | None = None, limit_s: float | None = None
    ) -> dict[str, Any]:
        """Ask the server and return its answer; raise the error that it reports."""

        def once(channel: Channel) -> dict[str, Any]:
            return self._server.ask(channel, action, content or {}, _CALL_S)

        answer = self._patiently(once, self.patience_s if limit_s is None else limit_s)
        if "error" in answer:
            raise updates.error_of(str(answer["error"]), self.url)
        return answer

    def read(self, ranges: list[tuple[int, int]], take: Callable[[Update], None]) -> None:
        """Read ranges of positions. `take` gets the updates in order; after a lost connection, it
        gets them again from the first one on.
        """

        def once(channel: Channel) -> None:
            due = ranges[::-1]
            channel.wait_at_most(_READ_S)
            self._server.request(channel, "read", {"read": ranges})
            while update := _update_of(channel, self.url):
                self._check_due(update, due)
                take(update)
            if due:
                raise ReplicationError(f"{self.url} sent fewer bytes than it has: open it again")

        self._patiently(once, self.patience_s)

    def _check_due(self, update: Update, due: list[tuple[int, int]]) -> None:
        """Refuse an update that does not continue where the last one ended; remove its range from
        `due`, which ends with the next range.
        """
        start, stop = due.pop() if due else (-1, -1)
        end = update.position + len(update.content)
        if update.position != start or not start < end <= stop:
            raise ReplicationError(f"{self.url} sent other bytes than were asked for")
        if end < stop:
            due.append((end, stop))

    def watch(self, position: int | None) -> UpdateStream:
        """Begin the stream of what becomes visible, with the bytes from a position on, or without
        bytes. It ends by an error only.
        """
        channel = self._taken() or self._server.connect()
        self._server.begin(channel, "watch", {"watch": position})
        return UpdateStream(channel, self.url)

    # --- connecting -------------------------------------------------------------------------------

    def _taken(self) -> Channel | None:
        """Return a connection that no call uses, if there is one."""
        self.close_unused()
        with self._lock:
            if self._closed:
                raise self._ended()
            channel = self._unused.pop()[1] if self._unused else None
        if channel is not None and not channel.is_unused:  # the server has ended it
            channel.close()
            return None
        return channel

    def _given_back(self, channel: Channel) -> None:
        with self._lock:
            if not self._closed and len(self._unused) < _UNUSED_KEPT:
                self._unused.append((host.monotonic(), channel))
                return
        channel.close()

    def close_unused(self, unused_s: float = _UNUSED_S) -> None:
        """Close the connections that no call has used for so long."""
        since_s = host.monotonic() - unused_s
        with self._lock:
            known, self._unused = self._unused, [each for each in self._unused if each[0] > since_s]
        for each in known:
            if each[0] <= since_s:
                each[1].close()

    def close(self) -> None:
        """End all connections; calls of other threads raise `ClosedError`."""
        with self._lock:
            self._closed = True
        self._server.end()
        self.close_unused(0)

    def _patiently(self, call: Callable[[Channel], Answer], limit_s: float) -> Answer:
        deadline_s, pause_s = host.monotonic() + limit_s, _PAUSE_S
        while True:
            try:
                return self._called(call)
            except wire.FAILURES as error:
                if isinstance(error, CommitLogError):
                    raise
                if self._closed:  # by another thread, which ends this call
                    raise self._ended() from None
                self.check_refusal(error)
                if host.monotonic() + pause_s > deadline_s:
                    raise self.unreached(limit_s, error) from None
            host.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_LONGEST_S)

    def _called(self, call: Callable[[Channel], Answer]) -> Answer:
        channel = self._taken()
        if channel is not None:
            try:
                return self._called_over(channel, call)
            except ConnectionError as error:  # the server may have just ended it
                if isinstance(error, CommitLogError):
                    raise
        return self._called_over(self._server.connect(), call)

    def _called_over(self, channel: Channel, call: Callable[[Channel], Answer]) -> Answer:
        try:
            answer = call(channel)
        except BaseException:
            channel.close()  # its next message may be of this call
            raise
        self._given_back(channel)
        return answer

    def check_refusal(self, error: Exception) -> None:
        """Raise the error if another try would fail in the same way."""
        self.refused = isinstance(error, RefusedError)
        if isinstance(error, RefusedError) and error.by_token:
            raise ReplicationError(
                f"{self.url} refuses the token: set {TOKEN} to the token of the server"
            ) from None
        if self.refused:
            raise ReplicationError(f"{self.url} refuses to be read: {error}") from None
        distrusted = wire.distrusted(error, self.url)
        if distrusted is not None:
            raise distrusted from None

    def _ended(self) -> ClosedError:
        return ClosedError("the log is closed: open it again", path=self.url)

    def unreached(self, limit_s: float, error: Exception) -> ReplicationError:
        """Return the error for a server that did not answer in time."""
        waited = f" for {limit_s:g} s" if limit_s else ""
        return ReplicationError(
            f"{self.url} did not answer{waited}: {error}; check host, port, TLS and that the "
            "server runs"
        )


class UpdateStream:
    """The endless stream that `Connection.watch` begins."""

    def __init__(self, channel: Channel, url: str) -> None:
        self._channel = channel
        self._url = url

    def next(self) -> Update | None:
        """Wait for the next update; None if the server closes."""
        return _update_of(self._channel, self._url)

    def cancel(self) -> None:
        """End the stream, also for a thread that waits in `next`."""
        self._channel.cancel()

    def close(self) -> None:
        """Release the connection, in the thread that has used it."""
        self._channel.close()


def _update_of(channel: Channel, url: str) -> Update | None:
    return updates.update_of(*channel.receive(wire.TEXT_LIMIT, updates.UPDATE_BYTES), url)
