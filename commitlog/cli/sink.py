"""The formats of `commitlog cat`: values alone, JSON lines, CSV, Parquet, Arrow."""

from __future__ import annotations

import struct
from typing import IO, TYPE_CHECKING, Any, Protocol

import click
import numpy as np

from commitlog.cli.printed import FIELDS, JsonForm, Shown
from commitlog.tail.arrow import COLUMNS, BatchForm
from commitlog.tail.batch import Batch

if TYPE_CHECKING:
    import pyarrow as pa

_LENGTH = struct.Struct("<I")
_ENDINGS = {"lines": b"\n", "null": b"\0", "raw": b""}
FORMATS = (*_ENDINGS, "frames", "jsonl", "csv", "parquet", "arrow")
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


class CsvLines:
    """One line a record, below a line of the columns' names. Text stands in quotes; a missing key
    is empty, without quotes.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        file.write(f"{','.join(COLUMNS)}\n".encode())

    def write(self, batch: Batch, count: int) -> None:
        shown = Shown.of(batch, np.arange(count), sequences=True)
        times = np.datetime_as_string(
            batch.timestamps_ns[:count].view("datetime64[ns]"), timezone="UTC"
        )
        lines = []
        for position, sequence, time, type, key, value in zip(
            shown.positions,
            shown.sequences,
            times.tolist(),
            shown.types,
            shown.keys,
            shown.values,
            strict=True,
        ):
            key_text = "" if key is None else _quoted(key, "key", position)
            lines.append(
                f"{position},{sequence},{time},{type},{key_text},{_quoted(value, 'value', position)}\n"
                ""
                ""
                ""
            )
        self._file.write("".join(lines).encode())

    def close(self) -> None:
        """Every line stands for itself."""


def _quoted(content: bytes, what: str, position: int) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise click.ClickException(
            f"the {what} of the record at position {position} is not UTF-8, and CSV holds text "
            "alone: use --format jsonl, parquet or arrow"
        ) from None
    return '"' + text.replace('"', '""') + '"'


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
        self._form = BatchForm(None, f"--format {format}")
        self._writer: Any
        if format == "parquet":
            import pyarrow.parquet as pq

            self._writer = pq.ParquetWriter(file, self._form.schema)
        else:
            import pyarrow as pa

            self._writer = pa.ipc.new_file(file, self._form.schema)
        self._waiting: list[pa.RecordBatch] = []
        self._records = self._bytes = 0

    def write(self, batch: Batch, count: int) -> None:
        self._waiting.append(self._form.record_batch(batch).slice(0, count))
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
    if format == "csv":
        return CsvLines(file)
    try:
        return Columns(file, format)
    except ModuleNotFoundError as error:
        raise click.UsageError(str(error)) from None
