"""What `commitlog info` says first: which log it is."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

from commitlog._kernel.segments import FORMAT as _FORMAT
from commitlog.segment.directory import Kind, LogDirectory
from commitlog.segment.identity import Identity

FORMAT = ".".join(map(str, _FORMAT))


def uuid_text(log_uuid: bytes) -> str:
    """A log's uuid as it is written."""
    return str(uuid.UUID(bytes=log_uuid))


def identity_line(uuid: str, created_ns: int) -> str:
    """For people: whose it is, in which format, since when."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created_ns // 10**9))
    return f"  uuid       {uuid}, format {FORMAT}, created {created}"


@dataclass
class IdentityInfo:
    """What is printed first of a log and of an archive, in this order."""

    kind: Kind
    path: str
    uuid: str
    format: str
    segment_size: int
    timestamps: str
    roll_cycle: str | None
    created_ns: int


def identity_fields(directory: LogDirectory, identity: Identity) -> dict[str, Any]:
    """The fields of `IdentityInfo`."""
    return {
        "kind": directory.kind,
        "path": directory.path,
        "uuid": uuid_text(identity.uuid),
        "format": FORMAT,
        "segment_size": identity.segment_size,
        "timestamps": identity.timestamps,
        "roll_cycle": None if identity.roll_cycle is None else str(identity.roll_cycle),
        "created_ns": identity.created_ns,
    }
