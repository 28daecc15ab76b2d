"""What a program puts into an outbox, as a row of the table."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from commitlog.base.units import whole_of
from commitlog.errors import MessageValueError, RecordTypeError
from commitlog.extension import LogView

_TYPE_MOST = (1 << 32) - 1


def row_of(
    value: bytes,
    key: bytes | None,
    type: int,
    headers: Mapping[str, bytes] | None,
    topic: str | None,
) -> dict[str, Any]:
    """Check what is put, and return its columns."""
    number = whole_of(type)
    if number is None or not 0 <= number <= _TYPE_MOST:
        raise RecordTypeError(f"the type of a record must be from 0 to {_TYPE_MOST}, not {type!r}")
    if topic is not None and not isinstance(topic, str):
        raise RecordTypeError(f"topic must be the name of a topic, a str, not {topic!r}")
    return {
        "value": _checked("value", value),
        "key": None if key is None else _checked("key", key),
        "headers": None if not headers else packed_headers(headers),
        "type": number,
        "topic": topic,
        "put_ns": time.time_ns(),
    }


def _checked(what: str, given: object) -> bytes:
    if not isinstance(given, (bytes, bytearray, memoryview)):
        raise RecordTypeError(
            f"the {what} of a record must be bytes, not {type(given).__name__}: encode it"
        )
    return bytes(given)


def packed_headers(headers: Mapping[str, bytes]) -> str:
    """Check headers, and return them as a JSON object of text; bytes that are not UTF-8 become lone
    surrogates.
    """
    LogView.headers_length(headers)
    return json.dumps(
        {
            name: _checked(f"header {name!r}", value).decode(errors="surrogateescape")
            for name, value in headers.items()
        }
    )


def unpacked_headers(text: str | None) -> dict[str, bytes]:
    """Return what `packed_headers` packed. Other programs may have written anything."""
    try:
        found = json.loads(text or "{}")
        return {name: value.encode(errors="surrogateescape") for name, value in found.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise MessageValueError(f"headers are not a JSON object of text: {error}") from error
