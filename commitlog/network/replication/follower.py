"""Follower: a thread that copies a log from a server of logs."""

from __future__ import annotations

import functools
import logging
import os
import socket
from typing import Any, Self

from commitlog.base.host import host
from commitlog.base.option import check_switches
from commitlog.base.path import path_of, translate_refusals
from commitlog.base.polling import attempts
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import (
    CommitLogError,
    InvalidOptionError,
    IOFailureError,
    ReplicationError,
)
from commitlog.extension import Rank
from commitlog.network.remote.channel import SILENCE_S, Channel
from commitlog.network.remote.wire import FAILURES
from commitlog.network.replication import wire
from commitlog.network.replication.chunk_stream import ChunkStream
from commitlog.network.replication.meeting import ForkedLogError, holds_copy, meet, prepare
from commitlog.network.replication.primary import Access, Primary
from commitlog.network.replication.promise import Asked, Standing
from commitlog.network.replication.replica import Replica
from commitlog.network.replication.server import Port, Server, serve_promising

_logger = logging.getLogger("commitlog.replication")
_RETRY_S, _RETRY_LONGEST_S = 0.05, 2.0


def follow(
    url: str,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    token: str | None = None,
    tls_roots: str | None = None,
    plain_text: bool = False,
    connect_timeout: Duration = 10,
    listen: str | None = None,
    tokens: str | os.PathLike[str] | None = None,
    tls: tuple[str, str] | None = None,
    restored: bool = False,
) -> Follower:
    """Copy a log from its server until the follower is closed.

    The copy has the same bytes at the same positions. Programs read it with mode "r", also while
    it grows; it cannot be written before `promote`. If the connection is lost, the follower
    connects again and continues where the copy ends.

    Parameters
    ----------
    url : str
        ``"tls://host:port/log"``, or ``"tcp://"`` without TLS.
    path : str or path-like
        The directory of the copy; created if there is none.
    name : str, optional
        The name under which the server counts this copy; at most 512 characters, and different for
        each copy. By default the host's name and the path of the copy.
    token : str, optional
        The server's token.
    tls_roots : str, optional
        Path of the certificates to trust, in PEM; by default those of the system.
    plain_text : bool
        Also connect to other machines without TLS: machines in between can read records and token.
    connect_timeout : float or str
        Seconds, or a duration such as ``"1min"``, for the first connection.
    listen : str, optional
        ``"host:port"``: serve the copy there, to followers of its own and to promotions; see
        `Follower.server`. Clients need the same token, unless `tokens` is given. If the directory
        has a copy already, it is served, and followed later, although the server of `url` is out
        of reach.
    tokens : path, optional
        A file with the tokens of that server, as for `serve`.
    tls : (str, str), optional
        Paths of the certificate and private key of that server, in PEM.
    restored : bool
        Go on with a directory that was restored from a backup, cloned, or moved to another file
        system, as a new copy. It may lack promises and records that the old one acknowledged.

    Returns
    -------
    Follower
        Close it, or use it in a `with` statement.

    Raises
    ------
    InvalidOptionError
        The URL is none, or names another machine without TLS.
    ReplicationError
        The server was not reached in time, refused the token, or has no such log; or the directory
        holds another log.
    FencedError
        The directory holds a primary, or records beside those of the server's log; or it was
        restored or cloned.
    LogLockedError
        Another follower or a writer has the directory open.
    """
    check_switches(plain_text=plain_text)
    timeout_s = parse_duration(connect_timeout, "connect_timeout")
    primary = Access(token, tls_roots, plain_text).primary(url)
    where = path_of(path)
    with translate_refusals(where):
        known = name or f"{socket.gethostname()}:{os.path.realpath(where)}"
        if len(known) > wire.NAME_LIMIT:
            raise InvalidOptionError(
                f"a follower's name has at most {wire.NAME_LIMIT} characters, not {len(known)}: "
                "pass a shorter name="
            )
        if listen is None and (tokens is not None or tls is not None):
            raise InvalidOptionError("tokens and tls are for the server of the copy: pass listen")
        known_token = token if tokens is None else None
        port = None if listen is None else Port(listen, known_token, tokens, tls, plain_text)
        if port is not None:
            port.permits()  # refuses a wrong file before anything is created
        return Follower(primary, where, known, timeout_s, port, restored=restored)


