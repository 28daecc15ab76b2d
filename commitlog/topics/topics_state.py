"""TopicsState: the state that the topics and readers of one open log share."""

from __future__ import annotations

import os
import weakref
from typing import Any, ClassVar

from commitlog import CommitLog
from commitlog.extension import view_of
from commitlog.topics.append_locks import AppendLocks
from commitlog.topics.catalog import SchemaCatalog
from commitlog.topics.compiled.messages import LastAppend
from commitlog.topics.floors import Floors


class TopicsState:
    """The state of one open log. It refers to the log weakly, so that an unused log is closed.

    Attributes
    ----------
    catalog : SchemaCatalog
        The schemas of the log.
    floors : Floors
        From which positions on topics are sealed.
    classes : dict
        The message class of each topic, by its name.
    last : LastAppend
        The position of the last message that was appended.
    forks : int
        How many forks are between the process that imported this and the present one.
    """

    forks: ClassVar[int] = 0

    def __init__(self, log: CommitLog) -> None:
        self.catalog = SchemaCatalog(weakref.proxy(log))
        self.floors = Floors()
        self.classes: dict[str, Any] = {}
        self.last = LastAppend()
        self._locks: AppendLocks | None = None

    def has_lock(self, topic: str, rank: int) -> bool:
        """Return whether this handle has the lock for messages of a rank."""
        return self._locks is not None and self._locks.has(topic, rank)

    def locks(self, log: CommitLog) -> AppendLocks:
        """Return the locks of the log's handle; call this under the lock of the catalog."""
        if self._locks is None:
            self._locks = AppendLocks(self.catalog.lock_path)
            view_of(log).at_close(self._locks.close)
        return self._locks


def state_of(log: CommitLog) -> TopicsState:
    """Return the state of an open log."""
    return view_of(log).state(TopicsState, lambda: TopicsState(log))


def catalog_of(log: CommitLog) -> SchemaCatalog:
    """Return the catalog of an open log."""
    return state_of(log).catalog


def _count_fork() -> None:
    TopicsState.forks += 1


os.register_at_fork(after_in_child=_count_fork)
