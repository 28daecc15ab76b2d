"""Outputs: collect the messages that are written while another is handled; append them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from commitlog.errors import InvalidOptionError
from commitlog.log.commit_log import CommitLog
from commitlog.messages.appender import (
    Appending,
    Condition,
    Key,
    Layered,
    checked_keys,
)
from commitlog.messages.message_sizes import frames_length
from commitlog.messages.part import Part, Positions

_DROPPED = -1  # what an append returns whose position is not known yet


class _Output(NamedTuple):
    appender: Appending
    value: bytes
    key: Key | None
    timestamp_ns: int | None
    sync: bool | None


class Outputs:
    """Collect the messages that are written to one log while another message is handled.

    They are one list of `CommitLog.append_many`, so a kill leaves all of them or none if they take
    at most 64 KiB. Of a longer list, a kill may leave only the first claims.

    Attributes
    ----------
    log : CommitLog
        The log that they are appended to.
    missing : int or None
        How many outputs of the next message are not in the log yet; None if that is all of them.
    """

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.missing: int | None = None
        self._gathered: list[_Output] = []

    def add(self, output: _Output) -> None:
        """Add an output."""
        self._gathered.append(output)

    def discard(self) -> None:
        """Drop the outputs, because the message is not handled."""
        self._gathered = []

    def append(self, head: Callable[[int], bytes]) -> None:
        """Append the outputs.

        Parameters
        ----------
        head : callable
            Takes how many outputs follow, and returns the history of one.
        """
        outputs = self._taken()
        if len(outputs) == 1:
            appender, value, key, timestamp_ns, sync = outputs[0]
            appender.append(head(0) + value, key, timestamp_ns, sync, None)
        elif outputs:
            part = self._part(outputs, head)
            _note(outputs, part.append(self.log, outputs[0].timestamp_ns))

    async def append_async(self, head: Callable[[int], bytes]) -> None:
        """Append the outputs, and wait as `CommitLog.append_many_async` does."""
        outputs = self._taken()
        if len(outputs) == 1:
            appender, value, key, timestamp_ns, sync = outputs[0]
            await appender.append_async(head(0) + value, key, timestamp_ns, sync, None)
        elif outputs:
            part = self._part(outputs, head)
            _note(outputs, await part.append_async(self.log, outputs[0].timestamp_ns))

    def _taken(self) -> list[_Output]:
        """Return the outputs that the log lacks, and drop all."""
        outputs, self._gathered = self._gathered, []
        if self.missing is not None:
            outputs = outputs[max(0, len(outputs) - self.missing) :]
            self.missing = None
        return outputs

    def _part(self, outputs: list[_Output], head: Callable[[int], bytes]) -> Part:
        last = len(outputs) - 1
        values = [head(last - at) + each.value for at, each in enumerate(outputs)]
        keys = [each.key for each in outputs]
        if len({each.timestamp_ns for each in outputs}) > 1:
            raise InvalidOptionError(
                "with after_last_written= the outputs of a message are appended together, with one "
                "timestamp: give the same timestamp_ns= to all of them, or to none",
                path=self.log.path,
            )
        length = frames_length(values, keys)
        for appender in dict.fromkeys(each.appender for each in outputs):
            appender.prepare(length)
        return Part(
            values,
            keys,
            [each.appender.type for each in outputs],
            [each.appender.seal for each in outputs],
            _strictest(each.sync for each in outputs),
        )


class OutputAppender:
    """Collect the messages of a topic as outputs.

    The parameters of its methods are those of `TopicAppender`. Positions are unknown until the
    outputs are appended, so each method returns -1.
    """

    def __init__(self, outputs: Outputs, layered: Layered) -> None:
        self._outputs = outputs
        self._layered = layered

    def append(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        condition: Condition,
    ) -> int:
        """Collect one message."""
        self.append_many([value], [key], timestamp_ns, sync, condition)
        return _DROPPED

    def append_many(
        self,
        values: list[bytes],
        keys: Iterable[Key | None] | None,
        timestamp_ns: int | None,
        sync: bool | None,
        condition: Condition,
    ) -> Positions:
        """Collect messages."""
        if condition is not None:
            raise InvalidOptionError(
                "with after_last_written= a method cannot give expect= or producer=, because its "
                "outputs are appended after it returns, once for each input: leave them out",
                path=self._outputs.log.path,
            )
        given = checked_keys(self._outputs.log, values, keys)
        for value, key in zip(values, given, strict=True):
            appender, layered = self._layered.one(value, key)
            self._outputs.add(_Output(appender, layered, key, timestamp_ns, sync))
        return np.full(len(values), _DROPPED, dtype=np.int64)

    async def append_async(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        condition: Condition,
    ) -> int:
        """Collect one message."""
        return self.append(value, key, timestamp_ns, sync, condition)


def _note(outputs: list[_Output], positions: Positions) -> None:
    for each, position in zip(outputs, positions.tolist(), strict=True):
        each.appender.note_last(position)


def _strictest(syncs: Iterable[bool | None]) -> bool | None:
    given = set(syncs)
    return True if True in given else None if None in given else False
