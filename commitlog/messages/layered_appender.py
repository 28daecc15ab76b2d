"""LayeredAppender: append messages behind the layers of their schema, and behind their history."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from commitlog._kernel.messages import lengths_of
from commitlog.messages.appender import Appending, Condition, Key, Layered
from commitlog.messages.part import Positions
from commitlog.stats import TopicStats


class Measured:
    """Put values behind the layers of their schema, and count them and their sizes: see `Layered`.

    Parameters
    ----------
    layered : Layered
        Puts them behind the layers.
    stats : TopicStats
        What is counted. No call is between reading and writing a counter, so threads lose nothing.
    """

    def __init__(self, layered: Layered, stats: TopicStats) -> None:
        self._layered = layered
        self._stats = stats

    def one(self, value: bytes, key: Key | None) -> tuple[Appending, bytes]:
        appender, layered = self._layered.one(value, key)
        plain_bytes, value_bytes = len(value), len(layered)
        stats = self._stats
        stats.messages += 1
        stats.plain_bytes += plain_bytes
        stats.value_bytes += value_bytes
        return appender, layered

    def many(
        self, values: list[bytes], keys: list[Key | None] | None
    ) -> tuple[Appending, list[bytes]]:
        appender, layered = self._layered.many(values, keys)
        messages = len(values)
        plain_bytes, value_bytes = lengths_of(values)[0], lengths_of(layered)[0]
        stats = self._stats
        stats.messages += messages
        stats.plain_bytes += plain_bytes
        stats.value_bytes += value_bytes
        return appender, layered


class LayeredAppender:
    """Append the messages of a topic as its schema says.

    The parameters of its methods are those of `TopicAppender`.

    Parameters
    ----------
    layered : Layered
        Of the schema of the messages.
    head : callable
        Returns the history of a message that is written now; by default there is none.
    """

    def __init__(self, layered: Layered, head: Callable[[], bytes] = bytes) -> None:
        self._layered = layered
        self._head = head

    def append(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        condition: Condition,
    ) -> int:
        """Append one message; return its position, or -1 if it was dropped."""
        appender, layered = self._layered.one(value, key)
        return appender.append(self._head() + layered, key, timestamp_ns, sync, condition)

    def append_many(
        self,
        values: list[bytes],
        keys: Iterable[Key | None] | None,
        timestamp_ns: int | None,
        sync: bool | None,
        expect: int | None,
    ) -> Positions:
        """Append messages; return their positions."""
        given = None if keys is None else list(keys)
        appender, layered = self._layered.many(values, given)
        head = self._head()
        behind = [head + value for value in layered]
        return appender.append_many(behind, given, timestamp_ns, sync, expect)

    async def append_async(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        condition: Condition,
    ) -> int:
        """Append one message, and wait as `CommitLog.append_async` does."""
        appender, layered = self._layered.one(value, key)
        return await appender.append_async(
            self._head() + layered, key, timestamp_ns, sync, condition
        )
