"""Copies of the files that a repair changes: `<name>.broken`."""

from __future__ import annotations

import os
import stat

from commitlog._kernel import segments as kernel
from commitlog.base.failpoint import failpoint
from commitlog.base.regular_file import opened_regular
from commitlog.base.temporary_file import temporary_file
from commitlog.errors import IOFailureError

_CHUNK = 1 << 20
_COPIES_LIMIT = 10_000


class KeptFiles:
    """Keep the files of a log's directory as they were before a repair, and list the copies."""

    def __init__(self, dir_fd: int, path: str, copies: list[str]) -> None:
        self._dir_fd = dir_fd
        self._path = path
        self._copies = copies
        self._kept: set[str] = set()

    def copy(self, name: str, size: int) -> bool:
        """Copy a file, at most `size` bytes of it, durably; return False if it was kept before."""
        if name in self._kept:
            return False
        with opened_regular(name, dir_fd=self._dir_fd) as source:
            mode = stat.S_IMODE(os.fstat(source).st_mode)
            with temporary_file(self._dir_fd, name, mode) as (target, temporary):
                left = size
                while left and (copied := os.sendfile(target, source, None, min(_CHUNK, left))):
                    left -= copied
                os.fsync(target)
                self._keep(name, temporary)
        failpoint("copied")
        return True

    def move_away(self, name: str) -> None:
        """Rename a file to the name of a copy, which neither readers nor writers use."""
        self._keep(name, name)
        failpoint("moved away")

    def _keep(self, name: str, source: str) -> None:
        while not kernel.rename_noreplace(self._dir_fd, source, copy := self._free_name(name)):
            continue  # another process took the name; `_free_name` bounds the search
        os.fsync(self._dir_fd)
        self._kept.add(name)
        self._copies.append(os.path.join(self._path, copy))

    def _free_name(self, name: str) -> str:
        for count in range(_COPIES_LIMIT):
            copy = f"{name}.broken" + (f".{count}" if count else "")
            if not os.path.lexists(os.path.join(self._path, copy)):
                return copy
        raise IOFailureError(
            f"there are {_COPIES_LIMIT} copies of this file (.broken): move some of them away",
            path=os.path.join(self._path, name),
        )
