"""Quorum: the other logs, which a promotion asks to promise its epoch."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from commitlog.base.host import host
from commitlog.errors import CommitLogError, InvalidOptionError, ReplicationError
from commitlog.extension import LockedLog, Rank
from commitlog.network.remote.wire import FAILURES, RefusedError
from commitlog.network.replication.comparison import parted_below
from commitlog.network.replication.digests import Digests
from commitlog.network.replication.primary import Access, Primary
from commitlog.network.replication.promise import Asked, Standing, standing_of
from commitlog.network.replication.promotion_steps import Answer

T = TypeVar("T")
_logger = logging.getLogger("commitlog.replication")
_MEMBERS_LIMIT = 64


class Quorum:
    """The other logs, asked at the same time.

    Parameters
    ----------
    urls : iterable of str
        Their URLs.
    access : Access
        How to connect to them.
    timeout_s : float
        How long one may take to answer.
    path : str
        Of the copy that asks, for errors.
    """

    def __init__(self, urls: Iterable[str], access: Access, timeout_s: float, path: str) -> None:
        self._path = path
        self.urls = tuple(urls)
        self.timeout_s = timeout_s
        self._others = {url: access.primary(url) for url in self.urls}
        if len(self._others) < len(self.urls):
            raise InvalidOptionError("two URLs name the same copy: name each other copy once")
        if len(self._others) > _MEMBERS_LIMIT:
            raise InvalidOptionError(f"a log has at most {_MEMBERS_LIMIT} other copies")

    def of(self, url: str) -> Primary:
        return self._others[url]

    def describe(self, uuid: bytes) -> dict[str, Answer | str]:
        """Ask all for what they have, and change nothing; return why one did not answer."""
        return self._each(self._others, lambda url: self._describe(self._others[url], uuid))

    def ask(self, asked: Mapping[str, Asked]) -> dict[str, tuple[Rank, Standing] | str]:
        """Ask for promises; return what each has promised then, and its standing."""

        def fence(url: str) -> tuple[Rank, Standing]:
            with self._others[url].connect(self.timeout_s) as client:
                return self._others[url].fence(client, asked[url], self.timeout_s)

        return self._each(asked, fence)

    def compare(self, log: LockedLog, ends: Mapping[str, int]) -> dict[str, int | str | None]:
        """Compare the last frames below a position of each log with those of the own one."""
        own, numbers = Digests(log), log.segment_numbers()

        def compare(url: str) -> int | None:
            other, size = self._others[url], log.identity.segment_size
            with other.connect(self.timeout_s) as client:
                ask = functools.partial(other.digests, client, timeout_s=self.timeout_s)
                try:
                    return parted_below(own, ask, numbers, ends[url], size)
                except RefusedError as error:  # by an older release
                    _logger.warning("%s: its records were not compared: %s", url, error)
                    return None

        return self._each(ends, compare)

    def _describe(self, other: Primary, uuid: bytes) -> Answer:
        with other.connect(self.timeout_s) as client:
            log = other.describe(client, self.timeout_s)
        if log.identity.uuid != uuid:
            raise ReplicationError(f"{other.url} is another log: name the copies of this one")
        standing = standing_of(log.lineage, log.end, log.identity)
        return Answer(log.lineage, standing, log.place, log.durable)

    def _each(self, urls: Iterable[str], act: Callable[[str], T]) -> dict[str, T | str]:
        def asked(url: str) -> T | str:
            try:
                return act(url)
            except CommitLogError as error:
                return error.message
            except FAILURES as error:
                return str(error)

        listed = list(urls)
        if not listed:
            return {}
        with host.executor(len(listed), self._path) as threads:
            return dict(zip(listed, threads.map(asked, listed), strict=True))
