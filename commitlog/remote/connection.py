"""Connection: requests to a server of logs for one of its logs, with bounded retries."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from commitlog.base.extras import pyarrow_for
from commitlog.base.regular_file import read_small_file
from commitlog.errors import CommitLogError, ReplicationError
from commitlog.remote import update as updates
from commitlog.remote import wire
from commitlog.remote.update import DamagedUpdateError, Update

PATIENCE_S = 10.0  # for a server that does not answer
TOKEN, ROOTS = "COMMITLOG_TOKEN", "COMMITLOG_TLS_ROOTS"
_PAUSE_S, _PAUSE_LONGEST_S = 0.05, 1.0
_CALL_S = 10.0
_READ_S = 30.0  # for a range of some MiB
_PEM_LIMIT = 1 << 20  # bytes
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
        self._address = wire.address_of(url)
        self._address.check_plain(False)
        token, roots = os.environ.get(TOKEN), os.environ.get(ROOTS)
        self._headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self._roots = None if roots is None else read_small_file(roots, _PEM_LIMIT, follow=True)
        self._failures: tuple[type[Exception], ...] = (
            pyarrow_for("a log of another machine").ArrowException,
            DamagedUpdateError,
            StopIteration,
            OSError,
        )
        self._layout = updates.schema()
        self._lock = threading.Lock()
        self._client: Any = None
        self._closed = False
        self.refused = False  # for good
        self.patience_s = PATIENCE_S

    # --- questions --------------------------------------------------------------------------------

    def ask(
        self, action: str, content: dict[str, Any] | None = None, limit_s: float | None = None
    ) -> dict[str, Any]:
        """Ask the server and return its answer; raise the error that it reports."""
        flight = wire.flight()
        body = wire.text({"log": self._address.log, **(content or {})})

        def once(client: Any) -> dict[str, Any]:
            options = flight.FlightCallOptions(timeout=_CALL_S, headers=self._headers)
            results = list(client.do_action(flight.Action(action, body), options))
            if len(results) != 1:
                raise ReplicationError(f"{self.url} did not answer {action!r}")
            return wire.content_of(results[0].body.to_pybytes(), self.url)

        answer = self._patiently(once, self.patience_s if limit_s is None else limit_s)
        if "error" in answer:
            raise updates.error_of(str(answer["error"]), self.url)
        return answer

    def read(self, ranges: list[tuple[int, int]], take: Callable[[Update], None]) -> None:
        """Read ranges of positions. `take` gets the updates in order; after a lost connection, it
        gets them again from the first one on.
        """
        flight = wire.flight()
        ticket = flight.Ticket(wire.text({"log": self._address.log, "read": ranges}))

        def once(client: Any) -> None:
            options = flight.FlightCallOptions(timeout=_READ_S, headers=self._headers)
            due = ranges[::-1]
            for batch in _chunks(client.do_get(ticket, options)):
                update = updates.update_of(batch, self._layout, self.url)
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
        flight = wire.flight()
        ticket = flight.Ticket(wire.text({"log": self._address.log, "watch": position}))
        options = flight.FlightCallOptions(headers=self._headers)
        return UpdateStream(self._connected().do_get(ticket, options), self._layout, self.url)

    # --- connecting -------------------------------------------------------------------------------

    def _connected(self) -> Any:
        with self._lock:
            if self._closed:
                raise ReplicationError(f"the connection to {self.url} is closed: open it again")
            if self._client is None:
                options: dict[str, Any] = {"generic_options": wire.OPTIONS}
                if self._roots is not None:
                    options["tls_root_certs"] = self._roots
                self._client = wire.flight().FlightClient(self._address.location, **options)
            return self._client

    def renew(self) -> None:
        """Make the next call connect anew: gRPC delays the use of a connection that was lost."""
        with self._lock:
            client, self._client = self._client, None
        with contextlib.suppress(*self._failures):
            if client is not None:
                client.close()

    def close(self) -> None:
        """End the connection; calls of other threads fail."""
        with self._lock:
            self._closed = True
        self.renew()

    def _patiently(self, call: Callable[[Any], Answer], limit_s: float) -> Answer:
        deadline_s, pause_s = time.monotonic() + limit_s, _PAUSE_S
        while True:
            try:
                return call(self._connected())
            except self._failures as error:
                if isinstance(error, CommitLogError):
                    raise
                self.check_refusal(error)
                if self._closed or time.monotonic() + pause_s > deadline_s:
                    raise self.unreached(limit_s, error) from None
            self.renew()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_LONGEST_S)

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What a call raises if the connection fails."""
        return self._failures

    def check_refusal(self, error: Exception) -> None:
        """Raise the error if another try would fail in the same way."""
        flight = wire.flight()
        refusals = (
            flight.FlightUnauthenticatedError,
            flight.FlightServerError,
            flight.FlightUnauthorizedError,
        )
        self.refused = isinstance(error, refusals)
        if isinstance(error, flight.FlightUnauthenticatedError):
            raise ReplicationError(
                f"{self.url} refuses the token: set {TOKEN} to the token of the server"
            ) from None
        if self.refused:
            raise ReplicationError(f"{self.url} refuses to be read: {_first(error)}") from None
        distrusted = wire.distrusted(error, self.url)
        if distrusted is not None:
            raise distrusted from None

    def unreached(self, limit_s: float, error: Exception) -> ReplicationError:
        """Return the error for a server that did not answer in time."""
        return ReplicationError(
            f"{self.url} did not answer for {limit_s:g} s: {_first(error)}; check host, port, TLS "
            "and that the server runs"
        )


class UpdateStream:
    """The endless stream that `Connection.watch` begins."""

    def __init__(self, stream: Any, layout: Any, url: str) -> None:
        self._stream = stream
        self._layout = layout
        self._url = url

    def next(self) -> Update:
        """Wait for the next update; `StopIteration` if the server closes."""
        return updates.update_of(self._stream.read_chunk().data, self._layout, self._url)

    def cancel(self) -> None:
        """End the stream, also for a thread that waits in `next`."""
        self._stream.cancel()


def _chunks(stream: Any) -> Any:
    with contextlib.suppress(StopIteration):
        while True:
            yield stream.read_chunk().data


def _first(error: Exception) -> str:
    """Return the text of an error, without the details of gRPC."""
    return str(error).partition(". Detail:")[0].partition(". gRPC client debug")[0]
