"""The columns of a commit log in Spark, and a builder that makes rows of them without a Python
object for each row.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from commitlog.errors import InvalidOptionError
from commitlog.extension import PieceDecoder

# First the seven columns of Kafka's source, in its order. The partition is always 0, because a log
# has one. Timestamp type 0 is Kafka's "create time".
FIELDS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "sequence": pa.int64(),
    "type": pa.int64(),
}
DDL = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, sequence bigint, "
    "type bigint"
)
# With the option decode, a message of a topic, by the schemas in the log. Its type is the same for
# all logs, because a stream keeps its columns when a topic or a version is added.
MESSAGE = "message"
MESSAGE_TYPE = pa.struct([("topic", pa.string()), ("json", pa.string())])
MESSAGE_DDL = f"{MESSAGE} struct<topic: string, json: string>"
# With the option includeHeaders, as Kafka's source has them.
HEADERS = "headers"
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
HEADERS_DDL = f"{HEADERS} array<struct<key: string, value: binary>>"
# The same for a record: see `CommitLog.append_arrow`.
HEADERS_MAP = pa.map_(pa.string(), pa.binary())
# The others are known without reading a record.
RECORD_COLUMNS = frozenset({"key", "value", "offset", "timestamp", "type", MESSAGE, HEADERS})
# The one column of a scan that only counts, which `column_pruning.java` requests: each task yields
# one row with its number of records.
COUNTED = pa.schema([pa.field("count(*)", pa.int64(), nullable=False)])
_SPARK_NAMES = {
    pa.binary(): "binary",
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    FIELDS["timestamp"]: "timestamp",
    MESSAGE_TYPE: "struct<topic:string,json:string>",
    HEADERS_TYPE: "array<struct<key:string,value:binary>>",
}


def with_header_maps(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose column `headers`, if it has one, is a map. Of headers of one name, the
    last counts, and a null value is empty, as in a mirror from Kafka.
    """
    index = batch.schema.get_field_index(HEADERS)
    if index < 0 or pa.types.is_map(batch.schema.field(index).type):
        return batch
    rows = [
        None if row is None else [*{each["key"]: each["value"] or b"" for each in row}.items()]
        for row in batch.column(index).to_pylist()
    ]
    return batch.set_column(index, HEADERS, pa.array(rows, HEADERS_MAP))


ROWS_DEFAULT = 1 << 16
_ROOM_BYTES = 8 << 20


def arrow_schema(
    fields: Sequence[tuple[str, str, bool]], message: pa.DataType | None = None
) -> pa.Schema:
    """Return the schema that Spark expects of record batches, for columns given as (name, Spark's
    name of the type, nullable). With the option `messageTopic`, the column `message` has the type
    that is given.
    """
    if fields == [(COUNTED.names[0], "bigint", False)]:
        return COUNTED
    known = {name.lower(): arrow_type for name, arrow_type in FIELDS.items()}
    known |= {MESSAGE: MESSAGE_TYPE, HEADERS: HEADERS_TYPE}
    made = []
    for name, spark_type, nullable in fields:
        arrow_type = known.get(name.lower())
        if message is not None and name.lower() == MESSAGE:
            made.append(pa.field(name, message, nullable))
            continue
        if arrow_type is None:
            raise InvalidOptionError(
                f"the schema has a column {name!r}, which a commit log does not have: choose among "
                f"{', '.join((*FIELDS, MESSAGE, HEADERS))}"
            )
        if spark_type != _SPARK_NAMES[arrow_type]:
            raise InvalidOptionError(
                f"the schema has {name} as {spark_type}, and a commit log has it as "
                f"{_SPARK_NAMES[arrow_type]}: read that type, and cast it in the query"
            )
        made.append(pa.field(name, arrow_type, nullable))
    if len({field.name.lower() for field in made}) < len(made):
        raise InvalidOptionError("the schema names a column twice: name it once")
    return pa.schema(made)


@functools.lru_cache(maxsize=8)
def _constant(name: str, value: str | int, count: int) -> pa.Array:
    """Return a column that has one value in every row. A worker keeps it for its next tasks."""
    return pa.repeat(pa.scalar(value, FIELDS[name]), count)


