"""TopicPipe: the way of a topic's messages from their codec to the log.

A draft goes through the layers of the topic, in the order in which its schema has them: compress,
then seal. A reader takes the layers off in reverse: see `layer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from commitlog import CommitLog
from commitlog.errors import InvalidOptionError
from commitlog.stats import TopicStats
from commitlog.topics.appender import Condition, TopicAppender
from commitlog.topics.compiled.messages import lengths_of
from commitlog.topics.draft import Draft, Headers, Key, Variant
from commitlog.topics.handled import HANDLED
from commitlog.topics.message_sizes import not_bytes
from commitlog.topics.outputs import Outputs
from commitlog.topics.part import Positions
from commitlog.topics.schema import Schema

_BYTES = (bytes, bytearray, memoryview)


class Layer(Protocol):
    """A layer that is applied to the messages of a topic."""

    def apply(self, draft: Draft) -> None:
        """Change the values of a draft, and its schema or its variant."""


class TopicPipe:
    """Apply the layers of a topic to its messages, and append them. Any thread may use it.

    A message that is appended while another one is handled gets a history in front of what the
    layers made. If the outputs of the handled message are collected, it is collected.

    Parameters
    ----------
    log : CommitLog
        The log of the topic.
    schema : Schema
        Without layers.
    layers : sequence of Layer
        In the order in which they are applied.
    history : bool
        Whether messages get histories.
    stats : TopicStats
        Counts the messages and their sizes, if there are layers. No call is between reading and
        writing a counter, so threads lose nothing.

    Attributes
    ----------
    plain : Variant or None
        What messages without a history are appended under; None if there are layers.
    """

    def __init__(
        self,
        log: CommitLog,
        schema: Schema,
        layers: Sequence[Layer],
        *,
        history: bool,
        stats: TopicStats | None,
    ) -> None:
        self._log = log
        self._schemas = schema, replace(schema, has_history=True)
        self._layers = layers
        self._has_history = history
        self._stats = stats
        self._variants: dict[int, Variant] = {}  # of drafts that no layer gave one
        self._appender = TopicAppender(log)
        self.plain = None if layers else self._variant_of(schema)

    def append(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        condition: Condition,
        *,
        headers: Headers | None = None,
    ) -> int:
        """Append one message; return its position, or -1 if it was dropped or collected."""
        draft, outputs = self._draft([value], [key], condition)
        if headers is not None:
            draft.add_headers(self._log, [headers])
        if outputs is not None:
            return int(outputs.add(draft, timestamp_ns, sync)[0])
        return self._appender.append(draft, timestamp_ns, sync, condition)

    def append_many(
        self,
        values: list[bytes],
        keys: Iterable[Key | None] | None,
        timestamp_ns: int | None,
        sync: bool | None,
        expect: int | None,
        *,
        headers: Iterable[Headers | None] | None = None,
    ) -> Positions:
        """Append messages; return their positions, -1 for those that were dropped or collected."""
        given: list[Key | None] = [None] * len(values) if keys is None else list(keys)
        if len(given) != len(values):
            raise InvalidOptionError(
                f"keys must have one key for each message: {len(given)} keys for {len(values)} "
                "messages",
                path=self._log.path,
            )
        draft, outputs = self._draft(values, given, expect)
        if headers is not None:
            draft.add_headers(self._log, list(headers))
        if outputs is not None:
            return outputs.add(draft, timestamp_ns, sync)
        return self._appender.append_many(draft, timestamp_ns, sync, expect)

    async def append_async(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        condition: Condition,
        *,
        headers: Headers | None = None,
    ) -> int:
        """Append one message, and wait as `CommitLog.append_async` does."""
        draft, outputs = self._draft([value], [key], condition)
        if headers is not None:
            draft.add_headers(self._log, [headers])
        if outputs is not None:
            return int(outputs.add(draft, timestamp_ns, sync)[0])
        return await self._appender.append_async(draft, timestamp_ns, sync, condition)

    def declare_behind(self, position: int) -> None:
        """Append the schema behind a message without layers: see `TopicAppender`."""
        assert self.plain is not None
        self._appender.declare_behind(self.plain, position)

    # --- layers -----------------------------------------------------------------------------------

    def _draft(
        self, values: list[bytes], keys: list[Key | None], condition: Condition
    ) -> tuple[Draft, Outputs | None]:
        """Return a draft behind all layers and its history, and what collects it instead of the
        log.
        """
        handled = HANDLED.get()
        if handled is None or handled.is_over:
            return self._through_layers(values, keys, self._schemas[False]), None
        outputs = handled.outputs_to(self._log, condition, has_history=self._has_history)
        draft = self._through_layers(values, keys, self._schemas[self._has_history])
        if self._has_history and outputs is None:
            head = handled.head()
            draft.values = [head + value for value in draft.values]
        return draft, outputs

    def _through_layers(self, values: list[bytes], keys: list[Key | None], schema: Schema) -> Draft:
        if not self._layers:
            return Draft(values, keys, schema, variant=self._variant_of(schema))
        lengths = lengths_of(values)
        draft = Draft(values, keys, schema, lengths)
        for key in keys:
            if key is not None and not isinstance(key, _BYTES):
                raise not_bytes([key])
        for layer in self._layers:
            layer.apply(draft)
        if draft.variant is None:
            draft.variant = self._variant_of(draft.schema)
        stats = self._stats
        if stats is not None:
            value_bytes = lengths_of(draft.values)[0]
            stats.messages += len(values)
            stats.plain_bytes += lengths[0]
            stats.value_bytes += value_bytes
        return draft

    def _variant_of(self, schema: Schema) -> Variant:
        variant = self._variants.get(schema.number)
        if variant is None:
            variant = self._variants[schema.number] = Variant(schema)
        return variant
