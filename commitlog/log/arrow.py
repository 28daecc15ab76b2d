"""Arrow data as columns of records, without an object for each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from commitlog._kernel.engine import RowColumns
from commitlog.base.extras import pyarrow_for
from commitlog.errors import RecordTypeError
from commitlog.tail.arrow import warn_of_old_timestamp

# Columns that only the log can give: a batch that was read has them, and appended again its records
# get new ones.
_GIVEN_BY_THE_LOG = ("position", "sequence")
_TIMESTAMPS = ("timestamp_ns", "timestamp")
_TAKEN = ("value", "key", "type", *_TIMESTAMPS)

_Bytes = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Rows:
    """Arrays of equal length, one row a record; values and keys stay where Arrow has them.

    Values are bytes, and int64 offsets, one more than there are rows. Keys are the same, and for
    each row whether it has a key (uint8). A timestamp below 0 is the clock's.
    """

    values: _Bytes
    keys: tuple[*_Bytes, npt.NDArray[np.uint8]] | None
    types: npt.NDArray[np.uint32] | None
    timestamps_ns: npt.NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.values[1]) - 1


def row_columns(data: object) -> list[RowColumns]:
    """Return the rows of Arrow data for the engine: see `rows_of`."""
    return [
        RowColumns(*rows.values, keys=rows.keys, types=rows.types, timestamps_ns=rows.timestamps_ns)
        for rows in rows_of(data, "append_arrow")
    ]


def rows_of(data: object, what: str) -> list[Rows]:
    """Return the rows of Arrow data, in parts as the data has them: see `CommitLog.append_arrow`.

    `what` is the call that needs pyarrow, for the error. Other data, a column or a type that a
    record has no place for, or a null where none can be is a `RecordTypeError`.
    """
    pa = pyarrow_for(what)
    parts = []
    row = 0
    try:
        for batch in _batches(pa, data):
            if len(batch):
                parts.append(_part(pa, batch, row))
                row += len(batch)
    except pa.ArrowInvalid as error:
        raise RecordTypeError(f"the data cannot be stored in records: {error}") from error
    return parts


def _batches(pa: Any, data: Any) -> Iterator[Any]:
    """Record batches; an array is one with the column value alone."""
    if not isinstance(data, (pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray)):
        data = _imported(pa, data)
    if isinstance(data, pa.Array):
        data = pa.chunked_array([data])
    if isinstance(data, pa.ChunkedArray):
        data = pa.table({"value": data})
    _check_names(data.schema.names)
    yield from data.to_batches() if isinstance(data, pa.Table) else [data]


def _imported(pa: Any, data: Any) -> Any:
    """Import what offers Arrow's C interface: a table where it is one, else an array."""
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        for take in (pa.table, pa.chunked_array, pa.array):
            try:
                return take(data)
            except (TypeError, ValueError):
                continue
    raise RecordTypeError(
        "append_arrow takes a pyarrow Table, RecordBatch, Array or ChunkedArray, or an object with "
        "Arrow's C data interface, not "
        f"{type(data).__name__}: use append_many for lists and append_array for NumPy arrays"
    )


def _check_names(names: list[str]) -> None:
    for name in names:
        if name not in _TAKEN and name not in _GIVEN_BY_THE_LOG:
            raise RecordTypeError(
                f"unknown column {name!r}: the columns are value and, optionally, "
                "key, type and timestamp"
            )
    taken = ["timestamp" if name in _TIMESTAMPS else name for name in names]
    if "value" not in taken or len(set(taken)) != len(taken):
        raise RecordTypeError(
            "there must be exactly one value column, and at most one each of key, type and "
            "timestamp; "
            f"the columns are {names}"
        )
    if "timestamp_ns" in names:
        warn_of_old_timestamp()


def _part(pa: Any, batch: Any, row: int) -> Rows:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    keys = columns.get("key")
    return Rows(
        _bytes_of(pa, _with_tombstones(pa, columns["value"], keys, row), "value"),
        keys=None if keys is None else (*_bytes_of(pa, keys, "key"), _valid(keys)),
        types=_numbers(pa, columns.get("type"), "type", row, kind=pa.uint32(), for_null=0),
        timestamps_ns=_numbers(
            pa, _as_nanoseconds(pa, columns), "timestamp", row, kind=pa.int64(), for_null=-1
        ),
    )


def _with_tombstones(pa: Any, values: Any, keys: Any, row: int) -> Any:
    """Turn a null value with a key into a tombstone; a null value without a key is an error."""
    if values.null_count == 0:
        return values
    missing = ~_valid(values).astype(bool)
    orphans = missing if keys is None else missing & ~_valid(keys).astype(bool)
    if orphans.any():
        raise RecordTypeError(
            f"row {row + int(orphans.argmax())} has a null value and no key: a null value is a "
            "tombstone only in a row with a "
            "key; drop such rows, or fill them with empty values"
        )
    return _plain(pa, values, "value", always=True).fill_null(b"")


def _valid(array: Any) -> npt.NDArray[np.uint8]:
    if array.null_count == 0:
        return np.ones(len(array), dtype=np.uint8)
    flags: npt.NDArray[np.uint8] = array.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
    return flags


def _plain(pa: Any, array: Any, name: str, *, always: bool = False) -> Any:
    """The array with offsets and bytes behind it, or a fixed width; copied if `always`."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    offset_kinds = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
    viewed = str(kind) in ("binary_view", "string_view", "null")
    if not viewed and kind not in offset_kinds and not pa.types.is_fixed_size_binary(kind):
        raise RecordTypeError(
            f"the column {name} must hold bytes or text, not {kind}: cast it to binary first"
        )
    return array.cast(pa.large_binary()) if viewed or always else array


def _bytes_of(pa: Any, array: Any, name: str) -> _Bytes:
    array = _plain(pa, array, name)
    buffers = array.buffers()
    data = np.frombuffer(buffers[-1] or b"", dtype=np.uint8)
    if pa.types.is_fixed_size_binary(array.type):
        places = np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64)
        return data, places * int(array.type.byte_width)
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    offsets = np.frombuffer(buffers[1], dtype=np.int64 if wide else np.int32)
    return data, offsets[array.offset : array.offset + len(array) + 1].astype(np.int64, copy=False)


def _as_nanoseconds(pa: Any, columns: dict[str, Any]) -> Any:
    array = columns.get("timestamp_ns", columns.get("timestamp"))
    if array is not None and pa.types.is_timestamp(array.type):
        return array.cast(pa.timestamp("ns", array.type.tz)).cast(pa.int64())
    return array


def _numbers(pa: Any, array: Any, name: str, row: int, *, kind: Any, for_null: int) -> Any:
    """A column of whole numbers from 0, with something else in place of nulls, or None."""
    if array is None or pa.types.is_null(array.type):
        return None
    if not pa.types.is_integer(array.type):
        also = " or timestamps" if for_null < 0 else ""
        raise RecordTypeError(f"the column {name} must hold whole numbers{also}, not {array.type}")
    array = array.cast(kind)
    numbers = (array.fill_null(for_null) if array.null_count else array).to_numpy(
        zero_copy_only=False
    )
    wrong = numbers < 0 if array.null_count == 0 else (numbers < 0) & _valid(array).astype(bool)
    if wrong.any():
        first = int(wrong.argmax())
        raise RecordTypeError(
            f"row {row + first} of the column {name} is {numbers[first]}: it must not be negative"
        )
    return np.ascontiguousarray(numbers)