class RowBuilder:
    """Build record batches of the requested columns, with at most `most` rows each. The kernel
    writes into their buffers.
    """

    def __init__(self, schema: pa.Schema, most: int = ROWS_DEFAULT) -> None:
        self.schema = schema
        given = {name.lower() for name in schema.names}
        self.wanted = frozenset(name for name in (*FIELDS, HEADERS) if name.lower() in given)
        self._most = most
        self._room_bytes = _ROOM_BYTES
        self._begin()

    @property
    def count(self) -> int:
        """Number of rows in the current batch."""
        return self.rows.count

    def _begin(self) -> None:
        def room(column: str, size_bytes: int) -> Any:
            return pa.allocate_buffer(size_bytes) if column in self.wanted else None

        most = self._most
        self._buffers = {
            "positions": room(HEADERS if HEADERS in self.wanted else "offset", most * 8),
            "timestamps_us": room("timestamp", most * 8),
            "types": room("type", most * 8),
            "value_ends": room("value", (most + 1) * 4),
            "values": room("value", self._room_bytes),
            "key_ends": room("key", (most + 1) * 4),
            "keys": room("key", self._room_bytes),
            "key_bits": room("key", -(-most // 8)),
        }
        self.rows = PieceDecoder.rows(most, **self._buffers)
        self._headers: list[list[dict[str, str | bytes]] | None] = []

    @property
    def has_headers(self) -> bool:
        """Whether the headers of each row are wanted: `add_headers` takes them."""
        return HEADERS in self.wanted

    def headless_positions(self) -> memoryview:
        """Return the positions of the rows whose headers are not there yet, 8 bytes each."""
        positions = memoryview(self._buffers["positions"]).cast("B").cast("q")
        return positions[len(self._headers) : self.count]

    def add_headers(self, headers: Iterable[dict[str, bytes] | None]) -> None:
        """Add the headers of the next rows. None is null, and so are no headers, as in Kafka."""
        self._headers += [
            [{"key": name, "value": value} for name, value in each.items()] if each else None
            for each in headers
        ]

    def grow(self, frame_bytes: int) -> None:
        """Enlarge the buffers for a record that does not fit into an empty batch."""
        self._room_bytes = max(2 * self._room_bytes, frame_bytes)
        self._begin()

    def clear(self) -> None:
        """Discard the rows of the current batch, and the count of skipped records."""
        if self.rows.count or self.rows.passed:
            self._begin()

    def finish(self, topic: str, first_sequence: int | None) -> pa.RecordBatch:
        """Return the rows as a record batch, and begin an empty one."""
        batch = self._batch(self.count, topic, first_sequence)
        self._begin()
        return batch

    def counted(
        self, topic: str, first_sequence: int | None, count: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of columns that need no record: none of `RECORD_COLUMNS`."""
        for start in range(0, count, self._most):
            first = None if first_sequence is None else first_sequence + start
            yield self._batch(min(self._most, count - start), topic, first)

    def _batch(self, count: int, topic: str, first_sequence: int | None) -> pa.RecordBatch:
        if not self.wanted:
            rows = pa.StructArray.from_buffers(pa.struct([]), count, [None])
            return pa.RecordBatch.from_struct_array(rows)
        by_name = {
            name.lower(): self._column(name, count, topic, first_sequence)
            for name in self.wanted - {HEADERS}
        }
        if self.has_headers:
            by_name[HEADERS] = pa.array(self._headers, HEADERS_TYPE)
        return pa.RecordBatch.from_arrays(
            [by_name[name.lower()] for name in self.schema.names], schema=self.schema
        )

    def _column(self, name: str, count: int, topic: str, first_sequence: int | None) -> pa.Array:
        buffers = self._buffers
        numbers = {"offset": "positions", "timestamp": "timestamps_us", "type": "types"}
        if name in numbers:
            return pa.Array.from_buffers(
                FIELDS[name], count, [None, buffers[numbers[name]].slice(0, count * 8)]
            )
        if name == "value":
            ends = buffers["value_ends"].slice(0, (count + 1) * 4)
            return pa.Array.from_buffers(
                pa.binary(), count, [None, ends, buffers["values"].slice(0, self.rows.values_size)]
            )
        if name == "key":
            ends = buffers["key_ends"].slice(0, (count + 1) * 4)
            return pa.Array.from_buffers(
                pa.binary(),
                count,
                [buffers["key_bits"], ends, buffers["keys"].slice(0, self.rows.keys_size)],
            )
        if name == "sequence":
            if first_sequence is None:
                return pa.nulls(count, FIELDS[name])
            return pa.array(np.arange(first_sequence, first_sequence + count, dtype=np.int64))
        return _constant(name, topic if name == "topic" else 0, self._most).slice(0, count)
