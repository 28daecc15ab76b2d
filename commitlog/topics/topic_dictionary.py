"""TopicDictionary: the dictionary of a compressed topic, found in its schemas and messages."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

from commitlog import CommitLog
from commitlog.errors import KeyUnavailableError
from commitlog.topics import compression
from commitlog.topics.compression import Form
from commitlog.topics.key_ring import KeyRing
from commitlog.topics.layer import RecordDecoder, layered
from commitlog.topics.schema import Schema
from commitlog.topics.seal_layer import is_sealed
from commitlog.topics.sealed_dictionary import has_sealed, opened_dictionary, sealed_form

_SEARCHED = 1024  # records among which messages of an earlier open are sought


class TopicDictionary:
    """Find the dictionary of a topic, and make the layer that has it.

    Parameters
    ----------
    log : CommitLog
        The log of the topic.
    schema : Schema
        Without layers.
    known : dict
        The schemas of the topic, by type number.
    keys : KeyRing
        Opens earlier messages.
    seals : bool
        Whether the messages are sealed. Their dictionary then is, too, because it has parts of
        them.
    """

    def __init__(
        self,
        log: CommitLog,
        schema: Schema,
        known: dict[int, Schema],
        keys: KeyRing,
        *,
        seals: bool,
    ) -> None:
        self._log = log
        self._known = {
            number: each
            for number, each in sorted(known.items())
            if (each.codec, each.form) == (schema.codec, schema.form)
        }
        self._keys = keys
        self._seals = seals

    def find(self, wanted: bytes | None) -> tuple[bytes, Form] | None:
        """Return a dictionary that an earlier open or another process has trained, or the one that
        is wanted, with its layer. Return None if no schema has it.
        """
        for schema in self._known.values():
            if not schema.layers:
                continue
            form = schema.layers[0]
            dictionary = b""
            if is_sealed(schema) and self._seals and has_sealed(form):
                dictionary = self._open(form)
            elif not is_sealed(schema) and not self._seals:
                dictionary = compression.dictionary_of(form)
            if dictionary and wanted in (None, dictionary):
                return dictionary, form
        return None

    def form_of(self, dictionary: bytes) -> Form:
        """Return a new layer with a dictionary, or without if it is empty."""
        if self._seals and self._log.mode != "r":
            return sealed_form(dictionary, self._keys, self._log)
        return compression.form_of(dictionary)

    def _open(self, form: Form) -> bytes:
        """Return a sealed dictionary, or empty bytes if a former master key sealed it."""
        with contextlib.suppress(KeyUnavailableError, ValueError):
            key_id, dictionary = opened_dictionary(form, self._keys, self._log)
            if key_id == self._keys.key_ids[-1]:
                return dictionary
        return b""

    def earlier_messages(self) -> Iterator[bytes]:
        """Yield the messages at the beginning of the log, as the codec made them."""
        decoders = {
            number: layered(self._log, schema, bytes, self._keys)
            for number, schema in self._known.items()
        }
        if not decoders:
            return
        with self._log.tailer(visibility="appended", on_damage="skip") as tailer:
            for record in itertools.islice(tailer, _SEARCHED):
                if record.type in decoders:
                    decode = decoders[record.type]
                    with contextlib.suppress(ValueError, KeyUnavailableError):
                        if isinstance(decode, RecordDecoder):
                            yield decode.of_record(record)
                        else:
                            yield decode(record.value)
