"""TopicCompressor: compress the messages of a topic, with a dictionary that it trains."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

from commitlog.errors import KeyUnavailableError
from commitlog.log.commit_log import CommitLog
from commitlog.messages import compression
from commitlog.messages.appender import Appending, Key, Layered
from commitlog.messages.compression import Compressor, Form, Samples, Zstd
from commitlog.messages.key_ring import KeyRing
from commitlog.messages.layer import RecordDecoder, layered
from commitlog.messages.message_sizes import check_sizes, not_bytes
from commitlog.messages.schema import Schema
from commitlog.messages.seal_layer import is_sealed
from commitlog.messages.sealed_dictionary import has_sealed, opened_dictionary, sealed_form

_SEARCHED = 4 * compression.SAMPLES  # records among which messages of an earlier open are sought


@dataclass(frozen=True)
class _Stage:
    """The compression of a schema, and its appenders, without a history and with one."""

    compressed: Callable[[bytes], bytes]
    ends: tuple[Layered, Layered]


class TopicCompressor:
    """Compress the messages of a topic, and return their appender.

    Messages are compressed without a dictionary until there are enough to train one. The dictionary
    is in the schema, so messages that use it have another type number. Any thread may use it.

    Parameters
    ----------
    log : CommitLog
        The log of the topic.
    schema : Schema
        Without layers.
    end : callable
        Takes a schema with this layer, and returns what its values are for.
    zstd : Zstd
        How to compress.
    known : dict
        The schemas of the topic, by type number.
    keys : KeyRing
        Opens earlier messages.
    seals : bool
        Whether the messages are sealed. Their dictionary then is, too, because it has parts of
        them.

    Attributes
    ----------
    plain, with_history : Layered
        For messages without a history, and for those with one.
    """

    def __init__(
        self,
        log: CommitLog,
        schema: Schema,
        end: Callable[[Schema], Layered],
        *,
        zstd: Zstd,
        known: dict[int, Schema],
        keys: KeyRing,
        seals: bool,
    ) -> None:
        self._keys = keys
        self._seals = seals
        self._log = log
        self._schema = schema
        self._end = end
        self._level = zstd.level
        self._limit = log.largest_value - 8
        self._samples: Samples | None = None
        stage = self._found(known, zstd.dictionary)
        if stage is None:
            dictionary = zstd.dictionary
            if dictionary is None and log.mode != "r":
                self._samples = Samples()
                dictionary = self._trained_on_earlier(known)
            stage = self._with(dictionary or b"")
        self._stage = stage
        self.plain = _Form(self, has_history=False)
        self.with_history = _Form(self, has_history=True)

    def _with(self, dictionary: bytes, form: Form | None = None) -> _Stage:
        if form is None and self._seals and self._log.mode != "r":
            form = sealed_form(dictionary, self._keys, self._log)
        layer = {**(form or compression.form_of(dictionary)), "name": compression.NAME}
        schema = replace(self._schema, layers=(layer,))
        ends = self._end(schema), self._end(replace(schema, has_history=True))
        return _Stage(Compressor(self._level, dictionary).compressed, ends)

    # --- the dictionary ---------------------------------------------------------------------------

    def _found(self, known: dict[int, Schema], wanted: bytes | None) -> _Stage | None:
        """Return the stage of a dictionary that an earlier open or another process has trained, or
        of the one that is wanted.
        """
        for _, schema in sorted(known.items()):
            if not self._is_same_version(schema) or not schema.layers:
                continue
            form = schema.layers[0]
            dictionary = b""
            if is_sealed(schema) and self._seals and has_sealed(form):
                dictionary = self._opened(form)
            elif not is_sealed(schema) and not self._seals:
                dictionary = compression.dictionary_of(form)
            if dictionary and wanted in (None, dictionary):
                return self._with(dictionary, form)
        return None

    def _opened(self, form: Form) -> bytes:
        """Return a sealed dictionary, or empty bytes if a former master key sealed it."""
        with contextlib.suppress(KeyUnavailableError, ValueError):
            key_id, dictionary = opened_dictionary(form, self._keys, self._log)
            if key_id == self._keys.key_ids[-1]:
                return dictionary
        return b""

    def _is_same_version(self, schema: Schema) -> bool:
        return (schema.codec, schema.form) == (self._schema.codec, self._schema.form)

    def _trained_on_earlier(self, known: dict[int, Schema]) -> bytes:
        """Train a dictionary on the messages at the beginning of the log, if there are enough."""
        decoders = {
            number: layered(self._log, schema, bytes, self._keys)
            for number, schema in known.items()
            if self._is_same_version(schema)
        }
        if not decoders:
            return b""
        with self._log.tailer(visibility="appended", on_damage="skip") as tailer:
            for record in itertools.islice(tailer, _SEARCHED):
                if record.type in decoders:
                    decode = decoders[record.type]
                    try:
                        if isinstance(decode, RecordDecoder):
                            value = decode.of_record(record)
                        else:
                            value = decode(record.value)
                    except (ValueError, KeyUnavailableError):
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

    # --- messages ---------------------------------------------------------------------------------

    def stage_of(self, values: list[bytes], keys: list[Key | None] | None) -> _Stage:
        """Check and note values; return how all of them are compressed."""
        # Readers refuse a larger message: their limit bounds the memory of a hostile record.
        check_sizes(self._log, self._schema, values, keys, " before it is compressed")
        for value in values if self._samples is not None else ():
            self._note(value)
        return self._stage

    def stage_of_one(self, value: bytes, key: Key | None) -> _Stage:
        """As `stage_of`, at less cost."""
        size = len(value)
        try:
            size += len(key or b"")
        except TypeError:
            raise not_bytes([key]) from None
        if self._samples is not None or size > self._limit:
            return self.stage_of([value], [key])
        return self._stage


class _Form:
    """The messages of a topic without a history, or those with one: see `Layered`."""

    def __init__(self, compressor: TopicCompressor, *, has_history: bool) -> None:
        self._compressor = compressor
        self._has_history = has_history

    def one(self, value: bytes, key: Key | None) -> tuple[Appending, bytes]:
        stage = self._compressor.stage_of_one(value, key)
        return stage.ends[self._has_history].one(stage.compressed(value), key)

    def many(
        self, values: list[bytes], keys: list[Key | None] | None
    ) -> tuple[Appending, list[bytes]]:
        stage = self._compressor.stage_of(values, keys)
        return stage.ends[self._has_history].many(list(map(stage.compressed, values)), keys)
