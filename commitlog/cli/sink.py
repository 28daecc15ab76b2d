"""The formats of `commitlog cat`: values alone, JSON lines, Parquet, Arrow."""

from __future__ import annotations

import struct
from typing import IO, TYPE_CHECKING, Any, Protocol

import click
import numpy as np

from commitlog.cli.printed import FIELDS, JsonForm, Shown
from commitlog.tail.batch import Batch

if TYPE_CHECKING:
    import pyarrow as pa

_LENGTH = struct.Struct("<I")
_ENDINGS = {"lines": b"\n", "null": b"\0", "raw": b""}
FORMATS = (*_ENDINGS, "frames", "jsonl", "parquet", "arrow")
# So many records, or bytes of them, make a row group of Parquet or a record batch of Arrow.
_GROUP_RECORDS = 1 << 18
_GROUP_BYTES = 32 << 20


class Sink(Protocol):
    """Takes batches, and writes them to a file in its format."""

    def write(self, batch: Batch, count: int) -> None:
        """The first so many records of a batch."""

    def close(self) -> None:
        """Write what is left, and the file's end."""


class Values:
    """Values alone, each with an ending, or with its length before it if `ending` is None."""

    def __init__(self, file: IO[bytes], ending: bytes | None) -> None:
        self._file = file
        self._ending = ending

    def write(self, batch: Batch, count: int) -> None:
        values = batch.values()[:count]
        if self._ending is None:
            self._file.write(
                b"".join([part for value in values for part in (_LENGTH.pack(len(value)), value)])
            )
        else:
            self._file.write(self._ending.join(values) + self._ending)

    def close(self) -> None:
        """Every value stands for itself."""


class JsonLines:
    """One object a line, as `commitlog tail --json` prints it, with the sequence."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._form = JsonForm(FIELDS, None)

    def write(self, batch: Batch, count: int) -> None:
        self._file.write(self._form.text(Shown.of(batch, np.arange(count), sequences=True)))

    def close(self) -> None:
        """Every line stands for itself."""


class Columns:
    """Arrow's columns position, sequence, timestamp, type, key and value, in groups.

    Parameters
    ----------
    file : binary file
        Where to.
    format : {"parquet", "arrow"}
        Parquet, or Arrow's file format.
    """

    def __init__(self, file: IO[bytes], format: str) -> None:
        import pyarrow as pa

        self._schema = pa.schema(
            [
                pa.field("position", pa.int64(), nullable=False),
                pa.field("sequence", pa.int64(), nullable=False),
                pa.field("timestamp", pa.timestamp("ns", tz="UTC"), nullable=False),
                pa.field("type", pa.uint32(), nullable=False),
                pa.field("key", pa.binary()),
                pa.field("value", pa.binary(), nullable=False),
            ]
        )
        self._writer: Any
        if format == "parquet":
            import pyarrow.parquet as pq

            self._writer = pq.ParquetWriter(file, self._schema)
        else:
            self._writer = pa.ipc.new_file(file, self._schema)
        self._waiting: list[pa.RecordBatch] = []
        self._records = self._bytes = 0

    def write(self, batch: Batch, count: int) -> None:
        import pyarrow as pa

        found = batch.to_arrow().slice(0, count)
        sequences = pa.array(batch.sequences[:count])
        columns = [
            found["position"],
            sequences,
            *(found[name] for name in ("timestamp_ns", "type", "key", "value")),
        ]
        # The cast copies, so that no batch of the log is held.
        self._waiting.append(
            pa.record_batch(
                [
                    column.cast(field.type)
                    for column, field in zip(columns, self._schema, strict=True)
                ],
                self._schema,
            )
        )
        self._records += count
        self._bytes += len(batch.data) + len(batch.keys)
        if self._records >= _GROUP_RECORDS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._writer.write_table(
                pa.Table.from_batches(self._waiting).combine_chunks(), self._records
            )
        self._waiting = []
        self._records = self._bytes = 0

    def close(self) -> None:
        self._write_group()
        self._writer.close()


def open_sink(file: IO[bytes], format: str) -> Sink:
    """The sink of one of `FORMATS`."""
    if format == "frames" or format in _ENDINGS:
        return Values(file, _ENDINGS.get(format))
    if format == "jsonl":
        return JsonLines(file)
    try:
        return Columns(file, format)
    except ImportError:
        raise click.UsageError(
            f"--format {format} needs pyarrow: pip install 'commitlog-engine[arrow]'"
        ) from None
