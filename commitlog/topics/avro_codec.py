"""The codec of Avro, by fastavro: messages are dicts of a given schema."""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

from commitlog.base.extras import imported
from commitlog.errors import MessageError
from commitlog.topics.avro_bounds import bounded
from commitlog.topics.avro_samples import samples_of
from commitlog.topics.codec import Decode, conflict, other_codec
from commitlog.topics.schema import Schema
from commitlog.topics.screening import are_same_time

_FLOAT = struct.Struct("<f")
_MISSING = object()


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
            self._decode = _reader(self._parsed, None)
        except (
            ValueError,
            TypeError,
            KeyError,
            RecursionError,
            fastavro.schema.SchemaParseException,
        ) as error:
            raise MessageError(f"this is not an Avro schema: {error}") from None
        self._write = fastavro.schemaless_writer

    def encode(self, message: dict[str, Any], /) -> bytes:
        """Return a message's bytes; raise ValueError if a value would be read as another one."""
        buffer = io.BytesIO()
        try:
            self._write(buffer, self._parsed, message, strict=True)
        except (KeyError, IndexError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        value = buffer.getvalue()
        lost = _lost(message, self._decode(value), "$")
        if lost is not None:
            path, given, read = lost
            raise ValueError(f"{path} is {given!r:.100}, and would be read as {read!r:.100}")
        return value

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
    return imported("fastavro", "the codec 'avro' of a topic", "avro")


def _reader(writer: Any, reader: Any) -> Callable[[bytes], Any]:
    read = _fastavro().schemaless_reader

    def decode(value: bytes) -> Any:
        buffer = io.BytesIO(value)
        try:
            message = read(buffer, writer, reader)
        except (EOFError, LookupError, ArithmeticError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        if buffer.tell() != len(value):
            raise ValueError(f"{len(value) - buffer.tell()} bytes are left over")
        return message

    return bounded(writer, decode)


def _lost(given: Any, read: Any, path: str) -> tuple[str, Any, Any] | None:
    """Return the first value that is not read back: its path, and both values. A field that was not
    given has its default, and a float of 32 bits is rounded.
    """
    if isinstance(given, tuple) and len(given) == 2 and not isinstance(read, list):
        return _lost(given[1], read, path)  # the name of an alternative of a union, and its value
    if isinstance(given, dict) and isinstance(read, dict):
        named = [(f"{path}.{name}", part, name) for name, part in given.items() if name != "-type"]
        pairs = [(at, part, read.get(name, _MISSING)) for at, part, name in named]
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        pairs = [(f"{path}[...]", *both) for both in zip(given, read, strict=True)]
    else:
        return None if _is_kept(given, read) else (path, given, read)
    found = (_lost(part, other, at) for at, part, other in pairs)
    return next((each for each in found if each is not None), None)


def _is_kept(given: Any, read: Any) -> bool:
    if given == read or are_same_time(given, read):
        return True
    if isinstance(read, UUID) and str(read) == str(given).lower():
        return True
    if not isinstance(given, int | float) or not isinstance(read, float):
        return False
    try:
        return math.isnan(given) == math.isnan(read) and _FLOAT.pack(given) == _FLOAT.pack(read)
    except OverflowError:
        return False


def _refusal(writer: Any, reader: Any) -> str | None:
    """Return why the reader's schema cannot take messages of the writer's; None if it can."""
    fastavro = _fastavro()
    for sample in samples_of(writer):
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, writer, sample)
        buffer.seek(0)
        try:
            fastavro.schemaless_reader(buffer, writer, reader)
        except fastavro.read.SchemaResolutionError as error:
            return str(error)
    return None
