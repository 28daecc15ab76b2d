"""Many records as NumPy columns."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from commitlog._kernel.readers import first_sequence, headers_of, sequences_of
from commitlog._kernel.segments import Segment
from commitlog.base.cached import Cached
from commitlog.base.extras import pyarrow_for
from commitlog.base.html import rows_table
from commitlog.errors import CommitLogError, SequenceError
from commitlog.tail.arrow import BatchForm, with_headers

if TYPE_CHECKING:
    import pyarrow as pa


_SHOWN = 20  # records of a batch in a notebook
_SHOWN_BYTES = 60  # of a value


@dataclass(frozen=True, eq=False, repr=False)
class Batch:
    """Hold records as columns of equal length, one row per record, in reading order.

    Attributes
    ----------
    positions, timestamps_ns : numpy.ndarray of int64, shape (n,)
    types : numpy.ndarray of uint32, shape (n,)
    keyed : numpy.ndarray of bool, shape (n,)
        False if the record has no key; an empty key counts as a key.
    data : numpy.ndarray of uint8
        All values, concatenated.
    offsets : numpy.ndarray of int64, shape (n + 1,)
        Value i is ``data[offsets[i]:offsets[i + 1]]``.
    keys, key_offsets : numpy.ndarray
        The same for keys.
    """

    positions: npt.NDArray[np.int64]
    timestamps_ns: npt.NDArray[np.int64]
    types: npt.NDArray[np.uint32]
    keyed: npt.NDArray[np.bool_]
    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint8]
    key_offsets: npt.NDArray[np.int64]
    _segments: tuple[Segment, ...] = field(default=(), repr=False)
    _adjacent: bool = field(default=True, repr=False)  # no record is left out between two of them

    @Cached
    def sequences(self) -> npt.NDArray[np.int64]:
        """Return the records' sequences, int64, shape (n,), ascending or descending: by one, if no
        records are left out, as a view does.

        The first access computes them.

        Raises
        ------
        SequenceError
            A claim below is still open, so the sequences are not known yet.
        """
        if not len(self):
            return np.empty(0, dtype=np.int64)
        if not self._segments:
            raise SequenceError(
                "the sequences of these records were not known when they were pickled"
            )
        if not self._adjacent:
            return np.array(sequences_of(self._segments, self.positions), dtype=np.int64)
        first = first_sequence(self._segments[0], self.positions)
        step = -1 if len(self) > 1 and self.positions[1] < self.positions[0] else 1
        return np.arange(first, first + step * len(self), step, dtype=np.int64)

    @Cached
    def headers(self) -> list[dict[str, bytes]]:
        """Return the records' headers, one dict for each; empty if a record has none.

        The first access reads them from the log.

        Raises
        ------
        CorruptSegmentError
            Headers are damaged, although their record is not.
        ClosedError
            A record was read before its commit, and the log failed or was closed since.
        """
        if not self._segments:
            return [{} for _ in range(len(self))]
        return headers_of(self._segments, self.positions)

    @Cached
    def sound_headers(self) -> list[dict[str, bytes] | None]:
        """Return the records' headers as `headers` does, but None for damaged ones."""
        if "headers" in self.__dict__ or not self._segments:
            return list(self.headers)
        return headers_of(self._segments, self.positions, skips_damage=True)

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_segments": ()}
        if any(self.headers):
            state["headers"] = self.headers
        with contextlib.suppress(CommitLogError):
            state["sequences"] = self.sequences
        return state

    def __len__(self) -> int:
        return len(self.positions)

    def value(self, index: int) -> bytes:
        """Copy one value."""
        return self._slice(self.data, self.offsets, index)

    def key(self, index: int) -> bytes | None:
        """Copy one key; None if the record has none."""
        return self._slice(self.keys, self.key_offsets, index) if self.keyed[index] else None

    def _slice(
        self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], index: int
    ) -> bytes:
        row = range(len(self))[index]
        return data[offsets[row] : offsets[row + 1]].tobytes()

    def values(self) -> list[bytes]:
        """Copy all values into a list of bytes."""
        blob = self.data.tobytes()
        edges = self.offsets.tolist()
        return [blob[start:stop] for start, stop in itertools.pairwise(edges)]

    def __repr__(self) -> str:
        ends = f", positions {self.positions[0]} to {self.positions[-1]}" if len(self) else ""
        return f"<Batch of {len(self)} records{ends}>"

    def _repr_html_(self) -> str:
        first = range(min(len(self), _SHOWN))
        rows = (
            (self.positions[each], np.datetime64(int(self.timestamps_ns[each]), "ns"),
             self.types[each], self._shown(self.key(each)), self._shown(self.value(each)))
            for each in first
        )  # fmt: skip
        caption = f"{len(self):,} records" + (", the first:" if len(self) > _SHOWN else "")
        return rows_table(caption, ("position", "timestamp", "type", "key", "value"), rows)

    @staticmethod
    def _shown(content: bytes | None) -> str:
        if content is None:
            return ""
        rest = "" if len(content) <= _SHOWN_BYTES else f" and {len(content) - _SHOWN_BYTES:,} bytes"
        return f"{content[:_SHOWN_BYTES]!r}{rest}"

    def to_arrow(
        self, columns: Sequence[str] | None = None, *, headers: bool = False
    ) -> pa.RecordBatch:
        """Convert to Arrow columns that share the batch's memory.

        Parameters
        ----------
        columns : sequence of str, optional
            Some of position, sequence, timestamp, type, key, value and headers; all but headers by
            default.
        headers : bool
            Whether to add the column headers, a map of names to bytes.

        Raises
        ------
        InvalidOptionError
            There is no such column.
        SequenceError
            The column sequence is selected, and the sequences are not known: see `sequences`.
        ModuleNotFoundError
            pyarrow is not installed: ``pip install 'commitlog-engine[arrow]'``.
        """
        wanted = with_headers(columns, headers)
        return BatchForm(wanted, "Batch.to_arrow").record_batch(self)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Export the columns of `to_arrow` through Arrow's C interface; needs pyarrow, too."""
        exported: tuple[object, object] = self.to_arrow().__arrow_c_array__(requested_schema)
        return exported

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the columns of `to_arrow` as a stream of one record batch; needs pyarrow, too."""
        batch = self.to_arrow()
        pa = pyarrow_for("Batch.__arrow_c_stream__")
        return pa.RecordBatchReader.from_batches(batch.schema, [batch]).__arrow_c_stream__(
            requested_schema
        )
