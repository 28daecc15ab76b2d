"""Server: logs of this machine, offered to followers."""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

from commitlog.base.extras import imported
from commitlog.base.path import path_of
from commitlog.base.regular_file import read_small_file
from commitlog.base.units import Duration, parse_duration, whole_of
from commitlog.errors import CommitLogError, InvalidOptionError, ReplicationError
from commitlog.log.commit_log import open_log
from commitlog.log.parts import parts_of
from commitlog.remote import update as updates
from commitlog.replication import permits as permitting
from commitlog.replication import wire
from commitlog.replication.following import Following, throttled
from commitlog.replication.permits import Permits, permit_check
from commitlog.replication.reading import Reading
from commitlog.replication.replica import Promise, fence_closed
from commitlog.replication.served import Served

_logger = logging.getLogger("commitlog.replication")
_FOLLOWERS_LIMIT = 64  # at once; each has a thread
_READERS_LIMIT = 256  # likewise
_READS = ("look", "tailer", "find")  # actions; all others are of followers
_CLOSE_S = 5.0
_PEM_LIMIT = 1 << 20  # bytes


def serve(
    logs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    listen: str = "127.0.0.1:0",
    token: str | None = None,
    tokens: str | os.PathLike[str] | None = None,
    tls: tuple[str, str] | None = None,
    plain_text: bool = False,
) -> Server:
    """Offer logs to followers until the server is closed.

    The logs are opened for reading, so their writers may be other processes. A follower gets what
    the writer has flushed; under ``flush="none"`` that is nothing until the log is closed.

    Parameters
    ----------
    logs : path or iterable of paths
        Directories of logs. The last part of each path is the name under which it is offered.
    listen : str
        ``"host:port"``; port 0 takes a free one.
    token : str, optional
        What followers and readers have to send. Without it and `tokens`, every host that reaches
        the port can read the logs.
    tokens : path, optional
        A file in place of `token`, with a line for each token: the token, then ``read``, or
        ``follow`` which includes it, then the names of logs, or ``*`` for all. It is read again
        when it has changed.
    tls : (str, str), optional
        Paths of the certificate and of its private key, in PEM.
    plain_text : bool
        Also serve other machines without TLS: machines in between can read records and token.

    Returns
    -------
    Server
        Close it, or use it in a `with` statement.

    Raises
    ------
    InvalidOptionError, LogNotFoundError, NotALogError, ReplicationError
        An option or a path is wrong, or the port cannot be listened on.
    """
    wanted = [logs] if isinstance(logs, str | os.PathLike) else list(logs)
    promises = {path_of(log): functools.partial(fence_closed, path_of(log)) for log in wanted}
    return serve_promising(promises, Port(listen, Permits.of(token, tokens), tls, plain_text))


@dataclass(frozen=True)
class Port:
    """Where a server listens, and how clients reach it."""

    listen: str
    permits: Permits | None = None
    tls: tuple[str, str] | None = None
    plain_text: bool = False

    @property
    def address(self) -> wire.Address:
        """The address; a server of other machines needs TLS or consent."""
        where = wire.listen_of(self.listen, self.tls is not None)
        where.check_plain(self.plain_text)
        return where


def serve_promising(logs: Mapping[str, Promise], port: Port) -> Server:
    """Offer logs by their paths, each with the function that has it promise an epoch."""
    with ExitStack() as undo:
        served: dict[str, Served] = {}
        for path, promise in logs.items():
            name = name_of(path)
            if name in served:
                raise _twice(name)
            served[name] = Served(undo.enter_context(open_log(path, "r")), promise)
        if not served:
            raise InvalidOptionError("pass at least one log to serve")
        server = Server(served, port)
        undo.pop_all()
    return server


def name_of(path: str) -> str:
    """Return the name under which a log is served."""
    return os.path.basename(os.path.realpath(path))


def _twice(name: str) -> InvalidOptionError:
    return InvalidOptionError(f"two of the logs have the name {name!r}: rename one")


