"""The `checkpoint` file: up to where the log is durable, and whether it was closed cleanly."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from commitlog._kernel.memory import CHECKPOINT_SIZE, read_checkpoint, write_checkpoint
from commitlog.base.regular_file import open_regular, opened_regular, read_range

NAME = "checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """The record in force, the `count`-th that was written.

    Everything below `position` is durable. It may be lower than what is durable, and never higher.
    `clean`: the last handle closed the log, and `position` is the log's end.
    """

    position: int
    clean: bool
    count: int


def read(dir_fd: int, log_uuid: bytes) -> Checkpoint | None:
    """Read the checkpoint in force; None if the log has none."""
    with contextlib.suppress(FileNotFoundError), opened_regular(NAME, dir_fd=dir_fd) as fd:
        return read_open(fd, log_uuid)
    return None


def read_open(fd: int, log_uuid: bytes) -> Checkpoint | None:
    """Read it from an open file, so that closing a log needs no new descriptor."""
    found = read_checkpoint(read_range(fd, CHECKPOINT_SIZE, 0), log_uuid)
    return None if found is None else Checkpoint(position=found[0], clean=found[1], count=found[2])


def open_for_writing(dir_fd: int) -> int:
    """Open the file; create it at its full size if it is missing."""
    fd = open_regular(NAME, os.O_RDWR | os.O_CREAT, dir_fd=dir_fd)
    try:
        if os.fstat(fd).st_size < CHECKPOINT_SIZE:
            os.posix_fallocate(fd, 0, CHECKPOINT_SIZE)
            os.fsync(fd)
            os.fsync(dir_fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def write(dir_fd: int, log_uuid: bytes, position: int, *, clean: bool) -> None:
    """Write the next record durably, for a log that no handle has open."""
    found = read(dir_fd, log_uuid)
    fd = open_for_writing(dir_fd)
    try:
        write_checkpoint(fd, log_uuid, 0 if found is None else found.count, position, clean)
    finally:
        os.close(fd)
