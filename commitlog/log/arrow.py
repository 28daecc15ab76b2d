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

# The log assigns these columns. If a batch that was read is appended again, its records get new
# ones.
_GIVEN_BY_THE_LOG = ("position", "sequence")
_TAKEN = ("value", "key", "type", "timestamp", "headers")
# The names of Arrow's types of bytes, without those of a fixed size.
_BYTES = ("binary", "string", "large_binary", "large_string", "binary_view", "string_view", "null")
_TEXTS = ("string", "large_string", "string_view")

_Bytes = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Rows:
    """Arrays of equal length, one row a record. Values and keys are not copied.

    Values are bytes, and int64 offsets, one more than there are rows. Keys are the same, and for
    each row whether it has a key (uint8). A timestamp below 0 stands for the current time. Headers
    are objects.
    """

    values: _Bytes
    keys: tuple[*_Bytes, npt.NDArray[np.uint8]] | None
    types: npt.NDArray[np.uint32] | None
    timestamps_ns: npt.NDArray[np.int64] | None
    headers: list[dict[str, bytes] | None] | None

    def __len__(self) -> int:
        return len(self.values[1]) - 1


def row_columns(data: object) -> list[RowColumns]:
    """Return the rows of Arrow data for the engine: see `rows_of`."""
    return [
        RowColumns(
            *rows.values,
            keys=rows.keys,
            types=rows.types,
            timestamps_ns=rows.timestamps_ns,
            headers=rows.headers,
        )
        for rows in rows_of(data, "append_arrow")
    ]


def rows_of(data: object, what: str) -> list[Rows]:
    """Return the rows of Arrow data, one `Rows` for each chunk: see `CommitLog.append_arrow`.

    `what` names the call in the error if pyarrow is missing. Raise `RecordTypeError` if the data
    has another type, a column or a type that records do not have, or a null value without a key.
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
    """Yield record batches; those of an array have only the column `value`."""
    if not isinstance(data, (pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray)):
        data = _imported(pa, data)
    if isinstance(data, pa.Array):
        data = pa.chunked_array([data])
    if isinstance(data, pa.ChunkedArray):
        data = pa.table({"value": data})
    _check_names(data.schema.names)
    yield from data.to_batches() if isinstance(data, pa.Table) else [data]


def _imported(pa: Any, data: Any) -> Any:
    """Import an object with Arrow's C interface as a table, or else as an array."""
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
                f"unknown column {name!r}: the columns are value and, optionally, key, type, "
                "timestamp and headers"
            )
    if "value" not in names or len(set(names)) != len(names):
        raise RecordTypeError(
            "there must be exactly one value column, and at most one each of key, type, timestamp "
            f"and headers; the columns are {names}"
        )


def _part(pa: Any, batch: Any, row: int) -> Rows:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    values = _binary(pa, columns["value"], "value")
    keys = _binary(pa, columns["key"], "key") if "key" in columns else None
    times = columns.get("timestamp")
    if times is not None and pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ns", times.type.tz)).cast(pa.int64())
    return Rows(
        _bytes_of(_with_tombstones(values, keys, row)),
        keys=None if keys is None else (*_bytes_of(keys), _valid(keys)),
        types=_numbers(pa, columns.get("type"), "type", row, kind=pa.uint32(), for_null=0),
        timestamps_ns=_numbers(pa, times, "timestamp", row, kind=pa.int64(), for_null=-1),
        headers=_headers(pa, columns.get("headers"), row),
    )


def _headers(pa: Any, array: Any, row: int) -> list[dict[str, bytes] | None] | None:
    """Return a mapping for each row, None for a null; None if no row has any."""
    if array is None or pa.types.is_null(array.type):
        return None
    kind = array.type
    if not pa.types.is_map(kind) or not (
        str(kind.key_type) in _TEXTS and str(kind.item_type) in _BYTES
    ):
        raise RecordTypeError(
            f"the column headers must be a map of text to bytes, not {kind}: cast it first"
        )
    if not len(array.items):
        return None
    found = array.cast(pa.map_(pa.string(), pa.binary())).to_pylist()
    for at, pairs in enumerate(found, row):
        if pairs is not None and len(dict(pairs)) != len(pairs):
            raise RecordTypeError(f"row {at} has a header twice: name each header once")
    return [None if pairs is None else dict(pairs) for pairs in found]


def _with_tombstones(values: Any, keys: Any, row: int) -> Any:
    """Turn a null value with a key into a tombstone; a null value without a key is an error."""
    if values.null_count == 0:
        return values
    missing = ~_valid(values).astype(bool)
    orphans = missing if keys is None else missing & ~_valid(keys).astype(bool)
    if orphans.any():
        raise RecordTypeError(
            f"row {row + int(orphans.argmax())} has a null value and no key: a null value is a "
            "tombstone only in a row with a key; drop such rows, or fill them with empty values"
        )
    return values.fill_null(b"")


def _valid(array: Any) -> npt.NDArray[np.uint8]:
    if array.null_count == 0:
        return np.ones(len(array), dtype=np.uint8)
    flags: npt.NDArray[np.uint8] = array.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
    return flags


def _binary(pa: Any, array: Any, name: str) -> Any:
    """Cast to large binary. The bytes of types with offsets are not copied."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if str(kind) not in _BYTES and not pa.types.is_fixed_size_binary(kind):
        raise RecordTypeError(
            f"the column {name} must hold bytes or text, not {kind}: cast it to binary first"
        )
    return array.cast(pa.large_binary())


def _bytes_of(array: Any) -> _Bytes:
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, dtype=np.int64)
    return (
        np.frombuffer(data or b"", dtype=np.uint8),
        places[array.offset : array.offset + len(array) + 1],
    )


def _numbers(pa: Any, array: Any, name: str, row: int, *, kind: Any, for_null: int) -> Any:
    """Return a column of non-negative integers, with `for_null` for nulls; None if it is absent."""
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
