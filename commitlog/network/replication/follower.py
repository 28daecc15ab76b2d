"""Follower: a thread that copies a log from a server of logs."""

from __future__ import annotations

import functools
import logging
import os
import socket
from typing import Self

from commitlog.base.host import host
from commitlog.base.option import check_switches
from commitlog.base.path import path_of, translate_refusals
from commitlog.base.polling import attempts
from commitlog.base.reached import Reached
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import CommitLogError, InvalidOptionError, ReplicationError
from commitlog.extension import Rank
from commitlog.network.remote.channel import SILENCE_S, Channel
from commitlog.network.remote.wire import FAILURES, RefusedError
from commitlog.network.replication import wire
from commitlog.network.replication.chunk_stream import ChunkStream
from commitlog.network.replication.following import Cut, Following, Log
from commitlog.network.replication.meeting import holds_copy, meet, prepare
from commitlog.network.replication.primary import Access, Primary
from commitlog.network.replication.promise import Asked, Standing
from commitlog.network.replication.replica import Replica
from commitlog.network.replication.server import Port, Server, serve_promising
from commitlog.network.replication.side_copies import SideCopies

_logger = logging.getLogger("commitlog.replication")
_RETRY_S = 0.05
_DESCRIBED_S = 2.0  # before the next connection is tried


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
        self._following = Following(primary.url, path)
        self._pid = os.getpid()
        self.name = name
        self._stopping = host.event()
        self._reached = Reached(self._stopping)
        self._flushed = 0
        self._stream: ChunkStream | None = None
        self._restored = restored
        self._server: Server | None = None
        self._is_lost = False
        # Promotions ask a copy that listens also while its primary is out of reach.
        goes_on = port is not None and holds_copy(path)
        if goes_on:
            self._replica = Replica(path, restored=restored)
        else:
            self._open(path, timeout_s)
        try:
            if port is not None:
                self._server = serve_promising({path: self._promise}, port)
            if goes_on:
                self._try_to_meet(min(timeout_s, SILENCE_S))
            self._thread = host.thread("commitlog follow", self._run)
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
        return self._reached.error

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
        return self._reached.wait(lambda: self.position, position, timeout)

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

    def __repr__(self) -> str:
        return f"<Follower of {self._primary.url}, at {self.position}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the first connection ---------------------------------------------------------------------

    def _open(self, path: str, timeout_s: float) -> None:
        failed: Exception | None = None
        limit_s = min(timeout_s, SILENCE_S)  # of one attempt
        for _ in attempts(timeout_s, f"a connection to {self._primary.url}", interval_s=_RETRY_S):
            try:
                with self._primary.connect(limit_s) as client:
                    log = self._primary.describe(client, limit_s)
                    prepare(self._following, self._primary, log, path, self.name)
                    self._replica = Replica(path, restored=self._restored)
                    try:
                        self._meets(client, log, waits=False)
                    except BaseException:
                        self._replica.close()
                        raise
                    return
            except FAILURES as error:
                # A follower that runs waits for a better certificate.
                final = self._following.failed(error) or self._primary.distrusted(error)
                if final is not None:
                    raise final from error.__cause__
                failed = error
        raise ReplicationError(
            f"{self._primary.url} was not reached within {timeout_s:g} s: {failed}; check host, "
            "port, TLS and that the server runs"
        )

    def _try_to_meet(self, limit_s: float) -> None:
        """Try to meet the primary once, unless another try may succeed."""
        try:
            with self._primary.connect(limit_s) as client:
                self._meets(client, self._primary.describe(client, limit_s))
        except FAILURES as error:
            final = self._following.failed(error)
            if final is not None:
                raise final from error.__cause__
            self._report_loss(error)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            before = self._replica.position
            try:
                self._connect_and_copy()
            except Exception as error:
                final = self._following.failed(error)
                is_closing = self._stopping.is_set() and isinstance(error, RefusedError)
                if final is None or is_closing:
                    self._report_loss(error)
                else:
                    self._end(final)
                    if not isinstance(error, (CommitLogError, RefusedError)):
                        raise
                    return
            self._stopping.wait(self._following.pause_s(has_copied=self._replica.position > before))
        self._reached.note()

    def _connect_and_copy(self) -> None:
        with self._primary.connect() as client:
            is_met = self._meets(client, self._primary.describe(client, _DESCRIBED_S))
        if self._is_lost:
            self._is_lost = False
            _logger.warning("%s: connected again", self._primary.url)
        if is_met:
            self._copy()

    def _report_loss(self, error: Exception) -> None:
        level = logging.INFO if self._is_lost or self._stopping.is_set() else logging.WARNING
        _logger.log(level, "%s: %s; connecting again", self._primary.url, error)
        self._is_lost = True

    def _meets(self, client: Channel, log: Log, *, waits: bool = True) -> bool:
        """Meet the primary; cut the copy where they diverged. Return whether it may be copied."""
        meets = functools.partial(
            meet, self._following, self._primary, client, log, name=self.name, waits=waits
        )
        found = meets(self._replica)
        if isinstance(found, Cut):
            try:
                self._cut_and_reopen(found.position)
                found = meets(self._replica)
            finally:
                # Last: before it has the new epoch, the copy would seem to have lost records.
                if self._server is not None:
                    self._server._reopen()
        return found is None

    def _cut_and_reopen(self, position: int) -> None:
        replica = self._replica
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
        self._replica = Replica(replica.log.path)

    def _copy(self) -> None:
        replica = self._replica
        with replica.lock:
            known, position, unsealed = replica.lineage, replica.position, replica.unsealed()
        begun = self.name, known.rank, position, unsealed
        with self._primary.stream(*begun, members=known.members, member=known.member) as stream:
            self._stream = stream
            replica.check_in_place()
            stream.acknowledge(known.rank, position)
            sides = SideCopies(self._primary, replica)
            sides.start()
            try:
                self._take(stream, known.rank)
            finally:
                while not sides.join(_RETRY_S):
                    pass
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
            self._flushed = chunk.flushed
            self._reached.note()

    def _end(self, error: CommitLogError) -> None:
        _logger.error("%s", error)
        self._reached.error = error
        self._reached.note()
