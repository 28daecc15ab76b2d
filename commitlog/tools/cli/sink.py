"""Sinks: where `cat` and `tail` write records, as bytes or as a Parquet or Arrow file."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import click
import numpy as np

from commitlog import Batch, CommitLog
from commitlog.base.extras import pyarrow_for
from commitlog.tools.cli.batch_headers import BatchHeaders, Headers
from commitlog.tools.cli.decoded import BatchDecoder
from commitlog.tools.cli.filter import Rows
from commitlog.tools.cli.output import Output
from commitlog.tools.cli.record_format import CsvLines, JsonLines, RecordFormat

if TYPE_CHECKING:
    import pyarrow as pa

TABLES = ("parquet", "arrow")
# The size of a row group of Parquet, or of a record batch of Arrow.
_GROUP_RECORDS = 1 << 18
_GROUP_BYTES = 32 << 20


class ByteSink:
    """Write records in a format of bytes, messages as JSON if there is a decoder. An `Output` is
    flushed after each batch.
    """

    def __init__(
        self,
        output: Output | IO[bytes],
        form: RecordFormat,
        decoder: BatchDecoder | None = None,
    ) -> None:
        self._output = output
        self._form = form
        if decoder is not None:
            is_object = isinstance(form, JsonLines)
            self._form = decoder.objects(form) if is_object else decoder.texts(form)
        if isinstance(form, CsvLines):
            output.write(form.first_line)

    def write(self, batch: Batch, rows: Rows) -> None:
        self._output.write(self._form(batch, rows))
        if isinstance(self._output, Output):
            self._output.flush()

    def check_reader(self) -> None:
        if isinstance(self._output, Output):
            self._output.check_reader()

    def close(self) -> None:
        self._output.flush()


class TableSink:
    """Write the columns position, sequence, timestamp, type, key and value, and headers if these
    are given, as Parquet or as Arrow's file format, in groups; messages as JSON if there is a
    decoder.
    """

    def __init__(
        self,
        log: CommitLog,
        file: IO[bytes],
        format: str,
        decoder: BatchDecoder | None = None,
        headers: BatchHeaders | None = None,
    ) -> None:
        self._decoder, self._headers = decoder, headers
        try:
            arrow = pyarrow_for(f"--format {format}")
        except ModuleNotFoundError as error:
            raise click.UsageError(str(error)) from None
        schema = log.to_reader(start="end").schema
        if headers is not None:
            schema = schema.append(
                arrow.field("headers", arrow.map_(arrow.string(), arrow.binary()))
            )
        self._schema = schema
        self._writer: Any
        if format == "parquet":
            import pyarrow.parquet as pq

            self._writer = pq.ParquetWriter(file, schema)
        else:
            self._writer = arrow.ipc.new_file(file, schema)
        self._waiting: list[pa.RecordBatch] = []
        self._records = self._bytes = 0

    def write(self, batch: Batch, rows: Rows) -> None:
        if self._decoder is not None:
            batch, rows = self._decoder.converted(batch, rows)
        columns = batch.to_arrow()
        columns = columns if len(rows) == len(batch) else columns.take(rows)
        if self._headers is not None:
            columns = self._with_headers(columns, self._headers.of(batch, rows))
        self._waiting.append(columns)
        self._records += len(rows)
        self._bytes += int(
            np.diff(batch.offsets)[rows].sum() + np.diff(batch.key_offsets)[rows].sum()
        )
        if self._records >= _GROUP_RECORDS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def _with_headers(
        self, columns: pa.RecordBatch, headers: list[Headers | None]
    ) -> pa.RecordBatch:
        import pyarrow as pa

        rows = [None if each is None else list(each.items()) for each in headers]
        array = pa.array(rows, self._schema.field("headers").type)
        return pa.RecordBatch.from_arrays([*columns.columns, array], schema=self._schema)

    def _write_group(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._writer.write_table(
                pa.Table.from_batches(self._waiting).combine_chunks(), self._records
            )
        self._waiting = []
        self._records = self._bytes = 0

    def check_reader(self) -> None:
        """Do nothing: the next write finds out."""

    def close(self) -> None:
        self._write_group()
        self._writer.close()
