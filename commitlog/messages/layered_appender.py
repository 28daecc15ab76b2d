"""LayeredAppender: append the values of messages compressed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from commitlog.errors import RecordTooLargeError
from commitlog.log.commit_log import CommitLog
from commitlog.messages import compression
from commitlog.messages.appender import Key, LastAppend, Positions, TopicAppender
from commitlog.messages.catalog import SchemaCatalog
from commitlog.messages.compression import Compressor, Samples, Zstd
from commitlog.messages.layer import opener_of
from commitlog.messages.schema import Schema

_SEARCHED = 4 * compression.SAMPLES  # records among which messages of an earlier open are sought


@dataclass(frozen=True)
class _Stage:
    """What a schema says, done: the layers, and the appenders of their values, without a history
    and with one.
    """

    compressed: Callable[[bytes], bytes]
    appender: TopicAppender
    history: TopicAppender


class LayeredAppender:
    """Append the values of a topic's messages compressed; it has the methods of `TopicAppender`.

    Messages are compressed without a dictionary until there are enough to train one. The dictionary
    is in the schema, so messages that use it have another type number. Any thread may use it.

    Parameters
    ----------
    log, catalog, last
        As for `TopicAppender`.
    schema : Schema
        Without layers.
    zstd : Zstd
        How to compress.
    known : dict
        The schemas of the topic, by type number.

    Attributes
    ----------
    type, last, segment_end, far_end
        As for `TopicAppender`; `far_end` says that no message may go past this object.
    """

    def __init__(
        self,
        log: CommitLog,
        schema: Schema,
        catalog: SchemaCatalog,
        last: LastAppend,
        *,
        zstd: Zstd,
        known: dict[int, Schema],
    ) -> None:
        self.last = last
        self.segment_end = self.far_end = -1
        self._log = log
        self._schema = schema
        self._catalog = catalog
        self._level = zstd.level
        self._limit = log.largest_value - 8
        self._samples: Samples | None = None
        dictionary = zstd.dictionary
        if dictionary is None:
            dictionary = self._found(known)
            if not dictionary and log.mode != "r":
                self._samples = Samples()
                dictionary = self._trained_on_earlier(known)
        self._stage = self._with(dictionary)
        self.type = self._stage.appender.type

    def _with(self, dictionary: bytes) -> _Stage:
        schema = replace(self._schema, layers=(compression.form_of(dictionary),))
        compressor = Compressor(self._level, dictionary)
        plain, history = (
            TopicAppender(self._log, each, self._catalog, self.last)
            for each in (schema, replace(schema, has_history=True))
        )
        return _Stage(compressor.compressed, plain, history)

    # --- the dictionary ---------------------------------------------------------------------------

    def _found(self, known: dict[int, Schema]) -> bytes:
        """Return the dictionary that an earlier open or another process has trained."""
        for _, schema in sorted(known.items()):
            if self._is_same_version(schema) and len(schema.layers) == 1:
                dictionary = compression.dictionary_of(schema.layers[0])
                if dictionary:
                    return dictionary
        return b""

    def _is_same_version(self, schema: Schema) -> bool:
        return (schema.codec, schema.form) == (self._schema.codec, self._schema.form)

    def _trained_on_earlier(self, known: dict[int, Schema]) -> bytes:
        """Train a dictionary on the messages at the beginning of the log, if there are enough."""
        openers = {
            number: opener_of(self._log, schema)
            for number, schema in known.items()
            if self._is_same_version(schema) and not schema.has_history
        }
        if not openers:
            return b""
        with self._log.tailer(visibility="appended", on_damage="skip") as tailer:
            for record in itertools.islice(tailer, _SEARCHED):
                if record.type in openers:
                    opened = openers[record.type]
                    try:
                        value = record.value if opened is None else opened(record.value)
                    except ValueError:
                        continue
                    if self._samples is not None and self._samples.add(value):
                        return self._trained()
        return b""

    def _trained(self) -> bytes:
        samples, self._samples = self._samples, None
        return b"" if samples is None else samples.dictionary(self._level)

    def _note(self, value: bytes) -> None:
        """Keep a message as a sample; train the dictionary if it is the last one needed."""
        samples = self._samples
        if samples is not None and samples.add(value):
            dictionary = self._trained()
            if dictionary:
                self._stage = self._with(dictionary)

    # --- appending --------------------------------------------------------------------------------

    def append(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        expect: int | None,
    ) -> int:
        """Append one message; return its position, or -1 if it was dropped."""
        if len(value) + len(key or b"") > self._limit:
            self._refuse(value, key)
        if self._samples is not None:
            self._note(value)
        stage = self._stage
        layered = stage.compressed(value)
        return stage.appender.append(layered, key, timestamp_ns, sync, expect)

    def append_many(
        self,
        values: list[bytes],
        keys: Iterable[Key | None] | None,
        timestamp_ns: int | None,
        sync: bool | None,
        expect: int | None,
    ) -> Positions:
        """Append messages, after checking the size of each; return their positions."""
        given = None if keys is None else list(keys)
        stage, layered = self._layered(values, given)
        return stage.appender.append_many(layered, given, timestamp_ns, sync, expect)

    async def append_async(
        self,
        value: bytes,
        key: Key | None,
        timestamp_ns: int | None,
        sync: bool | None,
        expect: int | None,
    ) -> int:
        """Append one message as `append` does, and wait as `CommitLog.append_async` does."""
        stage, (layered,) = self._layered([value], [key])
        return await stage.appender.append_async(layered, key, timestamp_ns, sync, expect)

    def declare_behind(self, position: int) -> None:
        """As for `TopicAppender`."""
        self._stage.appender.declare_behind(position)

    def with_history(
        self, values: list[bytes], keys: list[Key | None] | None
    ) -> tuple[TopicAppender, list[bytes]]:
        """As `TopicAppender.layered`, for messages that have a history."""
        stage, layered = self._layered(values, keys)
        return stage.history, layered

    def _layered(
        self, values: list[bytes], keys: list[Key | None] | None
    ) -> tuple[_Stage, list[bytes]]:
        for value, key in zip(values, keys or itertools.repeat(None), strict=False):
            if len(value) + len(key or b"") > self._limit:
                self._refuse(value, key)
            if self._samples is not None:
                self._note(value)
        stage = self._stage
        return stage, list(map(stage.compressed, values))

    def _refuse(self, value: bytes, key: Key | None) -> None:
        """Refuse what readers would refuse: their limit bounds the memory of a hostile record."""
        size = len(value) + len(key or b"")
        raise RecordTooLargeError(
            f"a message of topic {self._schema.topic!r} has {size} bytes with its key before it is "
            f"compressed, and a record of this log has room for {self._limit}: split it, or create "
            "the log with a larger segment_size",
            path=self._log.path,
            size=size,
            limit=self._limit,
        )
