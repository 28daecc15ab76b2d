"""The line of `commitlog info` that says which log it is."""

from __future__ import annotations

import time
import uuid

from commitlog._kernel.segment_file import FORMAT as _FORMAT

FORMAT = ".".join(map(str, _FORMAT))


def uuid_text(log_uuid: bytes) -> str:
    """A log's uuid as it is written."""
    return str(uuid.UUID(bytes=log_uuid))


def identity_line(uuid: str, created_ns: int) -> str:
    """For people: whose it is, in which format, since when."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created_ns // 10**9))
    return f"  uuid       {uuid}, format {FORMAT}, created {created}"
