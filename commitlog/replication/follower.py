"""Follower: a thread that copies a log from a server of logs."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from typing import Any, Self

from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.extras import imported
from commitlog.base.path import path_of, telling_of_refusals
from commitlog.base.polling import attempts
from commitlog.base.regular_file import read_small_file
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import (
    CommitLogError,
    FencedError,
    InvalidOptionError,
    IOFailureError,
    ReplicationError,
)
from commitlog.recovery import lineage
from commitlog.recovery.lineage import Lineage
from commitlog.replication import wire
from commitlog.replication.primary import Primary
from commitlog.replication.replica import Replica, begin_replica, create_replica, read_replica
from commitlog.segment import identity as identities

_logger = logging.getLogger("commitlog.replication")
_RETRY_S, _RETRY_LONGEST_S = 0.05, 2.0
_PEM_LIMIT = 1 << 20  # bytes


def follow(
    url: str,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    token: str | None = None,
    tls_roots: str | None = None,
    plain_text: bool = False,
    connect_timeout: Duration = 10,
) -> Follower:
    """Copy a log from its server, and go on copying until the follower is closed.

    The copy has the same bytes at the same positions. Programs read it with mode "r", also while
    it grows; it cannot be written before `promote`. If the connection is lost, the follower
    connects again and goes on where the copy ends.

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
        The directory holds a primary, or records beside those of the server's log.
    LogLockedError
        Another follower or a writer has the directory open.
    """
    timeout_s = parse_duration(connect_timeout, "connect_timeout")
    address = wire.address_of(url)
    address.check_plain(plain_text)
    roots = None if tls_roots is None else read_small_file(tls_roots, _PEM_LIMIT, follow=True)
    where = path_of(path)
    with telling_of_refusals(where):
        known = name or f"{socket.gethostname()}:{os.path.realpath(where)}"
        if len(known) > wire.NAME_LIMIT:
            raise InvalidOptionError(
                f"a follower's name has at most {wire.NAME_LIMIT} characters, not {len(known)}: "
                "pass a shorter name="
            )
        return Follower(Primary(url, address, token, roots), where, known, timeout_s)


class Follower:
    """Follow a log; `follow` returns it."""

    def __init__(self, primary: Primary, path: str, name: str, timeout_s: float) -> None:
        self._primary = primary
        self.name = name
        self._epoch = 0
        self._stopping = threading.Event()
        self._news = threading.Condition()
        self._flushed = 0
        self._error: CommitLogError | None = None
        self._stream: Any = None
        pyarrow = imported("pyarrow", "replication", "arrow")
        self._failures: tuple[type[Exception], ...] = (pyarrow.ArrowException, OSError)
        self._replica = self._open(path, timeout_s)
        self._thread = threading.Thread(target=self._run, name="commitlog follow", daemon=True)
        self._thread.start()

    # --- state ------------------------------------------------------------------------------------

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
        """Stop, and mark the copy as closed cleanly; a second call does nothing."""
        if not self._stopping.is_set():
            self._stopping.set()
            with contextlib.suppress(*self._failures, AttributeError):
                self._stream.cancel()
            self._thread.join()
            self._replica.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the first connection ---------------------------------------------------------------------

    def _open(self, path: str, timeout_s: float) -> Replica:
        failed: Exception | None = None
        for _ in attempts(timeout_s, f"a connection to {self._primary.url}"):
            try:
                with self._primary.connect() as client:
                    said = self._primary.describe(client, timeout_s)
                    self._prepare(path, client, said)
                    return self._checked(path, client, said)
            except self._failures as error:
                if isinstance(error, CommitLogError):
                    raise
                failed = error
                refused = self._primary.refused(error)
                if refused is not None:
                    raise refused from None
        raise ReplicationError(
            f"{self._primary.url} was not reached within {timeout_s:g} s: {failed}; check host, "
            "port, TLS and that the server runs"
        )

    def _checked(self, path: str, client: Any, said: dict[str, Any]) -> Replica:
        replica = Replica(path)
        try:
            self._meet(replica, client, said)
        except BaseException:
            replica.close()
            raise
        return replica

    def _prepare(self, path: str, client: Any, said: dict[str, Any]) -> None:
        """Create the copy, or check that the directory holds one of this log."""
        url = self._primary.url
        identity = identities.parse(str(said.get("identity")).encode(), url)
        theirs = _lineage_of(said, url)
        known = read_replica(path)
        if known is None:
            create_replica(path, identity, Lineage(theirs.epochs, url))
        else:
            if known[0].uuid != identity.uuid:
                raise ReplicationError(
                    f"{url} is another log than the one in this directory: choose an empty or a "
                    "new directory",
                    path=path,
                )
            if known[1].follows is None and known[1].number >= theirs.number:
                raise FencedError(
                    f"the log in this directory is a primary of epoch {known[1].number}, and "
                    f"{url} has epoch {theirs.number}: follow a log of a higher epoch",
                    path=path,
                )
        start = wire.number_of(said, "first", url)
        if known is None or not _has_segments(path):
            self._begin(path, identity, client, start)

    def _begin(self, path: str, identity: identities.Identity, client: Any, start: int) -> None:
        stream = self._primary.stream(client, start, [])
        try:
            layout = wire.schema()
            while True:
                chunk = wire.chunk_of(stream.read_chunk().data, layout, self._primary.url)
                if chunk.header:
                    begin_replica(path, identity, chunk.number, chunk.header)
                    return
        finally:
            stream.cancel()

    def _meet(self, replica: Replica, client: Any, said: dict[str, Any]) -> None:
        """Compare lineages and ends; adopt the primary's lineage, or raise."""
        url = self._primary.url
        theirs, ours = _lineage_of(said, url), replica.lineage
        pairs = zip(ours.epochs, theirs.epochs, strict=False)
        common = sum(1 for mine, other in pairs if mine == other)
        if common < len(ours.epochs):
            if ours.number > theirs.number:  # a primary that was replaced acknowledges no more
                self._primary.acknowledge(client, self.name, ours.number, replica.position)
            raise FencedError(
                f"this copy has epoch {ours.number}, and {url} does not know it, but has "
                f"epoch {theirs.number}: follow the log that was promoted last",
                path=replica.directory.path,
            )
        later = theirs.epochs[common:]
        if later and replica.position > later[0].start:
            raise FencedError(
                f"this log has records up to {replica.position}, and {url} went on at "
                f"{later[0].start} in epoch {later[0].number}: they went on beside each other; "
                "keep what you need of this one, remove it, and follow again",
                path=replica.directory.path,
                position=later[0].start,
            )
        end = max(wire.number_of(said, "end", url), wire.number_of(said, "first", url))
        # The end of a full segment and the beginning of the next one are the same place.
        if replica.position > end + HEADER_SIZE:
            raise FencedError(
                f"this copy ends at {replica.position}, and {url} at {end}: the server has "
                "lost records; promote the copy, or restore the server",
                path=replica.directory.path,
                position=end,
            )
        replica.adopt(Lineage(theirs.epochs, url))
        self._epoch = theirs.number

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        wait_s = _RETRY_S
        while not self._stopping.is_set():
            before = self._replica.position
            try:
                with self._primary.connect() as client:
                    said = self._primary.describe(client, _RETRY_LONGEST_S)
                    self._meet(self._replica, client, said)
                    self._copy(client)
            except self._failures as error:
                if isinstance(error, CommitLogError):
                    self._end(error)
                    return
                refused = self._primary.refused(error)
                if refused is not None and not self._stopping.is_set():
                    self._end(refused)
                    return
                _logger.info("%s: %s; connecting again", self._primary.url, error)
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

    def _copy(self, client: Any) -> None:
        replica, layout = self._replica, wire.schema()
        if not self._acknowledge(client):
            return
        self._stream = self._primary.stream(client, replica.position, replica.unsealed())
        try:
            while not self._stopping.is_set():
                try:
                    batch = self._stream.read_chunk().data
                except StopIteration:
                    return  # the server closes
                chunk = wire.chunk_of(batch, layout, self._primary.url)
                replica.write(chunk)
                with self._news:
                    self._flushed = chunk.flushed
                    self._news.notify_all()
                if chunk.frames and not self._acknowledge(client):
                    return
        finally:
            self._stream.cancel()

    def _acknowledge(self, client: Any) -> bool:
        """Tell the primary what is durable here; return False if its epoch has changed."""
        position = self._replica.position
        return self._primary.acknowledge(client, self.name, self._epoch, position) == self._epoch

    def _end(self, error: CommitLogError) -> None:
        _logger.error("%s: %s", self._primary.url, error)
        with self._news:
            self._error = error
            self._news.notify_all()


def _lineage_of(said: dict[str, Any], url: str) -> Lineage:
    try:
        return lineage.parse(said)
    except ValueError as error:
        raise ReplicationError(f"{url} sent an unusable lineage: {error}") from None


def _has_segments(path: str) -> bool:
    return any(name.endswith(".seg") for name in os.listdir(path))
