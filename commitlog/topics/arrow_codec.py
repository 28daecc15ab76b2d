"""The codec of Arrow: each message is a record batch of a given schema."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from commitlog.base.extras import pyarrow_for
from commitlog.errors import MessageError
from commitlog.topics.arrow_message import (
    check_lengths,
    check_views,
    has_dictionary,
    read_batch,
)
from commitlog.topics.codec import Decode, conflict, other_codec
from commitlog.topics.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

_WHAT = "the codec 'arrow' of a topic"


class ArrowCodec:
    """Messages as record batches of Arrow: ``commitlog.topic(log, pyarrow.RecordBatch,
    codec=ArrowCodec(schema))``.

    Parameters
    ----------
    schema : pyarrow.Schema
        The schema of each record batch.

    Raises
    ------
    MessageError
        It is no Arrow schema, or has dictionaries, which a single batch cannot carry.
    MissingExtraError
        pyarrow is not installed.
    """

    name = "arrow"

    def __init__(self, schema: pa.Schema) -> None:
        self._pa = pyarrow_for(_WHAT)
        if not isinstance(schema, self._pa.Schema):
            raise MessageError(f"schema must be a pyarrow.Schema, not {type(schema).__name__}")
        for field in schema:
            if has_dictionary(field.type):
                raise MessageError(
                    f"the field {field.name!r} has a dictionary, which a record batch cannot carry "
                    "alone: use its value type"
                )
        self.message_class: type[pa.RecordBatch] = self._pa.RecordBatch
        self._schema = schema
        content = schema.serialize().to_pybytes()
        self.form: dict[str, Any] = {
            "arrow": base64.b64encode(content).decode(),
            "fields": [f"{field.name}: {field.type}" for field in schema],
        }

    def encode(self, message: pa.RecordBatch, /) -> bytes:
        """Return a record batch's bytes, without its schema."""
        if message.schema != self._schema:
            raise ValueError(f"the record batch has another schema: {message.schema}")
        value: bytes = message.serialize().to_pybytes()
        check_lengths(message, len(value))
        return value

    def decoder(self, schema: Schema, /) -> Decode[pa.RecordBatch]:
        """Return what decodes messages of a schema; columns are found by name and widened.

        Raises
        ------
        SchemaError
            A column is missing and must not be null, or has another kind.
        """
        if schema.codec != self.name:
            raise other_codec(schema, self.name)
        theirs = _schema_of(schema)
        for field in self._schema:
            index = theirs.get_field_index(field.name)
            if index < 0 and not field.nullable:
                why = "the messages do not have the field, and it must not be null"
                raise conflict(schema, self.form, f"$.{field.name}", why)
            if index >= 0 and not self._reads(field.type, theirs.field(index).type):
                why = f"{theirs.field(index).type} cannot be read as {field.type}"
                raise conflict(schema, self.form, f"$.{field.name}", why)
        decode = _reader(theirs)
        return decode if theirs == self._schema else lambda value: self._fitted(decode(value))

    def _reads(self, ours: Any, theirs: Any) -> bool:
        types = self._pa.types
        if ours == theirs:
            return True
        if types.is_integer(theirs):
            return bool(types.is_integer(ours) or types.is_floating(ours))
        if types.is_floating(theirs):
            return bool(types.is_floating(ours) and ours.bit_width >= theirs.bit_width)
        text = ("string", "large_string", "string_view")
        return str(ours) in text and str(theirs) in text

    def _fitted(self, batch: Any) -> Any:
        pa = self._pa
        columns = []
        for field in self._schema:
            index = batch.schema.get_field_index(field.name)
            if index < 0:
                columns.append(pa.nulls(batch.num_rows, field.type))
            else:
                columns.append(batch.column(index).cast(field.type))
            if not field.nullable and columns[-1].null_count:
                raise ValueError(f"$.{field.name} is null, and must not be")
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def plain_decoder(schema: Schema) -> Decode[Any]:
    """Return what decodes messages to lists of dicts."""
    decode = _reader(_schema_of(schema))

    def listed(value: bytes) -> Any:
        batch = decode(value)
        check_views(batch, len(value))
        return batch.to_pylist()

    return listed


def _schema_of(schema: Schema) -> Any:
    pa = pyarrow_for(_WHAT)
    found = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema.form["arrow"])))
    if any(has_dictionary(field.type) for field in found):
        raise ValueError("a field has a dictionary, which a record batch cannot carry alone")
    return found


def _reader(schema: Any) -> Decode[Any]:
    return lambda value: read_batch(value, schema)
