"""Sockets that any thread may end, and that a forked child does not keep."""

from __future__ import annotations

import contextlib
import socket
import weakref
from io import RawIOBase

from commitlog.base.fork_lock import ForkLock

_known: weakref.WeakSet[socket.socket | RawIOBase] = weakref.WeakSet()


def _close_all() -> None:
    for connection in list(_known):
        connection.close()


# Held while a socket is ended or closed: its descriptor may be another file's after that.
_lock = ForkLock(_close_all)


def close_in_child(connection: socket.socket | RawIOBase) -> None:
    """Close a socket or a pipe in a child process that is forked, where it would stay open."""
    with _lock:
        _known.add(connection)


def end(connection: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    """End a connection, also for threads that wait for it; from any thread, also twice."""
    with _lock, contextlib.suppress(OSError):
        connection.shutdown(how)


def close(connection: socket.socket) -> None:
    """Release a socket that no other thread sends to or receives from."""
    with _lock:
        connection.close()
