"""Copies of the files that a repair changes: `<name>.broken`."""

from __future__ import annotations

import os
import stat

from commitlog.base.failpoint import failpoint
from commitlog.base.regular_file import opened_regular
from commitlog.base.temporary_file import temporary_file
from commitlog.segment.new_file import put_aside

_CHUNK = 1 << 20


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
        copy = put_aside(self._dir_fd, source, name, ".broken")
        self._kept.add(name)
        self._copies.append(os.path.join(self._path, copy))
