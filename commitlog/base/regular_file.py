"""Open, read and write regular files, without blocking and with bounded sizes."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator

from commitlog.base.path import path_behind
from commitlog.errors import IOFailureError

_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(
    path: str | os.PathLike[str],
    flags: int = os.O_RDONLY,
    mode: int = 0o666,
    *,
    dir_fd: int | None = None,
    follow: bool = False,
) -> int:
    """Open a regular file and return its descriptor. A FIFO or a device never blocks the call.

    Anything else than a regular file is an `IOFailureError`. So is a symbolic link, unless
    `follow`: a log's own files are never links.
    """
    safe = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:
        fd = os.open(path, flags | safe, mode, dir_fd=dir_fd)
    except OSError as error:
        # The kind of file explains more than ELOOP, EISDIR or ENXIO.
        status = _look(path, dir_fd, follow)
        if status is not None:
            _check(status, path, dir_fd)
        raise error
    try:
        _check(os.fstat(fd), path, dir_fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextlib.contextmanager
def opened_regular(
    path: str | os.PathLike[str],
    flags: int = os.O_RDONLY,
    *,
    dir_fd: int | None = None,
    follow: bool = False,
) -> Iterator[int]:
    """Open a regular file for the length of a `with`: see `open_regular`."""
    fd = open_regular(path, flags, dir_fd=dir_fd, follow=follow)
    try:
        yield fd
    finally:
        os.close(fd)


def read_range(fd: int, size: int, offset: int) -> bytes:
    """Read `size` bytes at an offset, also after short reads; fewer only at the file's end."""
    content = os.pread(fd, size, offset)
    while 0 < len(content) < size:
        piece = os.pread(fd, size - len(content), offset + len(content))
        if not piece:
            break
        content += piece
    return content


def read_at_most(fd: int, limit: int) -> bytes:
    """Read the first `limit` bytes of an open regular file, or all of a shorter one."""
    return read_range(fd, min(limit, os.fstat(fd).st_size), 0)


def read_small_file(
    path: str | os.PathLike[str], limit: int, *, dir_fd: int | None = None, follow: bool = False
) -> bytes:
    """Read a regular file whole; if it has more than `limit` bytes, raise `IOFailureError`."""
    with opened_regular(path, dir_fd=dir_fd, follow=follow) as fd:
        size = os.fstat(fd).st_size
        if size > limit:
            raise IOFailureError(
                f"this file has {size} bytes, and its format allows {limit}: move it away",
                path=_full_path(path, dir_fd),
                errno=errno.EFBIG,
            )
        return read_at_most(fd, limit)


def _look(path: str | os.PathLike[str], dir_fd: int | None, follow: bool) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=dir_fd, follow_symlinks=follow)
    except OSError:
        return None


def _check(status: os.stat_result, path: str | os.PathLike[str], dir_fd: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise IOFailureError(
            f"this is {kind}, and not a regular file: move it away",
            path=_full_path(path, dir_fd),
            errno=errno.EINVAL,
        )


def _full_path(path: str | os.PathLike[str], dir_fd: int | None) -> str:
    name = os.fspath(path)
    if dir_fd is None:
        return name
    return os.path.join(path_behind(dir_fd) or "", name)


def write_whole(fd: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of `data`, also after short writes."""
    view = memoryview(data)
    while view:
        wrote = os.pwrite(fd, view, offset)
        view, offset = view[wrote:], offset + wrote


class Descriptor(int):
    """A file descriptor, closed when the last reference to this object goes.

    A system call of another thread holds its arguments until it returns. The number therefore
    belongs to this file until then, and is never that of a file that was opened meanwhile.
    """

    # The function is bound here: at the interpreter's end the module may be gone before the object.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # The program may have closed every descriptor that it inherited.
        with contextlib.suppress(OSError):
            close(self)
