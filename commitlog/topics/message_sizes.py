"""The sizes of messages and of their frames, and the check of their limit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from commitlog import CommitLog
from commitlog.errors import RecordTooLargeError, RecordTypeError
from commitlog.topics.compiled.messages import lengths_of
from commitlog.topics.schema import Schema

# More than a frame has beside key and value: its header and its padding, and a closing cell.
FRAME_MOST = 48


def frames_length(values: list[bytes], keys: list[Any]) -> int:
    """Return at least how many bytes the frames take."""
    try:
        return lengths_of(values)[0] + lengths_of(keys)[0] + len(values) * FRAME_MOST
    except TypeError:
        raise not_bytes(keys) from None


def check_sizes(
    log: CommitLog,
    schema: Schema,
    values: list[bytes],
    keys: list[Any] | None,
    *,
    when: str = "",
    headers: list[int] | None = None,
) -> None:
    """Refuse messages that exceed the largest record; `when` names in the error what is counted.
    `headers` are the bytes that the headers of each message take.
    """
    limit = log.largest_value - 8
    try:
        longest = lengths_of(values)[1] + lengths_of(keys or ())[1]
    except TypeError:
        raise not_bytes(keys or ()) from None
    if longest + max(headers or (0,)) <= limit:
        return
    for value, key, before in zip(
        values, keys or itertools.repeat(None), headers or itertools.repeat(0), strict=False
    ):
        size = len(value) + len(key or b"") + before
        if size > limit:
            raise RecordTooLargeError(
                f"a message of topic {schema.topic!r} has {size} bytes with its key"
                f"{' and headers' if before else ''}{when}, and a "
                f"record of this log has room for {limit}: split it, or create the log with a "
                "larger segment_size",
                path=log.path,
                size=size,
                limit=limit,
            )


def not_bytes(keys: Sequence[object]) -> RecordTypeError:
    """Return the error for the first key that is not bytes."""
    allowed = bytes | bytearray | memoryview | None
    wrong = next((key for key in keys if not isinstance(key, allowed)), keys[0])
    return RecordTypeError(
        f"the key must be bytes, not {type(wrong).__name__}: encode it first, for instance with "
        ".encode()"
    )