class Follower:
    """Follow a log; `follow` returns it."""

    def __init__(
        self,
        primary: Primary,
        path: str,
        name: str,
        timeout_s: float,
        port: Port | None = None,
        *,
        restored: bool = False,
    ) -> None:
        self._primary = primary
        self._pid = os.getpid()
        self.name = name
        self._stopping = host.event()
        self._news = host.condition()
        self._flushed = 0
        self._error: CommitLogError | None = None
        self._stream: ChunkStream | None = None
        self._restored = restored
        self._server: Server | None = None
        # Promotions ask a copy that listens also while its primary is out of reach.
        goes_on = port is not None and holds_copy(path)
        self._replica = Replica(path, restored=restored) if goes_on else self._open(path, timeout_s)
        try:
            if port is not None:
                self._server = serve_promising({path: self._promise}, port)
            is_lost = goes_on and not self._try_to_meet(min(timeout_s, SILENCE_S))
            run = functools.partial(self._run, is_lost)
            self._thread = host.thread("commitlog follow", run)
            self._thread.start()
        except BaseException:
            if self._server is not None:
                self._server.close()
            self._replica.close()
            raise

    # --- state ------------------------------------------------------------------------------------

    @property
    def server(self) -> Server | None:
        """Return the server of the copy; None without `listen`."""
        return self._server

    @property
    def position(self) -> int:
        """Return the end of what the copy has durably."""
        return self._replica.position

    @property
    def lag_bytes(self) -> int:
        """Return how many durable bytes of the primary the copy lacks, as far as is known."""
        return max(0, self._flushed - self._replica.position)

    @property
    def error(self) -> CommitLogError | None:
        """Return the error that ended the follower; None while it follows."""
        return self._error

    def wait(self, position: int | None = None, timeout: Duration | None = None) -> bool:
        """Wait until the copy reaches a position, or, without one, until the follower ends.

        Parameters
        ----------
        position : int, optional
            A position of the primary, such as its `flushed_position`.
        timeout : float or str, optional
            Seconds, or a duration such as ``"5s"``.

        Returns
        -------
        bool
            False if the time expired.

        Raises
        ------
        ReplicationError, FencedError, CommitLogError
            The follower has ended with this error.
        """

        def reached() -> bool:
            if self._error is not None or self._stopping.is_set():
                return True
            return position is not None and self.position >= position

        limit_s = None if timeout is None else parse_duration(timeout, "timeout")
        with self._news:
            done = self._news.wait_for(reached, limit_s)
        if self._error is not None:
            raise self._error
        return done and (position is None or self.position >= position)

    def close(self) -> None:
        """Stop, and mark the copy as closed cleanly; a second call does nothing, and neither does a
        call in the child of a fork.
        """
        if self._pid == os.getpid() and not self._stopping.is_set():
            self._stopping.set()
            if self._server is not None:
                self._server.close()
            self._primary.end()
            while self._thread.is_alive():  # it may just begin a stream
                self._cancel()
                self._thread.join(_RETRY_S)
            self._replica.close()

    def _promise(self, asked: Asked) -> tuple[Rank, Standing]:
        promised = self._replica.promise(asked)
        self._cancel()  # the thread looks for the primary of that epoch
        return promised

    def _cancel(self) -> None:
        if self._stream is not None:
            self._stream.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the first connection ---------------------------------------------------------------------

    def _open(self, path: str, timeout_s: float) -> Replica:
        failed: Exception | None = None
        limit_s = min(timeout_s, SILENCE_S)  # of one attempt
        for _ in attempts(timeout_s, f"a connection to {self._primary.url}", interval_s=_RETRY_S):
            try:
                with self._primary.connect(limit_s) as client:
                    said = self._primary.describe(client, limit_s)
                    prepare(self._primary, client, said, path, self.name)
                    return self._open_replica(path, client, said)
            except FAILURES as error:
                if isinstance(error, CommitLogError):
                    raise
                failed = error
                # A follower that runs waits for a better certificate.
                refused = self._primary.refused(error) or self._primary.distrusted(error)
                if refused is not None:
                    raise refused from None
        raise ReplicationError(
            f"{self._primary.url} was not reached within {timeout_s:g} s: {failed}; check host, "
            "port, TLS and that the server runs"
        )

    def _try_to_meet(self, limit_s: float) -> bool:
        """Try to meet the primary once; return False if another try may succeed."""
        try:
            with self._primary.connect(limit_s) as client:
                self._meets(client, self._primary.describe(client, limit_s))
        except FAILURES as error:
            if isinstance(error, CommitLogError):
                raise
            refused = self._primary.refused(error)
            if refused is not None:
                raise refused from None
            _logger.warning("%s: %s; connecting again", self._primary.url, error)
            return False
        return True

    def _open_replica(self, path: str, client: Channel, said: dict[str, Any]) -> Replica:
        replica = Replica(path, restored=self._restored)
        try:
            try:
                meet(self._primary, client, said, replica, self.name)
            except ForkedLogError as fork:
                replica = self._cut_and_reopen(replica, fork.position)
                meet(self._primary, client, said, replica, self.name)
        except BaseException:
            replica.close()
            raise
        return replica

    def _cut_and_reopen(self, replica: Replica, position: int) -> Replica:
        """Cut a copy at the fork, and open it again."""
        _logger.warning(
            "%s: the records from position %d to %d are not those of %s: they are cut off",
            replica.log.path,
            position,
            replica.position,
            self._primary.url,
        )
        with replica.lock:
            replica.cut(position)
            replica.close()
        return Replica(replica.log.path)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self, is_lost: bool) -> None:
        wait_s = _RETRY_S
        while not self._stopping.is_set():
            before = self._replica.position
            try:
                with self._primary.connect() as client:
                    said = self._primary.describe(client, _RETRY_LONGEST_S)
                    is_met = self._meets(client, said)
                if is_lost:
                    is_lost = False
                    _logger.warning("%s: connected again", self._primary.url)
                if is_met:
                    self._copy()
            except FAILURES as error:
                if isinstance(error, CommitLogError):
                    self._end(error)
                    return
                refused = self._primary.refused(error)
                if refused is not None and not self._stopping.is_set():
                    self._end(refused)
                    return
                level = logging.INFO if is_lost or self._stopping.is_set() else logging.WARNING
                _logger.log(level, "%s: %s; connecting again", self._primary.url, error)
                is_lost = True
            except CommitLogError as error:
                self._end(error)
                return
            except Exception as error:
                self._end(IOFailureError(f"the follower failed: {error!r}; follow again"))
                raise
            wait_s = _RETRY_S if self._replica.position > before else wait_s
            self._stopping.wait(wait_s)
            wait_s = min(2 * wait_s, _RETRY_LONGEST_S)
        with self._news:
            self._news.notify_all()

    def _meets(self, client: Channel, said: dict[str, Any]) -> bool:
        """Compare the copy and the primary's log, as `meet` does; cut the copy where they fork."""
        try:
            return meet(self._primary, client, said, self._replica, self.name, waits=True)
        except ForkedLogError as fork:
            self._replica = self._cut_and_reopen(self._replica, fork.position)
            if self._server is not None:
                self._server._reopen()
        return meet(self._primary, client, said, self._replica, self.name, waits=True)

    def _copy(self) -> None:
        replica = self._replica
        with replica.lock:
            known, position, unsealed = replica.lineage, replica.position, replica.unsealed()
        begun = self.name, known.rank, position, unsealed
        with self._primary.stream(*begun, members=known.members, member=known.member) as stream:
            self._stream = stream
            replica.check_in_place()
            stream.acknowledge(known.rank, position)
            try:
                self._take(stream, known.rank)
            finally:
                with replica.lock:
                    replica.settle()

    def _take(self, stream: ChunkStream, rank: Rank) -> None:
        replica = self._replica
        while not self._stopping.is_set():
            chunk = stream.next()
            if chunk is None:
                return  # the server closes
            with replica.lock:
                if replica.is_fenced:
                    return  # until the primary has the epoch that was promised
                before = replica.position
                replica.write(chunk)
                position = replica.position
            if position > before or not (chunk.header or chunk.frames):
                stream.acknowledge(rank, position)
            with self._news:
                self._flushed = chunk.flushed
                self._news.notify_all()

    def _end(self, error: CommitLogError) -> None:
        _logger.error("%s", error)
        with self._news:
            self._error = error
            self._news.notify_all()
