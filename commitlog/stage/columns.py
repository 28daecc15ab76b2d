"""Columns: what a batch of Arrow records has to hold to become frames, as arrays that the kernel
lays out without a Python object each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from commitlog.errors import RecordTypeError

if TYPE_CHECKING:
    import pyarrow as pa

NAMES = ("value", "key", "timestamp", "type")
_TYPE_LARGEST = 2**32 - 1

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Columns:
    """Arrays of one batch, by record. A record without a value is its key's tombstone, and has an
    empty one.
    """

    count: int
    values: Array
    value_offsets: Array
    keys: Array | None = None
    key_offsets: Array | None = None
    keyed: Array | None = None
    types: Array | None = None
    timestamps_ns: Array | None = None

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Columns:
        """Read the columns `value` and, where they are, `key`, `timestamp` and `type`; others are
        passed over.

        Raises
        ------
        RecordTypeError
            What is wrong with which column.
        """
        found = {name: batch.column(name) for name in NAMES if name in batch.schema.names}
        if "value" not in found:
            raise RecordTypeError(
                "a batch needs a column 'value' of bytes or text; this one has "
                f"{', '.join(batch.schema.names) or 'none'}"
            )
        values, value_offsets = _bytes_of(found["value"], "value")
        keys = key_offsets = keyed = None
        if "key" in found and found["key"].null_count < batch.num_rows:
            keys, key_offsets = _bytes_of(found["key"], "key")
            keyed = _present(found["key"])
        if found["value"].null_count:
            _check_tombstones(_present(found["value"]), keyed)
        return cls(
            batch.num_rows,
            values,
            value_offsets,
            keys,
            key_offsets,
            keyed,
            _types_of(found["type"]) if "type" in found else None,
            _timestamps_of(found["timestamp"]) if "timestamp" in found else None,
        )


def _bytes_of(column: pa.Array, name: str) -> tuple[Array, Array]:
    """The bytes of all slots back to back, and where each begins and ends. A null has none."""
    import pyarrow as pa

    if pa.types.is_null(column.type):
        column = column.cast(pa.binary())
    kind = column.type
    if not (
        pa.types.is_large_binary(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    ):
        raise RecordTypeError(
            f"column '{name}' must be of bytes or text, not {kind}: encode it, for instance as JSON"
        )
    if column.null_count:
        column = column.fill_null(b"" if "binary" in str(kind) else "")
    wide = column.cast(pa.large_binary())
    _, offsets, data = wide.buffers()
    if offsets is None or len(wide) == 0:
        starts = np.zeros(len(wide) + 1, dtype=np.int64)
    else:
        starts = np.frombuffer(offsets, dtype=np.int64, count=len(wide) + 1, offset=8 * wide.offset)
    content = np.empty(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    return content, starts


def _present(column: pa.Array) -> Array:
    """Return one byte a slot, 1 if it is not null."""
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=np.uint8)


def _check_tombstones(present: Array, keyed: Array | None) -> None:
    """Refuse a row without value and key: a null value is a tombstone, and needs a key."""
    bare = present == 0 if keyed is None else (present == 0) & (keyed == 0)
    if bare.any():
        raise RecordTypeError(
            f"row {int(bare.argmax())} of the batch has neither a value nor a key: a null value "
            "is a key's tombstone; filter such rows "
            "out, or give them an empty value"
        )


def _types_of(column: pa.Array) -> Array:
    import pyarrow as pa

    if not pa.types.is_integer(column.type):
        raise RecordTypeError(
            f"column 'type' must be of whole numbers from 0 to {_TYPE_LARGEST}, not {column.type}"
        )
    if column.null_count:
        column = column.fill_null(0)
    numbers = column.to_numpy(zero_copy_only=False)
    if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) > _TYPE_LARGEST):
        wrong = numbers.min() if int(numbers.min()) < 0 else numbers.max()
        raise RecordTypeError(
            f"column 'type' must be of whole numbers from 0 to {_TYPE_LARGEST}, not {wrong}"
        )
    return np.ascontiguousarray(numbers, dtype=np.uint32)


def _timestamps_of(column: pa.Array) -> Array:
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type):
        raise RecordTypeError(f"column 'timestamp' must be of timestamps, not {column.type}")
    if column.null_count:
        raise RecordTypeError(
            "column 'timestamp' has nulls: give every record a time, or leave the column out, "
            "which takes the clock's"
        )
    try:
        numbers = (
            column.cast(pa.timestamp("ns", column.type.tz))
            .cast(pa.int64())
            .to_numpy(zero_copy_only=False)
        )
    except pa.ArrowInvalid as error:
        raise RecordTypeError(
            f"column 'timestamp' has a time that nanoseconds since 1970 cannot hold: {error}"
        ) from None
    if len(numbers) and int(numbers.min()) < 0:
        raise RecordTypeError(
            "column 'timestamp' has a time before 1970, which a record cannot have"
        )
    return np.ascontiguousarray(numbers, dtype=np.int64)
