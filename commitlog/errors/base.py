"""The base classes of commitlog's exceptions."""

from __future__ import annotations

import errno as codes
import os
from typing import Any

from commitlog.errors.printable import printable

# OSError and ImportError keep these outside `__dict__`, where pickling would miss them.
_SYSTEM_ATTRIBUTES = ("errno", "strerror", "filename")
_IMPORT_ATTRIBUTES = ("name", "path")

_Path = str | os.PathLike[str] | None


class CommitLogError(Exception):
    """Base class of all commitlog errors; never raised itself.

    Parameters
    ----------
    message : str
        What failed and what to do about it.
    path : str or os.PathLike, optional
        The log, segment or other file concerned.
    position : int, optional
        The position in the log concerned, in bytes.
    **details
        The attributes that the subclass declares.
    """

    # Tracebacks, pickles and the documentation name the public module.
    __module__ = "commitlog.errors"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith("commitlog.errors."):
            cls.__module__ = "commitlog.errors"

    def __init__(
        self, message: str, *, path: _Path = None, position: int | None = None, **details: object
    ) -> None:
        super().__init__(message)
        self.path = None if path is None else os.fspath(path)
        self.position = position
        for name, value in details.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no attribute {name!r}")
            setattr(self, name, value)

    @property
    def message(self) -> str:
        """Return the message without path and position."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        """Return message, path and position for a terminal or a log: the text may be of a peer."""
        where = []
        if self.path is not None:
            where.append(f"path {self.path}")
        if self.position is not None:
            where.append(f"position {self.position}")
        return printable(f"{self.message} ({', '.join(where)})" if where else self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        if isinstance(self, OSError):
            state |= {name: getattr(self, name) for name in _SYSTEM_ATTRIBUTES}
        if isinstance(self, ImportError):
            state |= {name: getattr(self, name) for name in _IMPORT_ATTRIBUTES}
        return _restored, (type(self), self.args, state)


def _restored(
    cls: type[CommitLogError], args: tuple[Any, ...], state: dict[str, Any]
) -> CommitLogError:
    """Rebuild an unpickled error attribute by attribute, without calling its constructor."""
    # CPython rejects `MemoryError.__new__` for a class whose first base is another exception.
    maker: Any = Exception
    if issubclass(cls, OSError):
        maker = OSError
    elif issubclass(cls, ImportError):
        maker = ImportError
    error: CommitLogError = maker.__new__(cls)
    error.args = args
    for name, value in state.items():
        setattr(error, name, value)
    return error


class SystemCallError(CommitLogError, OSError):
    """Set `errno`, `strerror` and `filename` for the errors that are an `OSError`.

    A subclass declares the `errno` of errors that give none.
    """

    _default_errno = codes.EIO

    def __init_subclass__(cls, errno: int | None = None) -> None:
        super().__init_subclass__()
        if errno is not None:
            cls._default_errno = errno

    def __init__(
        self,
        message: str,
        *,
        path: _Path = None,
        position: int | None = None,
        errno: int | None = None,
        **details: object,
    ) -> None:
        super().__init__(message, path=path, position=position, **details)
        self.errno = self._default_errno if errno is None else errno
        self.strerror = message
        self.filename = self.path
