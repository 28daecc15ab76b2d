"""New files of a log: each is whole and durable before it gets its name."""

from __future__ import annotations

import os
from collections.abc import Iterator

from commitlog._kernel.segments import rename_noreplace
from commitlog.base.failpoint import failpoint
from commitlog.base.regular_file import write_whole
from commitlog.base.temporary_file import put_in_place, temporary_file
from commitlog.errors import IOFailureError

_COPIES_LIMIT = 10_000  # of one file; only a fault elsewhere reaches this bound


def copy_names(name: str, suffix: str) -> Iterator[str]:
    """Yield the names that a copy of a file may have, in the order in which they are taken."""
    yield f"{name}{suffix}"
    for count in range(1, _COPIES_LIMIT):
        yield f"{name}{suffix}.{count}"


def put_aside(dir_fd: int, source: str, name: str, suffix: str) -> str:
    """Rename a file durably to the first free copy name of another; return that name."""
    for copy in copy_names(name, suffix):
        if rename_noreplace(dir_fd, source, copy):
            os.fsync(dir_fd)
            return copy
    raise IOFailureError(
        f"there are {_COPIES_LIMIT} copies of this file ({suffix}): move some of them away",
        path=os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), name),
    )


def put_new_file(
    dir_fd: int, name: str, content: bytes, size: int = 0, *, allocated: int | None = None
) -> bool:
    """Put a new file in place; return False if there is one of that name already. Its name is
    durable with the directory's next sync.

    The file gets `size` bytes if that is more than its content. `allocated` of them get blocks;
    None: all. In a hole, a full disk would turn a store through a mapping into SIGBUS.
    """
    with temporary_file(dir_fd, name) as (fd, temporary):
        failpoint("created")
        allocated = size if allocated is None else allocated
        if allocated:
            os.posix_fallocate(fd, 0, allocated)
        if allocated < size:
            os.ftruncate(fd, size)
        failpoint("allocated")
        write_whole(fd, content, 0)
        failpoint("written")
        os.fsync(fd)
        failpoint("synced")
        placed = put_in_place(dir_fd, temporary, name)
        failpoint("renamed")
    return placed
