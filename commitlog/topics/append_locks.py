"""AppendLocks: the locks that say how well a handle seals the topics that it appends to."""

from __future__ import annotations

import contextlib
import hashlib
import os

from commitlog.base.life_lock import Span, byte, is_held, try_lock


class AppendLocks:
    """The locks of a handle. Forked children share them, because they may append, too.

    Parameters
    ----------
    path : str
        `SchemaCatalog.lock_path`.
    """

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._held: set[tuple[str, int]] = set()

    def has(self, topic: str, rank: int) -> bool:
        """Return whether this handle appends messages of a rank."""
        return (topic, rank) in self._held

    def take(self, topic: str, rank: int) -> None:
        """Note that this handle appends messages of a rank. No handle has an exclusive lock."""
        try_lock(self._fd, "shared", _span(topic, rank))
        self._held.add((topic, rank))

    def is_taken(self, topic: str, rank: int) -> bool:
        """Return whether any handle appends messages of a rank."""
        return self.has(topic, rank) or is_held(self._fd, span=_span(topic, rank))

    def close(self) -> None:
        """Release the locks."""
        with contextlib.suppress(OSError):  # a forked child may have closed it
            os.close(self._fd)


def _span(topic: str, rank: int) -> Span:
    digest = hashlib.blake2b(topic.encode(), digest_size=6).digest()
    return byte(int.from_bytes(digest, "big") << 2 | rank)