class Server:
    """Serve logs to followers; `serve` returns it."""

    def __init__(self, logs: dict[str, Served], port: Port, *, grows: bool = False) -> None:
        self._logs = logs
        where = port.address
        certificates = None
        if port.tls is not None:
            chain, key = (read_small_file(path, _PEM_LIMIT, follow=True) for path in port.tls)
            certificates = [(chain, key)]
        permits = port.permits
        if permits is not None and not grows and permits.logs - logs.keys():
            unknown = ", ".join(sorted(permits.logs - logs.keys()))
            raise InvalidOptionError(
                f"tokens names logs that are not served: {unknown}; correct the file, or serve them"
            )
        middleware = {} if permits is None else {permitting.KEY: permit_check(permits)}
        pyarrow = imported("pyarrow", "replication", "arrow")
        try:
            self._server = _server_class()(logs, grows, where.location, certificates, middleware)
        except (OSError, pyarrow.ArrowException) as error:
            raise ReplicationError(
                f"cannot listen on {where.host}:{where.port}: {error}; choose another port, and "
                "check certificate and key"
            ) from None
        self._host, self._encrypted = where.host, where.encrypted
        self._port = int(self._server.port)
        _logger.info("serving %s at port %d", ", ".join(logs), self.port)

    @property
    def port(self) -> int:
        """Return the port that the server listens on."""
        return self._port

    def wait_replicated(
        self,
        position: int,
        *,
        copies: int = 1,
        timeout: Duration | None = None,
        log: str | None = None,
    ) -> bool:
        """Wait until the record at a position is durable here and on other machines.

        Under ``flush="sync"`` the record is sent at once, otherwise after the next flush; a writer
        without appends that wait flushes each `flush_interval`. Threads that wait at the same time
        share flushes and round trips.

        Parameters
        ----------
        position : int
            What `append` returned.
        copies : int
            How many followers must have the record durably; each counts by its name.
        timeout : float or str, optional
            Seconds, or a duration such as ``"5s"``.
        log : str, optional
            The name of the log, by default the first one.

        Returns
        -------
        bool
            False if the time expired, or the server was closed. The record may still arrive.

        Raises
        ------
        FencedError
            A follower has a later epoch than this log: a copy was promoted.
        InvalidOptionError
            `copies` is less than 1, or there is no such log.
        """
        if whole_of(copies) is None or copies < 1:
            raise InvalidOptionError(f"copies must be an int of at least 1, not {copies!r}")
        limit_s = None if timeout is None else parse_duration(timeout, "timeout")
        served = self._served_of(log)
        if served.log.flushed_position <= position:
            parts_of(served.log).engine.ask_for_flush()
        return served.wait_replicated(position, copies, limit_s)

    def replicated_position(self, copies: int = 1, *, log: str | None = None) -> int:
        """Return the position up to which so many followers have a log durably."""
        if whole_of(copies) is None or copies < 1:
            raise InvalidOptionError(f"copies must be an int of at least 1, not {copies!r}")
        return self._served_of(log).reached(copies)

    def followers(self, log: str | None = None) -> dict[str, int]:
        """Return up to which position each follower has a log durably, by the follower's name."""
        return self._served_of(log).acknowledged.positions()

    @property
    def names(self) -> list[str]:
        """Return the names of the logs."""
        return list(self._logs)

    def url(self, name: str | None = None) -> str:
        """Return the URL of a log, by default of the first one, as this machine reaches it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'tls' if self._encrypted else 'tcp'}://{host}:{self.port}/{name or self.names[0]}"

    def _served_of(self, name: str | None) -> Served:
        served = self._logs.get(self.names[0] if name is None else name)
        if served is None:
            raise InvalidOptionError(f"no log of the name {name!r} is served: see `names`")
        return served

    def close(self) -> None:
        """End every stream and release the logs; a second call does nothing.

        Waits at most 5 seconds for followers that do not read.
        """
        for served in list(self._logs.values()):
            served.end()
        # Flight waits without a limit until a stopped follower reads.
        ending = threading.Thread(target=self._server.shutdown, name="commitlog serve", daemon=True)
        ending.start()
        ending.join(_CLOSE_S)
        if ending.is_alive():
            _logger.warning("a follower does not read: port %d stays open", self._port)
        for served in list(self._logs.values()):
            served.log.close()

    def _reopen(self) -> None:
        """Open the logs again, because their files were cut; streams of them end."""
        for served in list(self._logs.values()):
            served.reopen()

    def _add(self, name: str, served: Served) -> None:
        """Serve another log; `Replication` calls this with its lock held."""
        if name in self._logs:
            raise _twice(name)
        self._logs[name] = served

    def _remove(self, name: str) -> bool:
        """End the serving of a log; return True for the last one, which stays until `close`."""
        served = self._logs[name]
        if len(self._logs) == 1:
            return True
        del self._logs[name]
        served.end()
        served.log.close()
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _still_allowed(context: Any, content: dict[str, Any], *, follow: bool) -> Callable[[], bool]:
    """Return a function that says whether the tokens of now allow the call, which may last."""
    permitted, name = context.get_middleware(permitting.KEY), str(content.get("log"))
    return lambda: permitted is None or permitted.still_allows(name, follow=follow)


@functools.cache
def _server_class() -> Any:
    """Return the Flight server; its base class is in an extra."""
    flight = wire.flight()

    class FlightServer(flight.FlightServerBase):  # type: ignore[name-defined,misc]
        """Answer `describe`, and stream the chunks of a log."""

        def __init__(
            self,
            logs: dict[str, Served],
            grows: bool,
            location: str,
            certificates: Any,
            middleware: dict[str, Any],
        ) -> None:
            super().__init__(location, tls_certificates=certificates, middleware=middleware)
            self._logs = logs
            # Then a log that is not there may come: a follower tries again.
            self._absent = flight.FlightUnavailableError if grows else flight.FlightServerError
            self._room = threading.BoundedSemaphore(_FOLLOWERS_LIMIT)
            self._reading_room = threading.BoundedSemaphore(_READERS_LIMIT)
            self._updates_schema = updates.schema()

        def _content_of(self, message: bytes) -> dict[str, Any]:
            try:
                return wire.content_of(message, "the follower")
            except CommitLogError as error:
                raise flight.FlightServerError(str(error)) from None

        def _log_of(self, context: Any, content: dict[str, Any], *, reads: bool) -> Served:
            """Return the log that a call names, if its token allows what the call does."""
            name = str(content.get("log"))
            permitted = context.get_middleware(permitting.KEY)
            if permitted is not None:
                why = permitted.permit.refusal(name, follow=not reads)
                if why is not None:
                    raise flight.FlightUnauthorizedError(why)
            served = self._logs.get(name)
            if served is None:
                raise self._absent(f"there is no log {name!r} here")
            return served

        def do_action(self, context: Any, action: Any) -> Iterator[Any]:
            content = self._content_of(action.body.to_pybytes())
            served = self._log_of(context, content, reads=action.type in _READS)
            try:
                return iter([flight.Result(wire.text(served.answer(action.type, content)))])
            except CommitLogError as error:
                raise flight.FlightServerError(str(error)) from None

        def do_get(self, context: Any, ticket: Any) -> Any:
            content = self._content_of(ticket.ticket)
            served = self._log_of(context, content, reads=True)
            is_allowed = throttled(_still_allowed(context, content, follow=False))
            found = self._updates(served, content, is_allowed)
            return flight.GeneratorStream(self._updates_schema, found)

        def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
            content = self._content_of(descriptor.command)
            served = self._log_of(context, content, reads=False)
            if not self._room.acquire(blocking=False):
                raise flight.FlightUnavailableError(
                    f"the server has {_FOLLOWERS_LIMIT} followers, its limit"
                )
            try:
                following = Following(served, content)
                if not following.has_epoch:
                    raise flight.FlightUnavailableError("the log has another epoch by now")
                following.run(reader, writer, _still_allowed(context, content, follow=True))
            except CommitLogError as error:
                raise flight.FlightServerError(str(error)) from None
            finally:
                self._room.release()

        def _updates(
            self, served: Served, content: dict[str, Any], is_allowed: Callable[[], bool]
        ) -> Iterator[Any]:
            reading = Reading(served.log)
            if not self._reading_room.acquire(blocking=False):
                raise flight.FlightUnavailableError(
                    f"the server has {_READERS_LIMIT} readers, its limit"
                )
            try:
                found = (
                    reading.read(content["read"])
                    if "read" in content
                    else reading.watch(content.get("watch"), served.stopping)
                )
                for update in reading.reported(found):
                    if not is_allowed():
                        return
                    yield updates.batch_of(update, self._updates_schema)
            finally:
                self._reading_room.release()

    return FlightServer
