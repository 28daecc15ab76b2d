"""Write files under a temporary name, to be renamed once they are whole."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from commitlog._kernel.segments import rename_noreplace

_TEMPORARY = re.compile(r"^\..+\.[0-9a-f]{16}\.tmp$")


def sweep(dir_fd: int) -> None:
    """Remove the temporary files in a directory, but no directory of such a name."""
    for name in os.listdir(dir_fd):
        if _TEMPORARY.match(name):
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(name, dir_fd=dir_fd)


@contextlib.contextmanager
def temporary_file(dir_fd: int, name: str, mode: int = 0o666) -> Iterator[tuple[int, str]]:
    """Create a file for the block to write and to rename; remove it if the block raises.

    Yield the descriptor, which is closed after the block, and the temporary name, which begins with
    a dot and ends in ``.tmp``.
    """
    temporary = f".{name}.{os.urandom(8).hex()}.tmp"
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=dir_fd)
    try:
        yield fd, temporary
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
        raise
    finally:
        os.close(fd)


def put_in_place(dir_fd: int, temporary: str, name: str) -> bool:
    """Give a temporary file its name; if there is a file of that name, remove the temporary one and
    return False.
    """
    placed: bool = rename_noreplace(dir_fd, temporary, name)
    if not placed:
        with contextlib.suppress(OSError):  # `sweep` removes it
            os.unlink(temporary, dir_fd=dir_fd)
    return placed
