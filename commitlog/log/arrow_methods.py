"""ArrowMethods: a log's records from and to Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

    from commitlog.log.open_log import OpenLog
    from commitlog.log.scan import Bound


class ArrowMethods:
    """The Arrow methods of `CommitLog`."""

    _parts: OpenLog

    def to_reader(
        self,
        *,
        start: Bound | None = None,
        end: Bound | None = None,
        columns: Sequence[str] | None = None,
        headers: bool = False,
    ) -> pa.RecordBatchReader:
        """Read a range as a stream of Arrow record batches, in constant memory.

        Parameters
        ----------
        start : int, str, datetime.datetime or None
            The first record: its position, or a time in the forms of `Tailer.seek`, for the first
            record that is not older. None: the oldest record.
        end : int, str, datetime.datetime or None
            The exclusive end of the range, in the same forms. None: the commit position at the time
            of the call.
        columns : sequence of str, optional
            Some of position, sequence, timestamp, type, key, value and headers; all but headers by
            default. Values and keys are copied only if they are selected. Sequences alone come from
            seals and indexes: no record is read, and no CRC is checked.
        headers : bool
            Whether to add the column headers, a map of names to bytes.

        Returns
        -------
        pyarrow.RecordBatchReader
            It can be iterated once. A record batch has up to 65536 records, or 262144 without keys
            and values.

        Raises
        ------
        InvalidOptionError
            There is no such column, or the end is before the start.
        PositionError
            No record starts there, or it was deleted. The reader also raises it if records that it
            has yet to read are deleted.
        ModuleNotFoundError
            pyarrow is not installed: ``pip install 'commitlog-engine[arrow]'``.
        """
        from commitlog.log.scan import Scan
        from commitlog.tail.arrow import with_headers

        wanted = with_headers(columns, headers)
        return Scan(self._parts, start, end, wanted, "to_reader", keep=self).reader()

    def to_arrow(
        self,
        *,
        start: Bound | None = None,
        end: Bound | None = None,
        columns: Sequence[str] | None = None,
        headers: bool = False,
    ) -> pa.Table:
        """Read a range as an Arrow table: `to_reader`, read to its end.

        Parameters
        ----------
        start, end, columns, headers
            As for `to_reader`.
        """
        return self.to_reader(start=start, end=end, columns=columns, headers=headers).read_all()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the records of `to_reader` through Arrow's C interface; needs pyarrow, too."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def append_arrow(
        self, data: object, *, timestamp_ns: int | None = None, sync: bool | None = None
    ) -> npt.NDArray[np.int64]:
        """Append each row of Arrow data as one record, without a Python object per record.

        Parameters
        ----------
        data : pyarrow.Array, ChunkedArray, RecordBatch or Table, or any Arrow C interface exporter
            An array holds the values: binary, string, their large and view kinds, fixed-size
            binary, or a dictionary of these. A table has them in its column ``value``, and may have
            ``key`` (the same kinds; null: no key), ``type`` (whole numbers; null: 0) and
            ``timestamp`` (Arrow timestamps, or whole nanoseconds since 1970; null: the current
            time), and ``headers`` (a map of text to bytes; null: none), which costs a Python object
            per record. The columns ``position`` and ``sequence``, as in a table read from a log,
            are ignored. A null value with a key becomes a tombstone, an empty value.
        timestamp_ns : int, optional
            One timestamp for all records; by default the current time, read once per batch of up to
            64 KiB.
        sync : bool, optional
            As for `append`; one flush for all.

        Returns
        -------
        numpy.ndarray
            The positions, int64, one per row.

        Raises
        ------
        RecordTypeError, RecordTooLargeError
            The data has an unknown column or a wrong type, a null value without a key, or a
            negative number. Nothing was appended.
        ModuleNotFoundError
            pyarrow is not installed: ``pip install 'commitlog-engine[arrow]'``.
        """
        from commitlog.log.arrow import row_columns

        return self._parts.engine.append_columns(
            row_columns(data), timestamp_ns=timestamp_ns, sync=sync
        )
