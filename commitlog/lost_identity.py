"""What a log is, found again in its segments when `log.json` is lost."""

from __future__ import annotations

import os
import re
from collections import Counter

from commitlog._kernel import segment_file as kernel
from commitlog.shared.identity import Identity

_NAME = re.compile(r"^([0-9]{20})\.seg$")


def segment_files(dir_fd: int) -> dict[str, int]:
    """The segment files of a directory: name and the base position that it says, ascending."""
    found = {name: int(match[1]) for name in os.listdir(dir_fd) if (match := _NAME.match(name))}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def read_page(dir_fd: int, name: str) -> bytes:
    """A file's first page, filled up with zeros where it is shorter."""
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=dir_fd)
    try:
        return os.pread(fd, kernel.HEADER_SIZE, 0).ljust(kernel.HEADER_SIZE, b"\0")
    finally:
        os.close(fd)


def deduce(dir_fd: int) -> Identity | None:
    """The identity that most sound segment headers agree on, or None where there is no such header.

    The clock that the appenders read and the roll cycle stand in `log.json` alone: the log goes on with coarse timestamps and no cycle.
    """
    votes: Counter[tuple[bytes, int]] = Counter()
    created_ns: dict[tuple[bytes, int], int] = {}
    for name, base in segment_files(dir_fd).items():
        page = read_page(dir_fd, name)
        uuid, _, _, size, created = kernel.header_fields(page)
        if not kernel.SMALLEST <= size <= kernel.LARGEST or base % size or kernel.check_header(page, uuid, base, size) != 0:
            continue
        votes[uuid, size] += 1
        created_ns[uuid, size] = min(created, created_ns.get((uuid, size), created))
    if not votes:
        return None
    uuid, size = votes.most_common(1)[0][0]
    return Identity(uuid=uuid, segment_size=size, timestamps="coarse", created_ns=max(created_ns[uuid, size], 0))
