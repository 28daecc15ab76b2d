"""The codec of Avro, by fastavro: messages are dicts of a given schema."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

from commitlog.base.extras import imported
from commitlog.errors import MessageError
from commitlog.messages.codec import Decode, conflict, other_codec
from commitlog.messages.schema import Schema

_SAMPLES = 16


class AvroCodec:
    """Messages as Avro: ``commitlog.topic(log, dict, name="orders", codec=AvroCodec(schema))``.

    Versions of a schema read each other as Avro's rules of schema resolution say, with defaults,
    aliases and promotions.

    Parameters
    ----------
    schema : dict or str
        An Avro schema, or its JSON.

    Raises
    ------
    MessageError
        It is not an Avro schema.
    MissingExtraError
        fastavro is not installed.
    """

    name = "avro"
    message_class: type[dict[str, Any]] = dict

    def __init__(self, schema: dict[str, Any] | str) -> None:
        fastavro = _fastavro()
        try:
            given = json.loads(schema) if isinstance(schema, str) else schema
            self.form: dict[str, Any] = {"avro": given}
            self._parsed = fastavro.parse_schema(given)
        except (ValueError, TypeError, KeyError, fastavro.schema.SchemaParseException) as error:
            raise MessageError(f"this is not an Avro schema: {error}") from None
        self._write = fastavro.schemaless_writer

    def encode(self, message: dict[str, Any], /) -> bytes:
        """Return a message's bytes."""
        buffer = io.BytesIO()
        try:
            self._write(buffer, self._parsed, message, strict=True)
        except (KeyError, IndexError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        return buffer.getvalue()

    def decoder(self, schema: Schema, /) -> Decode[dict[str, Any]]:
        """Return what decodes messages of a schema.

        Raises
        ------
        SchemaError
            Avro's rules do not resolve the schemas: the error names the field.
        """
        if schema.codec != self.name:
            raise other_codec(schema, self.name)
        writer = _fastavro().parse_schema(schema.form["avro"])
        self._check_resolution(schema, writer)
        return _reader(writer, self._parsed)

    def _check_resolution(self, schema: Schema, writer: Any) -> None:
        """Read samples of the writer's schema: whole ones, and for an error, field by field."""
        why = _refusal(writer, self._parsed)
        if why is None:
            return
        for field in self._parsed.get("fields", ()):
            alone = {**self._parsed, "fields": [field]}
            reason = _refusal(writer, alone)
            if reason is not None:
                raise conflict(schema, self.form, f"$.{field['name']}", reason)
        raise conflict(schema, self.form, "$", why)


def plain_decoder(schema: Schema) -> Decode[Any]:
    """Return what decodes messages to dicts."""
    return _reader(_fastavro().parse_schema(schema.form["avro"]), None)


def _fastavro() -> Any:
    imported("fastavro.utils", "the codec 'avro' of a topic", "avro")
    return imported("fastavro", "the codec 'avro' of a topic", "avro")


def _reader(writer: Any, reader: Any) -> Callable[[bytes], Any]:
    read = _fastavro().schemaless_reader

    def decode(value: bytes) -> Any:
        buffer = io.BytesIO(value)
        try:
            message = read(buffer, writer, reader)
        except (EOFError, KeyError, IndexError, OverflowError, TypeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        if buffer.tell() != len(value):
            raise ValueError(f"{len(value) - buffer.tell()} bytes are left over")
        return message

    return decode


def _refusal(writer: Any, reader: Any) -> str | None:
    """Return why the reader's schema cannot take messages of the writer's; None if it can."""
    fastavro = _fastavro()
    for index in range(_SAMPLES):
        buffer = io.BytesIO()
        sample = list(fastavro.utils.generate_many(writer, index + 1))[index]
        fastavro.schemaless_writer(buffer, writer, sample)
        buffer.seek(0)
        try:
            fastavro.schemaless_reader(buffer, writer, reader)
        except fastavro.read.SchemaResolutionError as error:
            return str(error)
    return None
