"""MessageColumn: the messages of topics as a column of Spark, decoded by the schemas in the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

import commitlog
from commitlog import CommitLog
from commitlog.errors import LogNotFoundError, NotALogError, UndecodableError
from commitlog.messages.decoding import MessageDecoder, as_json
from commitlog.spark import places
from commitlog.spark.columns import FIELDS, MESSAGE, MESSAGE_TYPE
from commitlog.spark.slices import OnDamage, Slice

_NEEDED = ("type", "value", "offset", "key")
_logger = logging.getLogger("commitlog.spark")


class MessageColumn:
    """Add the column `message` to record batches, on an executor. With `on_damage` "skip", a
    message that cannot be decoded is null, with a warning.

    Attributes
    ----------
    needed : pyarrow.Schema
        The other columns, and those that messages are decoded from.
    """

    def __init__(self, schema: pa.Schema, on_damage: OnDamage) -> None:
        self._schema = schema
        self._on_damage = on_damage
        given = [field for field in schema if field.name.lower() != MESSAGE]
        known = {field.name.lower() for field in given}
        more = [pa.field(name, FIELDS[name]) for name in _NEEDED if name not in known]
        self.needed = pa.schema([*given, *more])

    def added(self, piece: Slice, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a slice in the requested columns."""
        with _log_of(piece) as log:
            decoder = MessageDecoder(log)
            for batch in batches:
                columns = {
                    name.lower(): batch.column(at) for at, name in enumerate(batch.schema.names)
                }
                columns[MESSAGE] = self._column(decoder, columns)
                names = [name.lower() for name in self._schema.names]
                yield pa.RecordBatch.from_arrays(
                    [columns[name] for name in names], schema=self._schema
                )

    def _column(self, decoder: MessageDecoder, columns: dict[str, Any]) -> pa.Array:
        records = zip(*(columns[name].to_pylist() for name in _NEEDED), strict=True)
        found = [self._decoded(decoder, record) for record in records]
        return pa.array(found, MESSAGE_TYPE)

    def _decoded(self, decoder: MessageDecoder, record: tuple[Any, ...]) -> dict[str, str] | None:
        try:
            found = decoder.decode(*record)
        except UndecodableError as error:
            if self._on_damage == "fail":
                raise
            _logger.warning("%s", error)
            return None
        return None if found is None else {"topic": found.topic, "json": as_json(found.message)}


def _log_of(piece: Slice) -> CommitLog:
    """Open the log of a slice for its schemas; a segment file alone has those of its messages."""
    try:
        return commitlog.open(places.parent(piece.location), "r")
    except (LogNotFoundError, NotALogError):
        return commitlog.open(piece.location, "r")
