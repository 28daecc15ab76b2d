"""Outputs: collect the messages that are written while another is handled; append them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from commitlog import CommitLog
from commitlog.errors import InvalidOptionError
from commitlog.topics.appender import TopicAppender
from commitlog.topics.draft import Draft, Headers, Variant
from commitlog.topics.message_sizes import frames_length
from commitlog.topics.part import Part, Positions


class _Output(NamedTuple):
    variant: Variant
    value: bytes
    key: bytes | None
    timestamp_ns: int | None
    sync: bool | None
    headers: Headers | None
    header_length: int

    def draft(self, head: bytes) -> Draft:
        """Return this output with its history."""
        values = [head + self.value]
        draft = Draft(values, [self.key], self.variant.schema, variant=self.variant)
        if self.headers:
            draft.headers, draft.header_lengths = [self.headers], [self.header_length]
        return draft


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
        self._appender = TopicAppender(log)
        self._gathered: list[_Output] = []

    def add(self, draft: Draft, timestamp_ns: int | None, sync: bool | None) -> Positions:
        """Add the messages of a draft, without their history. Return -1 for each, because their
        positions are unknown until they are appended.
        """
        assert draft.variant is not None
        count = len(draft.values)
        headers = draft.headers or [None] * count
        lengths = draft.header_lengths or [0] * count
        for value, key, own, length in zip(draft.values, draft.keys, headers, lengths, strict=True):
            self._gathered.append(
                _Output(draft.variant, value, key, timestamp_ns, sync, own, length)
            )
        return np.full(len(draft.values), -1, dtype=np.int64)

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
        outputs = self._take()
        if len(outputs) == 1:
            (only,) = outputs
            self._appender.append(only.draft(head(0)), only.timestamp_ns, only.sync, None)
        elif outputs:
            part = self._part(outputs, head)
            self._note(outputs, part.append(self.log, outputs[0].timestamp_ns))

    async def append_async(self, head: Callable[[int], bytes]) -> None:
        """Append the outputs, and wait as `CommitLog.append_many_async` does."""
        outputs = self._take()
        if len(outputs) == 1:
            (only,) = outputs
            draft = only.draft(head(0))
            await self._appender.append_async(draft, only.timestamp_ns, only.sync, None)
        elif outputs:
            part = self._part(outputs, head)
            self._note(outputs, await part.append_async(self.log, outputs[0].timestamp_ns))

    def _take(self) -> list[_Output]:
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
        headers = [each.headers for each in outputs]
        if len({each.timestamp_ns for each in outputs}) > 1:
            raise InvalidOptionError(
                "with after_last_written= the outputs of a message are appended together, with one "
                "timestamp: give the same timestamp_ns= to all of them, or to none",
                path=self.log.path,
            )
        length = frames_length(values, keys) + sum(each.header_length for each in outputs)
        for variant in dict.fromkeys(each.variant for each in outputs):
            self._appender.prepare(variant, length)
        return Part(
            values,
            keys,
            [each.variant.type for each in outputs],
            [each.variant.seal for each in outputs],
            _strictest(each.sync for each in outputs),
            headers=headers if any(headers) else None,
        )

    def _note(self, outputs: list[_Output], positions: Positions) -> None:
        for each, position in zip(outputs, positions.tolist(), strict=True):
            self._appender.note_last(each.variant, position)


def _strictest(syncs: Iterable[bool | None]) -> bool | None:
    given = set(syncs)
    return True if True in given else None if None in given else False
