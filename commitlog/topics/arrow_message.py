"""A record batch of Arrow from the bytes of a message, with every length and offset checked.

pyarrow reads a batch without looking at its buffers. An offset beyond the end would read the memory
of the process, and a short message may claim a length that takes all memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from commitlog.base.extras import pyarrow_for

_WHAT = "the codec 'arrow' of a topic"
_ROWS_PER_BYTE = 8  # of a column of booleans
_MOST_EMPTY = 1000  # rows without bytes, beyond those
_MOST_SHARED = 64  # how many times larger than its message a batch of views may be
# Slots of the tables of Arrow's metadata: `header` of a message, `compression` of a record batch.
_HEADER, _COMPRESSION = 2, 3


def read_batch(value: bytes, schema: Any) -> Any:
    """Return the record batch of a message.

    Raises
    ------
    ValueError
        The bytes are no batch of the schema, a buffer is too short for what it has, or the batch is
        compressed.
    """
    pa = pyarrow_for(_WHAT)
    try:
        source = pa.BufferReader(value)
        message = pa.ipc.read_message(source)
        if message.type != "record batch":
            raise ValueError(f"the message is a {message.type}, and no record batch")
        if source.tell() != len(value):
            raise ValueError(f"{len(value) - source.tell()} bytes are left over")
        if _is_compressed(message.metadata.to_pybytes()):
            # The size before compression would be that of an allocation.
            raise ValueError("the buffers are compressed: append the batch without compression")
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, struct.error, MemoryError) as error:
        raise ValueError(str(error)) from error
    check_lengths(batch, len(value))
    return batch


def check_lengths(batch: Any, size: int) -> None:
    """Raise ValueError if a batch has more rows than a message of that size has room for. Nulls
    take no bytes, so a short message could have any number of them.
    """
    most = size * _ROWS_PER_BYTE + _MOST_EMPTY
    if batch.num_rows > most or any(len(each) > most for each in _arrays(batch)):
        raise ValueError(f"the batch has more than {most} rows, too many for {size} bytes")


def check_views(batch: Any, size: int) -> None:
    """Raise ValueError if values that share bytes would take much more memory as Python objects."""
    import pyarrow.compute as pc

    types = pyarrow_for(_WHAT).types
    for array in _arrays(batch):
        kind = array.type
        if types.is_run_end_encoded(kind):
            raise ValueError("a batch with run-end encoding is only read with its class")
        if types.is_list_view(kind) or types.is_large_list_view(kind):
            is_shared = (pc.sum(pc.list_value_length(array)).as_py() or 0) > len(array.values)
        elif types.is_string_view(kind) or types.is_binary_view(kind):
            is_shared = _bytes_of_views(array) > _MOST_SHARED * size
        else:
            continue
        if is_shared:
            raise ValueError("values of a batch share too many bytes")


def _bytes_of_views(array: Any) -> int:
    """Return the length of all texts of an array; that of each is the first of its four numbers."""
    views = np.frombuffer(array.buffers()[1], np.int32)[::4]
    return int(views[array.offset : array.offset + len(array)].sum(dtype=np.int64))


def has_dictionary(kind: Any) -> bool:
    """Return whether a type, or one within it, is a dictionary."""
    types = pyarrow_for(_WHAT).types
    if types.is_dictionary(kind):
        return True
    inner = [kind.field(index).type for index in range(kind.num_fields)]
    if types.is_run_end_encoded(kind):
        inner = [kind.value_type]
    return any(map(has_dictionary, inner))


def _arrays(batch: Any) -> Iterator[Any]:
    """Yield the columns of a batch, and all arrays within them."""
    types = pyarrow_for(_WHAT).types
    pending = list(batch.columns)
    while pending:
        array = pending.pop()
        yield array
        kind = array.type
        if hasattr(array, "storage"):  # of an extension type
            pending.append(array.storage)
        elif types.is_struct(kind) or types.is_union(kind):
            pending += [array.field(index) for index in range(kind.num_fields)]
        elif types.is_map(kind):
            pending += [array.keys, array.items]
        elif hasattr(array, "values"):  # lists, views, and run-end encoding
            pending.append(array.values)


def _is_compressed(metadata: bytes) -> bool:
    """Return whether the metadata of a record batch names a compression. pyarrow has checked the
    flatbuffer, and does not tell.
    """
    (message,) = struct.unpack_from("<I", metadata)
    header = message + _slot(metadata, message, _HEADER)
    (to_batch,) = struct.unpack_from("<I", metadata, header)
    return _slot(metadata, header + to_batch, _COMPRESSION) != 0


def _slot(metadata: bytes, table: int, number: int) -> int:
    """Return the offset of a field in a table of a flatbuffer; 0 if the table lacks it."""
    (back,) = struct.unpack_from("<i", metadata, table)
    vtable = table - back
    (size,) = struct.unpack_from("<H", metadata, vtable)
    place = 4 + 2 * number
    return 0 if place >= size else int(struct.unpack_from("<H", metadata, vtable + place)[0])
