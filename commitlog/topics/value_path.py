"""The value that stands at a path of a message, for an error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from commitlog import Record
from commitlog.errors import CommitLogError
from commitlog.topics.codec import Decode
from commitlog.topics.layer import RecordDecoder

_SHOWN = 200  # characters


def value_at(
    plain: Callable[[], Decode[Any] | RecordDecoder[Any]], record: Record, path: str
) -> str | None:
    """Return the value at a path such as ``$.lines[...].amount``, as far as it leads; None if the
    message has no plain form.

    Parameters
    ----------
    plain : callable
        Returns what decodes messages to dicts and lists.
    record : Record
        That of the message.
    path : str
    """
    try:
        decode = plain()
        found = (
            decode.of_record(record) if isinstance(decode, RecordDecoder) else decode(record.value)
        )
    except (ValueError, RecursionError, CommitLogError):
        return None
    for name in re.findall(r"[^.\[\]]+", path.removeprefix("$")):
        if not isinstance(found, dict) or name not in found:
            break
        found = found[name]
    text = repr(found)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
