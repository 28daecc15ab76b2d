"""The topics of a log: their versions, and how many messages each version has."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from commitlog.errors import MissingExtraError, SchemaError
from commitlog.log.commit_log import CommitLog
from commitlog.messages import compression
from commitlog.messages.catalog import SchemaCatalog
from commitlog.messages.history import behind_history
from commitlog.messages.schema import SCHEMA_TYPE, Schema, key_of
from commitlog.tail.batch import Batch


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
        Their size before compression; None if they are not compressed, are sealed, or the extra is
        not installed.
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
        # A seal hides the sizes before compression.
        if self.schema is not None and self.layers == [compression.NAME]:
            measure = behind_history(self.schema, compression.size_before)
            sizes = (_size_of(measure, batch.value(row)) for row in rows.tolist())
            with contextlib.suppress(MissingExtraError):
                self.plain_bytes = (self.plain_bytes or 0) + sum(sizes)


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


def summarized(log: CommitLog) -> LogSummary:
    """Read a log once, and count the messages of each version of its topics."""
    summary = LogSummary()
    versions = summary.versions
    catalog = SchemaCatalog(log)
    with log.tailer() as tailer:
        while len(batch := tailer.read_batch()):
            summary.records += len(batch)
            numbers = batch.types
            declared = np.flatnonzero(numbers == SCHEMA_TYPE)
            summary.schemas += len(declared)
            for row in declared.tolist():
                number = _number_in(batch.key(row) or b"")
                if number is not None and number not in versions:
                    versions[number] = _found(catalog, number)
            for number in np.unique(numbers[numbers > SCHEMA_TYPE]).tolist():
                if number not in versions:
                    versions[number] = _found(catalog, number)
                versions[number].add(batch, np.flatnonzero(numbers == number))
    return summary


def _found(catalog: SchemaCatalog, number: int) -> TopicVersion:
    """Return a version without messages, with its schema or the error that it raises."""
    schema = catalog.checked(number)
    if isinstance(schema, SchemaError):
        return TopicVersion(number, problem=schema.message)
    return TopicVersion(number, schema)


def _size_of(measure: Callable[[bytes], int], value: bytes) -> int:
    with contextlib.suppress(ValueError):  # its history is damaged
        return measure(value)
    return 0


def _number_in(key: bytes) -> int | None:
    """Return the type number that the key of a schema's record names."""
    try:
        number = int(key[7:], 16)
    except ValueError:
        return None
    return number if key == key_of(number) else None
