"""Server: logs of this machine, offered to followers."""

from __future__ import annotations

import functools
import logging
import os
import ssl
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Self

from commitlog import open as open_log
from commitlog.base.option import check_switches
from commitlog.base.path import absolute, path_of
from commitlog.base.units import Duration, parse_duration, whole_of
from commitlog.errors import InvalidOptionError, ReplicationError
from commitlog.network.remote.wire import Address, listen_of, server_context
from commitlog.network.replication.listener import Listener
from commitlog.network.replication.permits import Permits
from commitlog.network.replication.promise import Promise
from commitlog.network.replication.replica import fence_closed
from commitlog.network.replication.served import Served
from commitlog.network.replication.session import Sessions

_logger = logging.getLogger("commitlog.replication")
_CLOSE_S = 1.0


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
        What followers and readers have to send: 1 to 1,024 visible ASCII characters. Without it
        and `tokens`, every host that reaches the port can read the logs.
    tokens : path, optional
        A file in place of `token`, with a line for each token: the token, its right, then the names
        of logs, or ``*`` for all. The right is ``read``; ``tail:PREFIX``, with which named tailers
        may be used whose names begin so; ``required:PREFIX``, with which these may be required; or
        ``follow``. The file is read again when it has changed.
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
    check_switches(plain_text=plain_text)
    wanted = [logs] if isinstance(logs, str | os.PathLike) else list(logs)
    promises = {
        path_of(log): functools.partial(fence_closed, absolute(path_of(log))) for log in wanted
    }
    return serve_promising(promises, Port(listen, token, tokens, tls, plain_text), renews=True)


@dataclass(frozen=True)
class Port:
    """Where a server listens, and how clients reach it."""

    listen: str
    token: str | None = None
    tokens: str | os.PathLike[str] | None = None
    tls: tuple[str, str] | None = None
    plain_text: bool = False

    @property
    def address(self) -> Address:
        """The address; a server of other machines needs TLS or consent."""
        where = listen_of(self.listen, self.tls is not None)
        where.check_plain(self.plain_text)
        return where

    def from_anywhere(self) -> Self:
        """Return the same port with absolute paths: the working directory may change."""
        tokens = None if self.tokens is None else absolute(path_of(self.tokens))
        tls = None if self.tls is None else (absolute(self.tls[0]), absolute(self.tls[1]))
        return replace(self, tokens=tokens, tls=tls)

    def permits(self) -> Permits | None:
        """Return what the tokens allow; None if each client may do everything."""
        return Permits.of(self.token, self.tokens)


def serve_promising(logs: Mapping[str, Promise], port: Port, *, renews: bool = False) -> Server:
    """Offer logs by their paths, each with the function that has it promise an epoch."""
    with ExitStack() as undo:
        served: dict[str, Served] = {}
        for path, promise in logs.items():
            name = name_of(path)
            if name in served:
                raise twice(name)
            log = undo.enter_context(open_log(path, "r"))
            served[name] = Served(log, promise, renews=renews)
        if not served:
            raise InvalidOptionError("pass at least one log to serve")
        server = Server(served, port)
        undo.pop_all()
    return server


def name_of(path: str) -> str:
    """Return the name under which a log is served."""
    return os.path.basename(os.path.realpath(path))


def twice(name: str) -> InvalidOptionError:
    """Return the error for two logs of one name."""
    return InvalidOptionError(f"two of the logs have the name {name!r}: rename one")


def _certified(tls: tuple[str, str]) -> ssl.SSLContext:
    try:
        return server_context(*tls)
    except OSError as error:
        raise ReplicationError(
            f"cannot use the certificate {tls[0]} with the key {tls[1]}: {error}; pass a "
            "certificate and its private key in PEM"
        ) from None


def checked_copies(copies: object) -> int:
    """Return a number of copies; refuse what is none."""
    number = whole_of(copies)
    if number is None or number < 1:
        raise InvalidOptionError(f"copies must be an int of at least 1, not {copies!r}")
    return number


def url_of(address: Address, port: int, log: str) -> str:
    """Return the URL of a log that is served at a port."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{'tls' if address.encrypted else 'tcp'}://{host}:{port}/{log}"


class Server:
    """Serve logs to followers; `serve` returns it."""

    def __init__(self, logs: dict[str, Served], port: Port, *, grows: bool = False) -> None:
        self._logs = logs
        where = port.address
        permits = port.permits()
        if permits is not None and not grows and permits.logs - logs.keys():
            unknown = ", ".join(sorted(permits.logs - logs.keys()))
            raise InvalidOptionError(
                f"tokens names logs that are not served: {unknown}; correct the file, or serve them"
            )
        self._sessions = Sessions(logs, permits, grows=grows)
        context = None if port.tls is None else _certified(port.tls)
        try:
            self._listener = Listener(where, context, self._sessions.run)
        except OSError as error:
            raise ReplicationError(
                f"cannot listen on {where.host}:{where.port}: {error}; choose another port"
            ) from None
        self._address = where
        self._pid = os.getpid()
        _logger.info("serving %s at port %d", ", ".join(logs), self.port)

    @property
    def port(self) -> int:
        """Return the port that the server listens on."""
        return self._listener.port

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
        checked_copies(copies)
        limit_s = None if timeout is None else parse_duration(timeout, "timeout")
        served = self._served_of(log)
        if served.log.flushed_position <= position:
            served.view.ask_for_flush()
        return served.wait_replicated(position, copies, limit_s)

    def replicated_position(self, copies: int = 1, *, log: str | None = None) -> int:
        """Return the position up to which so many followers have a log durably."""
        return self._served_of(log).reached(checked_copies(copies))

    def followers(self, log: str | None = None) -> dict[str, int]:
        """Return up to which position each follower has a log durably, by the follower's name."""
        return self._served_of(log).acknowledged.positions()

    @property
    def names(self) -> list[str]:
        """Return the names of the logs."""
        return list(self._logs)

    def url(self, name: str | None = None) -> str:
        """Return the URL of a log, by default of the first one, as this machine reaches it."""
        self._served_of(name)
        return url_of(self._address, self.port, name or self.names[0])

    def _served_of(self, name: str | None) -> Served:
        served = self._logs.get(self.names[0] if name is None else name)
        if served is None:
            raise InvalidOptionError(f"no log of the name {name!r} is served: see `names`")
        return served

    def close(self) -> None:
        """End every stream and release the logs; a second call does nothing.

        Waits at most a second for clients that do not read. In the child of a fork, does nothing.
        """
        if self._pid != os.getpid():
            return
        for served in list(self._logs.values()):
            served.end()
        self._sessions.end()
        if not self._listener.close(_CLOSE_S):
            _logger.warning(
                "port %d: connections of clients that do not read were ended", self.port
            )
        for served in list(self._logs.values()):
            served.log.close()

    def _reopen(self) -> None:
        """Open the logs again, because their files were cut; streams of them end."""
        for served in list(self._logs.values()):
            served.reopen()

    def _add(self, name: str, served: Served) -> None:
        """Serve another log."""
        if name in self._logs:
            raise twice(name)
        self._logs[name] = served

    def _remove(self, name: str) -> None:
        """End the serving of a log."""
        served = self._logs.pop(name)
        served.end()
        served.log.close()

    def __repr__(self) -> str:
        return f"<Server of {', '.join(self._logs)} at port {self.port}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
