"""HistoryAppender: append messages behind the history of the message that is handled."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from commitlog.messages.appender import Key, Positions, TopicAppender


class HistoryAppender:
    """Append the messages of a topic behind their history.

    The parameters of its methods are those of `TopicAppender`.

    Parameters
    ----------
    appender : TopicAppender
        Its schema says that the messages have a history.
    head : callable
        Returns the history of a message that is written now.
    """

    def __init__(self, appender: TopicAppender, head: Callable[[], bytes]) -> None:
        self._appender = appender
        self._head = head

    def append(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        expect: int | None,
    ) -> int:
        """Append one message; return its position, or -1 if it was dropped."""
        return self._appender.append(self._head() + value, key, timestamp_ns, sync, expect)

    def append_many(
        self,
        values: list[bytes],
        keys: Iterable[Key | None] | None,
        timestamp_ns: int | None,
        sync: bool | None,
        expect: int | None,
    ) -> Positions:
        """Append messages; return their positions."""
        head = self._head()
        behind = [head + value for value in values]
        return self._appender.append_many(behind, keys, timestamp_ns, sync, expect)

    async def append_async(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        expect: int | None,
    ) -> int:
        """Append one message, and wait as `CommitLog.append_async` does."""
        behind = self._head() + value
        return await self._appender.append_async(behind, key, timestamp_ns, sync, expect)
