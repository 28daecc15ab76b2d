"""Blocks: how much of a segment the disk has allocated, and how it gets more.

A segment gets all of its blocks when it is created, but for the first one of a log: that is a hole
behind its first blocks, and gets twice as many each time that the appends need more. Claims stay
below the blocks, because in a hole a full disk would turn a store through a mapping into SIGBUS.
"""

from __future__ import annotations

import errno
import os

from commitlog._kernel.segments import FRAME_ALIGN
from commitlog.base.failpoint import failpoint
from commitlog.base.path import telling
from commitlog.base.regular_file import opened_regular
from commitlog.errors import DiskFullError, IOFailureError
from commitlog.segment.directory import LogDirectory, segment_name

# Bytes allocated for a new log's first segment. The log also takes 64 KiB for `cursors` and a few
# pages.
FIRST_BYTES = 2 << 20


def blocks_for(segment_size: int, end: int) -> int:
    """How many bytes of a segment get blocks for claims that reach to `end`: one cell more, which
    may close it.
    """
    allocated = FIRST_BYTES
    while allocated < end + FRAME_ALIGN:
        allocated *= 2
    return min(allocated, segment_size)


def make_solid(directory: LogDirectory, number: int, stop: int | None = None) -> None:
    """Give a segment all of its blocks, or those below `stop`: a copied file may have holes, and a
    full disk would turn an append into one into SIGBUS.

    Raises
    ------
    DiskFullError, ReadOnlyError, IOFailureError
        There is no room for them, or the system refused otherwise.
    """
    name = segment_name(number * directory.segment_size)
    with (
        telling(
            directory.segment_path(number),
            "allocate all blocks of the segment in use",
            permission="open with mode 'r', or mount the disk for writing",
        ),
        opened_regular(name, os.O_RDWR, dir_fd=directory.fd) as fd,
    ):
        os.posix_fallocate(fd, 0, directory.segment_size if stop is None else stop)


def make_ready(directory: LogDirectory, number: int, offset: int) -> int:
    """Give the segment in which a log goes on at `offset` the blocks for that; return up to where
    it has them. One that had all of its blocks keeps them.

    Raises
    ------
    DiskFullError, ReadOnlyError, IOFailureError
        As of `make_solid`.
    """
    allocated = size = directory.segment_size
    if directory.disk_bytes(number) < size:
        allocated = blocks_for(size, offset)
    make_solid(directory, number, allocated)
    return allocated


def grow(directory: LogDirectory, number: int, start: int, stop: int) -> None:
    """Allocate the blocks of [start, stop) of a segment in use, in which nothing is claimed yet.

    Raises
    ------
    DiskFullError, IOFailureError
        There is no room for them, or the system refused. Nothing has changed.
    """
    path = directory.segment_path(number)
    try:
        with opened_regular(
            segment_name(number * directory.segment_size), os.O_RDWR, dir_fd=directory.fd
        ) as fd:
            os.posix_fallocate(fd, start, stop - start)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(
                f"no room for {stop - start} more bytes of the segment in use: free space and "
                "append again",
                path=path,
                errno=error.errno,
            ) from error
        raise IOFailureError(
            f"cannot allocate more blocks for the current segment: {error.strerror}",
            path=path,
            errno=error.errno,
        ) from error
    failpoint("segment grown")
