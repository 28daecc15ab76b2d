"""The error classes: one root, a matching builtin base for each leaf, and pickling that loses no
attribute.
"""

from __future__ import annotations

import copy
import errno
import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest

from commitlog import errors
from commitlog.errors import CommitLogError

BUILTINS: dict[str, type[Exception]] = {
    "ClaimError": RuntimeError,
    "CloseTimeoutError": TimeoutError,
    "ClosedError": ValueError,
    "ConflictError": RuntimeError,
    "CorruptQueueError": ValueError,
    "CorruptRecordError": ValueError,
    "CorruptSegmentError": ValueError,
    "CorruptTailerError": ValueError,
    "DiskFullError": OSError,
    "FencedError": RuntimeError,
    "ForkedError": RuntimeError,
    "IOFailureError": OSError,
    "InvalidOptionError": ValueError,
    "JobFinishedError": RuntimeError,
    "KeyUnavailableError": LookupError,
    "LeaseLostError": RuntimeError,
    "LogExistsError": FileExistsError,
    "LogFailedError": OSError,
    "LogLockedError": BlockingIOError,
    "LogNotFoundError": FileNotFoundError,
    "MessageError": TypeError,
    "MessageValueError": ValueError,
    "MissingExtraError": ModuleNotFoundError,
    "NoJobError": TimeoutError,
    "NotALogError": ValueError,
    "OpenTimeoutError": TimeoutError,
    "OutboxError": RuntimeError,
    "PoolBufferError": ValueError,
    "PoolExhaustedError": TimeoutError,
    "PoolMemoryError": MemoryError,
    "PositionError": LookupError,
    "InUseError": RuntimeError,
    "ProducerSequenceError": ValueError,
    "QueueNotFoundError": LookupError,
    "ReadOnlyError": PermissionError,
    "RecordTooLargeError": ValueError,
    "RecordTypeError": TypeError,
    "MirrorError": ConnectionError,
    "ReplicationError": ConnectionError,
    "RolledBackError": RuntimeError,
    "SchemaError": ValueError,
    "SegmentHeldError": TimeoutError,
    "SequenceError": LookupError,
    "SyncTimeoutError": TimeoutError,
    "TopicNotFoundError": LookupError,
    "UndecodableError": ValueError,
    "TailerLagError": TimeoutError,
    "TailerNotFoundError": LookupError,
    "UnsupportedError": OSError,
    "UnsupportedVersionError": ValueError,
}
EXTRAS: dict[str, dict[str, Any]] = {
    "ConflictError": {"expected": 3, "actual": 4},
    "CorruptRecordError": {"resume_position": 8192},
    "KeyUnavailableError": {"key_id": "2026-05"},
    "LogFailedError": {"errno": errno.ENODEV},
    "LogLockedError": {"holder": "process 17 (writer)"},
    "MissingExtraError": {"name": "msgspec", "extra": "topics"},
    "PoolMemoryError": {"wanted": 5 << 30, "available": 1 << 30},
    "PositionError": {"first_position": 65536},
    "RecordTooLargeError": {"size": 9000, "limit": 8192},
    "SchemaError": {"topic": "Order", "field": "$.amount"},
    "SegmentHeldError": {"holders": [("tailer of process 17", 1_700_000_000.25)]},
}
ERRNOS = {
    "CloseTimeoutError": errno.ETIMEDOUT,
    "DiskFullError": errno.ENOSPC,
    "IOFailureError": errno.EIO,
    "LogExistsError": errno.EEXIST,
    "LogFailedError": errno.EIO,
    "LogLockedError": errno.EAGAIN,
    "LogNotFoundError": errno.ENOENT,
    "NoJobError": errno.ETIMEDOUT,
    "OpenTimeoutError": errno.ETIMEDOUT,
    "PoolExhaustedError": errno.ETIMEDOUT,
    "ReadOnlyError": errno.EACCES,
    "MirrorError": errno.ECONNREFUSED,
    "ReplicationError": errno.ECONNREFUSED,
    "SegmentHeldError": errno.EBUSY,
    "SyncTimeoutError": errno.ETIMEDOUT,
    "TailerLagError": errno.ETIMEDOUT,
    "UnsupportedError": errno.EOPNOTSUPP,
}


