"""The Arrow schema of a log's records, and record batches that have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from commitlog.base.extras import pyarrow_for
from commitlog.errors import InvalidOptionError

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("position", "sequence", "timestamp", "type", "key", "value")
HEADERS = "headers"  # only on request
_KNOWN = (*COLUMNS, HEADERS)
_VIEW_SIZE = 16  # bytes


def with_headers(columns: Sequence[str] | None, headers: bool) -> Sequence[str] | None:
    """Return the wanted columns, and behind them the headers if these are wanted, too."""
    if not headers or (columns is not None and HEADERS in columns):
        return columns
    return (*check_columns(columns), HEADERS)


def check_columns(columns: Sequence[str] | None) -> tuple[str, ...]:
    """Return the wanted columns' names; None means all but the headers. Refuse unknown ones and
    duplicates.
    """
    if columns is None:
        return COLUMNS
    if isinstance(columns, str):
        raise InvalidOptionError(
            f"columns must be a list of names, not the text {columns!r}: use [{columns!r}]"
        )
    names = tuple(columns)
    if not names:
        raise InvalidOptionError(f"columns is empty: name at least one of {', '.join(_KNOWN)}")
    for name in names:
        if name not in _KNOWN:
            raise InvalidOptionError(
                f"there is no column {name!r}: the columns are {', '.join(_KNOWN)}"
            )
    if len(set(names)) < len(names):
        raise InvalidOptionError(
            f"columns has a duplicate in {', '.join(map(repr, names))}: name each column once"
        )
    return names


class BatchForm:
    """Turns batches of records into Arrow record batches of one schema.

    The columns are in the given order; None means all but the headers. `what` is the call that
    needs pyarrow, for the error. With `views`, keys and values are of Arrow's type `binary_view`,
    and in place of its offsets a batch has views.
    """

    COLUMNS = COLUMNS

    def __init__(self, columns: Sequence[str] | None, what: str, *, views: bool = False) -> None:
        self._pa = pa = pyarrow_for(what)
        self.views = views
        self._bytes = pa.binary_view() if views else pa.large_binary()
        kinds = {
            "position": pa.int64(),
            "sequence": pa.int64(),
            "timestamp": pa.timestamp("ns", tz="UTC"),
            "type": pa.uint32(),
            "key": self._bytes,
            "value": self._bytes,
            HEADERS: pa.map_(pa.string(), pa.binary()),
        }
        self.names = check_columns(columns)
        self.schema = pa.schema(
            [pa.field(name, kinds[name], nullable=name == "key") for name in self.names]
        )
        self._makers: dict[str, Callable[[Any], Any]] = {
            "position": lambda batch: self._numbers("position", batch.positions),
            "sequence": lambda batch: self._numbers("sequence", batch.sequences),
            "timestamp": lambda batch: self._numbers("timestamp", batch.timestamps_ns),
            "type": lambda batch: self._numbers("type", batch.types),
            "key": self._keys,
            "value": lambda batch: self._binary(batch.offsets, batch.data, None),
            HEADERS: self._headers,
        }

    def record_batch(self, batch: Any) -> pa.RecordBatch:
        """Make a record batch, which shares the memory of a `Batch`."""
        return self._pa.RecordBatch.from_arrays(
            [self._makers[name](batch) for name in self.names], schema=self.schema
        )

    def numbers(self, numbers: npt.NDArray[Any]) -> pa.RecordBatch:
        """Make a record batch of the only column."""
        (name,) = self.names
        return self._pa.RecordBatch.from_arrays([self._numbers(name, numbers)], schema=self.schema)

    def _numbers(self, name: str, numbers: npt.NDArray[Any]) -> Any:
        buffers = [None, self._pa.py_buffer(numbers)]
        return self._pa.Array.from_buffers(self.schema.field(name).type, len(numbers), buffers)

    def _keys(self, batch: Any) -> Any:
        is_keyed = (
            None
            if batch.keyed.all()
            else self._pa.py_buffer(np.packbits(batch.keyed, bitorder="little"))
        )
        return self._binary(batch.key_offsets, batch.keys, is_keyed)

    def _headers(self, batch: Any) -> Any:
        pa = self._pa
        rows = [list(each.items()) for each in batch.headers]
        return pa.array(rows, type=self.schema.field(HEADERS).type)

    def _binary(self, places: npt.NDArray[Any], data: npt.NDArray[np.uint8], valid: Any) -> Any:
        pa = self._pa
        count = len(places) // _VIEW_SIZE if self.views else len(places) - 1
        buffers = [valid, pa.py_buffer(places), pa.py_buffer(data)]
        return pa.Array.from_buffers(self._bytes, count, buffers)
