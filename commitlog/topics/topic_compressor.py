"""TopicCompressor: compress the messages of a topic, with a dictionary that it trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from commitlog import CommitLog
from commitlog.extension import view_of
from commitlog.topics import compression
from commitlog.topics.compiled.messages import lengths_of
from commitlog.topics.compression import DICTIONARY_BYTES, Form, Zstd, library, load_dictionary
from commitlog.topics.draft import Draft
from commitlog.topics.message_sizes import check_sizes
from commitlog.topics.schema import Schema
from commitlog.topics.topic_dictionary import TopicDictionary

SAMPLES = 256
_SAMPLE_BYTES = 1 << 20  # of all samples together
_WORTH = 0.9  # a dictionary is used if it makes messages at least that much smaller


class Compressor:
    """Compress messages, from any thread.

    Parameters
    ----------
    level : int
        That of `Zstd`.
    dictionary : bytes
        May be empty.
    """

    def __init__(self, level: int, dictionary: bytes) -> None:
        zstandard = library()
        loaded = load_dictionary(dictionary)
        if loaded is not None:
            loaded.precompute_compress(compression_params=_parameters(level, len(dictionary)))
        self._make: Callable[[], Any] = lambda: zstandard.ZstdCompressor(
            level=level, dict_data=loaded, write_dict_id=False
        )
        # A library's object serves one thread at a time. Taking it out and putting it back are
        # atomic.
        self._idle: list[Any] = [self._make()]

    def compress(self, value: bytes) -> bytes:
        """Return a frame of zstd."""
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = self._make()
        found: bytes = worker.compress(value)
        self._idle.append(worker)
        return found


class Samples:
    """The first messages of a topic, from which a dictionary is trained."""

    def __init__(self) -> None:
        self._values: list[bytes] = []
        self._bytes = 0

    def add(self, value: bytes) -> bool:
        """Keep a message; return whether there are enough."""
        self._values.append(value)
        self._bytes += len(value)
        return len(self._values) >= SAMPLES or self._bytes >= _SAMPLE_BYTES

    def train(self, level: int) -> bytes:
        """Train a dictionary; return empty bytes if it would save too little."""
        zstandard = library()
        values = list(self._values)
        try:
            trained: bytes = zstandard.train_dictionary(DICTIONARY_BYTES, values).as_bytes()
        except zstandard.ZstdError:  # too few messages, or nothing in common
            return b""
        plain, better = _total(values, level, b""), _total(values, level, trained)
        return trained if better <= _WORTH * plain else b""


def _total(values: Sequence[bytes], level: int, dictionary: bytes) -> int:
    compress = Compressor(level, dictionary).compress
    return sum(len(compress(value)) for value in values)


def _parameters(level: int, dictionary_bytes: int) -> Any:
    """Return how messages are compressed with a dictionary.

    The fast levels get a hash table of 16 KiB, which stays in the first cache of a core, and find
    no matches below 6 bytes: that is faster, and JSON gets no larger.
    """
    zstandard = library()
    of_level = zstandard.ZstdCompressionParameters.from_level
    found = of_level(level, dict_size=dictionary_bytes)
    if found.strategy != zstandard.STRATEGY_FAST:
        return found
    return of_level(level, dict_size=dictionary_bytes, hash_log=12, min_match=6)


@dataclass(frozen=True, slots=True)
class _Stage:
    """One dictionary: what compresses with it, and the schemas without a history and with one."""

    compress: Callable[[bytes], bytes]
    schemas: tuple[Schema, Schema]


class TopicCompressor:
    """Compress messages: the first layer of a topic.

    Messages are compressed without a dictionary until there are enough to train one. The dictionary
    is in the schema, so messages that use it have another type number. Any thread may use it.

    Parameters
    ----------
    log : CommitLog
        The log of the topic.
    schema : Schema
        Without layers.
    zstd : Zstd
        How to compress.
    dictionary : TopicDictionary
        Finds the dictionary of an earlier open, and makes the layer of a new one.
    """

    def __init__(
        self, log: CommitLog, schema: Schema, zstd: Zstd, dictionary: TopicDictionary
    ) -> None:
        self._log = log
        self._schema = schema
        self._level = zstd.level
        self._dictionary = dictionary
        self._limit = view_of(log).largest_value(type=schema.number)
        self._samples: Samples | None = None
        known = dictionary.find(zstd.dictionary)
        if known is not None:
            self._stage = self._staged(*known)
            return
        content = zstd.dictionary
        if content is None:
            content = b""
            if log.mode != "r":
                samples = self._samples = Samples()
                if any(map(samples.add, dictionary.earlier_messages())):
                    content = self._train()
        self._stage = self._staged(content, dictionary.form_of(content))

    def _staged(self, dictionary: bytes, form: Form) -> _Stage:
        layer = {**form, "name": compression.NAME}
        schema = replace(self._schema, layers=(layer,))
        schemas = schema, replace(schema, has_history=True)
        return _Stage(Compressor(self._level, dictionary).compress, schemas)

    def _train(self) -> bytes:
        """Train a dictionary, and keep no more samples."""
        samples, self._samples = self._samples, None
        return b"" if samples is None else samples.train(self._level)

    def _note(self, value: bytes) -> None:
        """Keep a message as a sample; train the dictionary if it is the last one needed."""
        samples = self._samples
        if samples is not None and samples.add(value):
            dictionary = self._train()
            if dictionary:
                self._stage = self._staged(dictionary, self._dictionary.form_of(dictionary))

    def apply(self, draft: Draft) -> None:
        """Compress the values of a draft."""
        values = draft.values
        if draft.lengths[1] + lengths_of(draft.keys)[1] > self._limit:
            # Readers refuse a larger message: their limit bounds the memory of a hostile record.
            check_sizes(
                self._log, self._schema, values, draft.keys, when=" before it is compressed"
            )
        if self._samples is not None:
            for value in values:
                self._note(value)
        stage = self._stage
        draft.values = list(map(stage.compress, values))
        draft.schema = stage.schemas[draft.schema.has_history]
