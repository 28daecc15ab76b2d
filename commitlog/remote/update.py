"""Update: one message of a stream from a server of logs to a reader."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

from commitlog import errors
from commitlog._kernel.segments import crc32c
from commitlog.base.extras import pyarrow_for
from commitlog.errors import CommitLogError, ReplicationError

UPDATE_BYTES = 1 << 20
_WHAT = "a log of another machine"
_NUMBERS = ("position", "crc", "first", "committed", "flushed")
# The errors that a server reports to a reader, by their name.
_TOLD = (
    "CorruptSegmentError",
    "CorruptTailerError",
    "InvalidOptionError",
    "IOFailureError",
    "LogNotFoundError",
    "PositionError",
    "ReadOnlyError",
    "SequenceError",
    "InUseError",
    "TailerNotFoundError",
    "UnsupportedError",
)
_TEXT_LIMIT = 4096  # characters of a message


@dataclass(frozen=True)
class Update:
    """Bytes of a log, and where the log begins and ends.

    `content` are the bytes from `position` on. `first` is the base of the oldest segment. A reader
    may show what is below `committed`. `error` is what ended the stream, as JSON, or empty.
    """

    position: int
    first: int
    committed: int
    flushed: int
    content: bytes | memoryview = b""
    crc: int = 0
    error: str = ""


def schema() -> Any:
    """Return the Arrow schema of an update."""
    pyarrow = pyarrow_for(_WHAT)
    numbers = [(name, pyarrow.int64()) for name in _NUMBERS]
    return pyarrow.schema(
        [*numbers, ("content", pyarrow.large_binary()), ("error", pyarrow.utf8())]
    )


def batch_of(update: Update, layout: Any) -> Any:
    """Return an update as a record batch of one row; its content is not copied."""
    error = update.error.encode()
    buffers: list[tuple[bytes | memoryview, ...]] = [
        (struct.pack("<qq", 0, len(update.content)), update.content),
        (struct.pack("<ii", 0, len(error)), error),
    ]
    buffers[:0] = [(struct.pack("<q", getattr(update, name)),) for name in _NUMBERS]
    # Not `pyarrow.array`: it imports pandas, for which the first reader would wait.
    pyarrow = pyarrow_for(_WHAT)
    columns = [
        pyarrow.Array.from_buffers(field.type, 1, [None, *map(pyarrow.py_buffer, each)])
        for field, each in zip(layout, buffers, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(columns, schema=layout)


def update_of(batch: Any, layout: Any, peer: str) -> Update:
    """Check a record batch of a server and return its update; raise the error that it reports."""
    if batch is None or batch.schema != layout or batch.num_rows != 1:
        raise ReplicationError(
            f"{peer} sent something other than an update of a log: is it `commitlog serve`?"
        )
    pyarrow = pyarrow_for(_WHAT)
    try:
        batch.validate(full=True)  # Arrow reads beyond a buffer if the offsets say so
    except pyarrow.ArrowException:
        raise DamagedUpdateError(peer) from None
    if any(column.null_count for column in batch.columns):
        raise ReplicationError(f"{peer} sent an update without a value")
    error = batch.column("error")[0].as_py()
    if error:
        raise error_of(error, peer)
    numbers = {name: batch.column(name)[0].as_py() for name in _NUMBERS}
    if any(number < 0 for number in numbers.values()):
        raise ReplicationError(f"{peer} sent a negative position")
    content = memoryview(batch.column("content")[0].as_buffer()).cast("B")
    if crc32c(content) != numbers["crc"]:
        raise DamagedUpdateError(peer)
    return Update(content=content, **numbers)


class DamagedUpdateError(Exception):
    """An update was damaged in transit; another try may succeed."""

    def __init__(self, peer: str) -> None:
        super().__init__(f"{peer} sent an update that was damaged in transit")


def text_of(error: CommitLogError) -> str:
    """Return an error as the JSON that `error_of` reads."""
    name = type(error).__name__
    content = {
        "error": name if name in _TOLD else "ReplicationError",
        "message": error.message[:_TEXT_LIMIT],
        "position": error.position,
        "first_position": getattr(error, "first_position", None),
    }
    return json.dumps(content)


def error_of(text: str, peer: str) -> CommitLogError:
    """Build the error that a server reported."""
    try:
        content = json.loads(text)
        name, message = str(content["error"]), str(content["message"])[:_TEXT_LIMIT]
        position, first = content["position"], content["first_position"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ReplicationError(f"{peer} sent an error that cannot be read")
    position, first = (one if type(one) is int else None for one in (position, first))
    kind: type[CommitLogError] = getattr(errors, name) if name in _TOLD else ReplicationError
    details = {"first_position": first} if kind is errors.PositionError else {}
    return kind(message, path=peer, position=position, **details)
