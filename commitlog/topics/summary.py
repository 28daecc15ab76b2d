"""The topics of a log: their versions, and how many messages each version has."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from commitlog import Batch, CommitLog
from commitlog.errors import KeyUnavailableError, MissingExtraError, SchemaError
from commitlog.topics import compression, seal_layer
from commitlog.topics.catalog import SchemaCatalog
from commitlog.topics.codec import Decode
from commitlog.topics.history import behind_history, end_of
from commitlog.topics.key_ring import KeyRing, key_ring_of
from commitlog.topics.layer import RecordDecoder, layered
from commitlog.topics.schema import SCHEMA_TYPE, Schema, key_of
from commitlog.topics.topics_state import catalog_of
from commitlog.types import Start

_NEWEST = 4096
Measure: TypeAlias = Callable[[Batch, int], int]
"""Returns what the value of a row would take without the layers of its schema."""


@dataclass(eq=False)
class TopicVersion:
    """The messages of one schema.

    Attributes
    ----------
    number : int
        The type number of the messages.
    schema : Schema or None
        None if the log has none that can be read; `problem` then says why.
    messages : int
    first_position, last_position, first_timestamp_ns, last_timestamp_ns : int or None
        Of the first and the last message; None without messages.
    value_bytes : int
        Of all values, as they are in the log.
    plain_bytes : int or None
        Their size without compression and seal; None if they have neither, if a key or an extra is
        missing, or if this release does not know a layer.
    """

    number: int
    schema: Schema | None = None
    problem: str | None = None
    messages: int = 0
    first_position: int | None = None
    last_position: int | None = None
    first_timestamp_ns: int | None = None
    last_timestamp_ns: int | None = None
    value_bytes: int = 0
    plain_bytes: int | None = None
    measure: Measure | None = None

    @property
    def layers(self) -> list[str]:
        """Return the names of what is applied to the bytes of the codec."""
        return [] if self.schema is None else [layer["name"] for layer in self.schema.layers]

    def add(self, batch: Batch, rows: npt.NDArray[np.int64]) -> None:
        """Count some messages of a batch, which is behind the earlier ones."""
        first, last = int(rows[0]), int(rows[-1])
        if self.first_position is None:
            self.first_position = int(batch.positions[first])
            self.first_timestamp_ns = int(batch.timestamps_ns[first])
        self.last_position = int(batch.positions[last])
        self.last_timestamp_ns = int(batch.timestamps_ns[last])
        self.messages += len(rows)
        self.value_bytes += int(np.diff(batch.offsets)[rows].sum())
        if self.measure is not None:
            try:
                plain = sum(self.measure(batch, row) for row in rows.tolist())
                self.plain_bytes = (self.plain_bytes or 0) + plain
            except (KeyUnavailableError, MissingExtraError):
                self.measure = self.plain_bytes = None


@dataclass(eq=False)
class LogSummary:
    """The records of a log by topic.

    Attributes
    ----------
    records, schemas : int
        All records, and those that are schemas.
    versions : dict of int to TopicVersion
        By type number, in the order in which the log has their first records.
    """

    records: int = 0
    schemas: int = 0
    versions: dict[int, TopicVersion] = field(default_factory=dict)

    def topics(self) -> dict[str | None, list[TopicVersion]]:
        """Return the versions of each topic; those without a readable schema are under None."""
        found: dict[str | None, list[TopicVersion]] = {}
        for version in self.versions.values():
            name = None if version.schema is None else version.schema.topic
            found.setdefault(name, []).append(version)
        return found


def newest(log: CommitLog) -> LogSummary:
    """As `summarized`, of the newest 4096 records."""
    with log.tailer(direction="backward", on_damage="skip") as tailer:
        batch = tailer.read_batch(_NEWEST)
    if not len(batch):
        return LogSummary()
    return summarized(log, int(batch.positions[-1]))


def summarized(log: CommitLog, start: Start = "first") -> LogSummary:
    """Read a log from a record on, up to its present end, and count the messages of each version of
    its topics. Keys of the environment open sealed messages.
    """
    keys = key_ring_of(None)
    summary = LogSummary()
    versions = summary.versions
    catalog = catalog_of(log)
    end = log.tail_position  # writers may append faster than messages are measured
    with log.tailer(start=start) as tailer:
        while tailer.position < end and len(batch := tailer.read_batch()):
            summary.records += len(batch)
            numbers = batch.types
            declared = np.flatnonzero(numbers == SCHEMA_TYPE)
            summary.schemas += len(declared)
            for row in declared.tolist():
                number = _number_in(batch.key(row) or b"")
                if number is not None and number not in versions:
                    versions[number] = _found(log, keys, catalog, number)
            for number in np.unique(numbers[numbers > SCHEMA_TYPE]).tolist():
                if number not in versions:
                    versions[number] = _found(log, keys, catalog, number)
                versions[number].add(batch, np.flatnonzero(numbers == number))
    return summary


def sizes_of(versions: Sequence[TopicVersion]) -> tuple[int, int | None]:
    """Return the bytes of the values of some versions, and what they would take without layers, or
    None if that is not known.
    """
    after = sum(each.value_bytes for each in versions)
    if any(each.plain_bytes is None and each.layers and each.messages for each in versions):
        return after, None
    return after, sum(
        each.value_bytes if each.plain_bytes is None else each.plain_bytes for each in versions
    )


def layers_of(versions: Sequence[TopicVersion]) -> list[str]:
    """Return the names of the layers of some versions."""
    return list(dict.fromkeys(name for each in versions for name in each.layers))


def layers_text(layers: Sequence[str], after: int, before: int | None) -> str:
    """Return layers in words, each behind a comma, with what they saved."""
    saved = f" {before / after:.1f} times" if before and after else ""
    words = {
        compression.NAME: f"compressed{saved}",
        seal_layer.NAME: "sealed",
    }
    return "".join(f", {words.get(name, name)}" for name in layers)


def _found(log: CommitLog, keys: KeyRing, catalog: SchemaCatalog, number: int) -> TopicVersion:
    """Return a version without messages, with its schema or the error that it raises."""
    schema = catalog.checked(number)
    if isinstance(schema, SchemaError):
        return TopicVersion(number, problem=str(schema))
    version = TopicVersion(number, schema)
    with contextlib.suppress(MissingExtraError, SchemaError):
        version.measure = _measure_of(log, schema, keys)
    return version


def _measure_of(log: CommitLog, schema: Schema, keys: KeyRing) -> Measure | None:
    """Return what finds the size of a message before the layers of its schema."""
    if not schema.layers or compression.has_deltas(schema.layers[0]):
        return None
    decoder: Decode[int] | RecordDecoder[int]
    if len(schema.layers) == 1 and schema.layers[0]["name"] == compression.NAME:
        decoder = behind_history(schema, compression.size_before)
    else:
        decoder = layered(log, schema, len, keys)

    def measure(batch: Batch, row: int) -> int:
        value = batch.value(row)
        try:
            head = end_of(value) if schema.has_history else 0
            if isinstance(decoder, RecordDecoder):
                return head + decoder.of_value(value, int(batch.positions[row]), batch.key(row))
            return head + decoder(value)
        except ValueError:  # the message is damaged
            return len(value)

    return measure


def _number_in(key: bytes) -> int | None:
    """Return the type number that the key of a schema's record names."""
    try:
        number = int(key[7:], 16)
    except ValueError:
        return None
    return number if key == key_of(number) else None
