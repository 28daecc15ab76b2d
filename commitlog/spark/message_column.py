"""MessageColumn: the messages of topics as a column of Spark, decoded by the schemas in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from commitlog.errors import UndecodableError
from commitlog.spark.columns import FIELDS, MESSAGE, MESSAGE_TYPE
from commitlog.spark.schema_log import open_schema_log
from commitlog.spark.slices import OnDamage
from commitlog.topics.arrow_types import MISFITS, converter
from commitlog.topics.decoding import MessageDecoder, as_json

T = TypeVar("T")
_NEEDED = ("type", "value", "offset", "key")
_logger = logging.getLogger("commitlog.spark")


class MessageColumn:
    """Add the column `message` to record batches, and open the record keys of messages, on an
    executor. With `on_damage` "skip", a message that cannot be decoded is null, with a warning.
    With a topic, the column has its messages alone, in the type that the schema has.

    Attributes
    ----------
    needed : pyarrow.Schema
        The other columns, and those that messages are decoded from.
    """

    def __init__(self, schema: pa.Schema, on_damage: OnDamage, topic: str | None) -> None:
        self._schema = schema
        self._topic = topic
        self._on_damage = on_damage
        given = [field for field in schema if field.name.lower() != MESSAGE]
        known = {field.name.lower() for field in given}
        self._kind = next((each.type for each in schema if each.name.lower() == MESSAGE), None)
        needed = ("type", "offset") if self._kind is None else _NEEDED
        more = [pa.field(name, FIELDS[name]) for name in needed if name not in known]
        self._has_key = "key" in known
        self.needed = pa.schema([*given, *more])

    def added(
        self, place: str, store: str | None, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of slices of one log in the requested columns."""
        with open_schema_log(place, store) as log:
            decoder = MessageDecoder(log, None if self._topic is None else [self._topic])
            for batch in batches:
                columns = {
                    name.lower(): batch.column(at) for at, name in enumerate(batch.schema.names)
                }
                if self._kind is not None:
                    columns[MESSAGE] = self._column(decoder, columns)
                if self._has_key:
                    columns["key"] = self._keys(decoder, columns)
                names = [name.lower() for name in self._schema.names]
                yield pa.RecordBatch.from_arrays(
                    [columns[name] for name in names], schema=self._schema
                )

    def _column(self, decoder: MessageDecoder, columns: dict[str, Any]) -> pa.Array:
        records = zip(*(columns[name].to_pylist() for name in _NEEDED), strict=True)
        if self._topic is None:
            return pa.array([self._decoded(decoder, record) for record in records], MESSAGE_TYPE)
        return self._typed(decoder, list(records))

    def _typed(self, decoder: MessageDecoder, records: list[tuple[Any, ...]]) -> pa.Array:
        """Return the messages of the topic in their type. If one does not fit it, each is tried
        alone.
        """
        kind = self._kind
        convert = converter(kind)

        def fitted(*record: Any) -> Any:
            found = decoder.decode(*record)
            try:
                return pa.scalar(None if found is None else convert(found.message), kind)
            except MISFITS as error:
                raise UndecodableError(
                    f"a message does not fit the type {kind} of the column message: {error}; give "
                    "the read a schema that has room for it, or use decode=true",
                    position=record[2],
                    topic=self._topic,
                ) from None

        found = [self._or_none(decoder.decode, record) for record in records]
        try:
            return pa.array(
                [None if each is None else convert(each.message) for each in found], kind
            )
        except MISFITS:
            tried = [self._or_none(fitted, record) for record in records]
            return pa.array([None if each is None else each.as_py() for each in tried], kind)

    def _keys(self, decoder: MessageDecoder, columns: dict[str, Any]) -> pa.Array:
        """Return the column `key` with the keys that messages were appended with."""
        keys, types = columns["key"], columns["type"]
        if not any(map(decoder.has_sealed_keys, types.unique().to_pylist())):
            return keys
        rows = zip(types.to_pylist(), keys.to_pylist(), columns["offset"].to_pylist(), strict=True)
        return pa.array([self._or_none(decoder.opened_key, row) for row in rows], keys.type)

    def _decoded(self, decoder: MessageDecoder, record: tuple[Any, ...]) -> dict[str, str] | None:
        found = self._or_none(decoder.decode, record)
        return None if found is None else {"topic": found.topic, "json": as_json(found.message)}

    def _or_none(self, decode: Callable[..., T], given: tuple[Any, ...]) -> T | None:
        """Return what a function of a decoder returns; None for what it cannot decode."""
        try:
            return decode(*given)
        except UndecodableError as error:
            if self._on_damage == "fail":
                raise
            _logger.warning("%s", error)
            return None
