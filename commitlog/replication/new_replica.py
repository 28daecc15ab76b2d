"""The directory of a new copy, and the segments that a copy gets."""

from __future__ import annotations

import os

from commitlog._kernel.segments import HEADER_SIZE, check_header
from commitlog.base.failpoint import failpoint
from commitlog.base.path import make_directory, open_directory
from commitlog.errors import ReplicationError
from commitlog.log.opened import refuse_foreign
from commitlog.recovery import lineage
from commitlog.recovery.lineage import Lineage
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory, segment_name
from commitlog.segment.identity import Identity
from commitlog.segment.new_file import put_new_file


def read_replica(path: str) -> tuple[Identity, Lineage] | None:
    """Return what is known of the log in a directory; None if there is no log."""
    try:
        identity = identities.read_path(path)
    except FileNotFoundError:
        return None
    if identity is None:
        return None
    directory = LogDirectory(path, identity)
    try:
        return identity, lineage.read(directory)
    finally:
        directory.close()


def holds_copy(path: str) -> bool:
    """Return whether a directory holds a copy of another log, with at least one segment."""
    known = read_replica(path)
    return (
        known is not None
        and known[1].follows is not None
        and any(name.endswith(".seg") for name in os.listdir(path))
    )


def create_replica(path: str, identity: Identity, of: Lineage) -> None:
    """Create the directory of a new copy: it is marked as a follower before it is a log."""
    try:
        fd = open_directory(path)
    except FileNotFoundError:
        make_directory(path)
        fd = open_directory(path)
    try:
        directory = LogDirectory(path, identity)
        try:
            if lineage.NAME not in directory.names():  # else an earlier try was killed here
                refuse_foreign(fd, path)
            lineage.write(directory, of)
        finally:
            directory.close()
        failpoint("lineage written")
        identities.write(fd, identity)
        failpoint("identity written")
    finally:
        os.close(fd)


def begin_replica(path: str, identity: Identity, number: int, page: bytes) -> None:
    """Put the first segment into a copy that has none."""
    directory = LogDirectory(path, identity)
    try:
        if not directory.segment_numbers():
            check_page(directory, number, page)
            place_segment(directory, number, page)
    finally:
        directory.close()


def check_page(directory: LogDirectory, number: int, page: bytes) -> None:
    """Refuse a header page that is not that segment's."""
    base, size = number * directory.segment_size, directory.segment_size
    if (
        len(page) != HEADER_SIZE
        or base >= 1 << 63
        or check_header(page, directory.log_uuid, base, size) != 0
    ):
        raise ReplicationError("the primary sent a damaged header", path=directory.path)


def place_segment(directory: LogDirectory, number: int, page: bytes) -> None:
    """Put a segment in place durably, with all of its blocks."""
    size = directory.segment_size
    with directory.translate_errors(f"create a segment of {size} bytes"):
        put_new_file(directory.fd, segment_name(number * size), page, size)
    directory.sync()
    failpoint("segment placed")
