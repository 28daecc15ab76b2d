"""Blocks: how much of a segment the disk has allocated, and how it gets more.

A segment gets all of its blocks when it is created, but for the first one of a log: that is a hole
behind its first blocks, and gets twice as many each time that the appends need more. Claims stay
below the blocks, because in a hole a full disk would turn a store through a mapping into SIGBUS.
"""

from __future__ import annotations

import os

from commitlog._kernel.segments import FRAME_ALIGN
from commitlog.base.path import telling
from commitlog.segment.directory import LogDirectory

# Bytes allocated for a new log's first segment. The log also takes 64 KiB for `cursors` and a few
# pages.
FIRST_BYTES = 2 << 20


def blocks_for(segment_size: int, end: int) -> int:
    """How many bytes of a segment get blocks for claims up to `end`, and for a cell behind them."""
    allocated = FIRST_BYTES
    while allocated < end + FRAME_ALIGN:
        allocated *= 2
    return min(allocated, segment_size)


def make_solid(
    directory: LogDirectory, number: int, stop: int | None = None, *, start: int = 0
) -> None:
    """Give a segment all of its blocks, or those of [start, stop): a copied file may have holes,
    and a full disk would turn an append into one into SIGBUS.
    """
    stop = directory.segment_size if stop is None else stop
    with (
        telling(
            directory.segment_path(number),
            "allocate blocks of the segment in use",
            permission="open with mode 'r', or mount the disk for writing",
        ),
        directory.opened_file(number, os.O_RDWR) as fd,
    ):
        os.posix_fallocate(fd, start, stop - start)


def make_ready(directory: LogDirectory, number: int, offset: int) -> int:
    """Give the segment in which a log goes on at `offset` the blocks for that; return up to where
    it has them. One that had all of its blocks keeps them.
    """
    allocated = size = directory.segment_size
    if directory.disk_bytes(number) < size:
        allocated = blocks_for(size, offset)
    make_solid(directory, number, allocated)
    return allocated
