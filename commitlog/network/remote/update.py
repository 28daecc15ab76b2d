"""Update: one message of a stream from a server of logs to a reader."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

from commitlog import errors
from commitlog.errors import CommitLogError, ReplicationError
from commitlog.errors.printable import printable
from commitlog.network.remote import wire

UPDATE_BYTES = 1 << 20
_HEAD = struct.Struct("<B4q")  # kind, position, first, committed, flushed
_UPDATE = 1  # kind; the head of another message is JSON, which begins with a brace
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
    may show what is below `committed`.
    """

    position: int
    first: int
    committed: int
    flushed: int
    content: bytes | memoryview = b""


def head_of(update: Update) -> bytes:
    """Return the head of the message that carries an update, whose content is its body."""
    return _HEAD.pack(_UPDATE, update.position, update.first, update.committed, update.flushed)


def update_of(head: bytes, content: memoryview, peer: str) -> Update | None:
    """Return the update of a message; None for the last message. Raise the error that the server
    reports.
    """
    if head[:1] == b"{":
        answer = wire.answer_of(head, peer)
        if "error" in answer:
            raise error_of(str(answer["error"]), peer)
        return None
    if len(head) != _HEAD.size or head[0] != _UPDATE:
        raise ReplicationError(
            f"{peer} sent something other than an update of a log: is it `commitlog serve`?"
        )
    _, position, first, committed, flushed = _HEAD.unpack(head)
    if min(position, first, committed, flushed) < 0:
        raise ReplicationError(f"{peer} sent a negative position")
    return Update(position, first, committed, flushed, content)


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
        name, message = str(content["error"]), printable(str(content["message"])[:_TEXT_LIMIT])
        position, first = content["position"], content["first_position"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ReplicationError(f"{peer} sent an error that cannot be read")
    position, first = (
        one if type(one) is int and 0 <= one < 1 << 63 else None for one in (position, first)
    )
    kind: type[CommitLogError] = getattr(errors, name) if name in _TOLD else ReplicationError
    details = {"first_position": first} if kind is errors.PositionError else {}
    return kind(message, path=peer, position=position, **details)