def leaf(name: str) -> Any:
    return getattr(errors, name)


def test_table_of_leaves_is_complete() -> None:
    public = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, CommitLogError) and not name.startswith("_")
    }
    assert public == {*BUILTINS, "CommitLogError"}
    system = {name for name in BUILTINS if issubclass(leaf(name), OSError)}
    assert system == set(ERRNOS)


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_leaf_is_a_commitlog_error_and_its_builtin(name: str) -> None:
    error = leaf(name)("it went wrong")
    assert isinstance(error, CommitLogError)
    assert isinstance(error, BUILTINS[name])
    with pytest.raises(BUILTINS[name], match="it went wrong"):
        raise error


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_leaf_has_a_docstring(name: str) -> None:
    documentation = leaf(name).__dict__["__doc__"]
    assert documentation
    assert len(documentation) > 60


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_str_shows_message_path_and_position(name: str) -> None:
    assert str(leaf(name)("it went wrong")).startswith("it went wrong")
    assert "(" not in str(leaf(name)("it went wrong")).replace("flush()", "")
    assert "(path /logs/a)" in str(leaf(name)("it went wrong", path="/logs/a"))
    assert "(position 0)" in str(leaf(name)("it went wrong", position=0))
    error = leaf(name)("it went wrong", path=Path("/logs/a"), position=4096)
    assert str(error).startswith("it went wrong (path /logs/a, position 4096)")
    assert (error.message, error.path, error.position) == ("it went wrong", "/logs/a", 4096)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_pickling_keeps_every_attribute(name: str, protocol: int) -> None:
    error = leaf(name)("it went wrong", path="/logs/a", position=4096, **EXTRAS.get(name, {}))
    error.add_note("while the disk was full")
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.args == error.args
    assert again.__dict__ == error.__dict__
    assert again.__notes__ == ["while the disk was full"]
    for attribute, value in EXTRAS.get(name, {}).items():
        assert getattr(again, attribute) == value
    if isinstance(error, OSError):
        assert (again.errno, again.strerror, again.filename) == (
            error.errno,
            error.strerror,
            error.filename,
        )


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_copying_keeps_every_attribute(name: str) -> None:
    error = leaf(name)("it went wrong", path="/logs/a", position=4096, **EXTRAS.get(name, {}))
    for again in (copy.copy(error), copy.deepcopy(error)):
        assert str(again) == str(error)
        assert again.__dict__ == error.__dict__


@pytest.mark.parametrize("name", sorted(ERRNOS))
def test_os_error_has_errno_strerror_and_filename(name: str) -> None:
    error = leaf(name)("it went wrong", path=Path("/logs/a"))
    assert isinstance(error, OSError)
    assert (error.errno, error.strerror, error.filename) == (
        ERRNOS[name],
        "it went wrong",
        "/logs/a",
    )
    cause = leaf(name)("it went wrong", errno=errno.EROFS)
    assert isinstance(cause, OSError)
    assert (cause.errno, cause.filename) == (errno.EROFS, None)


@pytest.mark.parametrize("name", sorted(EXTRAS))
def test_extra_attributes_are_optional(name: str) -> None:
    error = leaf(name)("it went wrong")
    for attribute in EXTRAS[name]:
        assert hasattr(error, attribute)


def test_unknown_attribute_raises_type_error() -> None:
    with pytest.raises(TypeError, match="PositionError has no attribute 'size'"):
        errors.PositionError("it went wrong", size=9)


def test_sync_timeout_message_gives_position_of_the_record() -> None:
    text = str(errors.SyncTimeoutError("not durable within 5 s", path="/logs/a", position=4096))
    assert "stays in the log at position 4096" in text
    assert "may yet become durable" in text
    assert "flush()" in text


def test_subclass_with_own_constructor_can_be_pickled() -> None:
    again = pickle.loads(pickle.dumps(OwnError(7)))
    assert isinstance(again, OwnError)
    assert (again.number, str(again)) == (7, "number 7 (position 7)")


class OwnError(errors.PositionError):
    def __init__(self, number: int) -> None:
        super().__init__(f"number {number}", position=number)
        self.number = number
