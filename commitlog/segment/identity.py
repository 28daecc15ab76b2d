"""`log.json`: the identity of a log, written once when it is created."""

from __future__ import annotations

import json
import os
import time
import uuid as uuids
from dataclasses import dataclass
from typing import BinaryIO, ClassVar

from commitlog._kernel import segments as kernel
from commitlog.base.path import opened_directory
from commitlog.base.regular_file import read_small_file
from commitlog.base.roll_cycle import RollCycle, stored_cycle
from commitlog.errors import (
    IOFailureError,
    NotALogError,
    ReadOnlyError,
    UnsupportedVersionError,
)
from commitlog.segment.new_file import put_new_file

NAME = "log.json"
SIZE_LIMIT = 1 << 16  # bytes; the file takes a few hundred


@dataclass(frozen=True)
class Identity:
    """What is fixed for the life of a log."""

    uuid: bytes
    segment_size: int
    timestamps: str
    created_ns: int
    roll_cycle: RollCycle | None = None

    FILE_NAME: ClassVar[str] = NAME
    FORMAT: ClassVar[tuple[int, int]] = kernel.FORMAT  # that this release writes

    @classmethod
    def read_from(cls, file: BinaryIO, place: str) -> Identity:
        """Read the identity from an open `log.json`, of a log or of its archive.

        Raises
        ------
        NotALogError
            The file is damaged. `place` names it in the message.
        UnsupportedVersionError
            A newer release wrote it.
        """
        return cls.parse(bytes(file.read(SIZE_LIMIT)), place)

    @classmethod
    def new(
        cls, segment_size: int, timestamps: str, roll_cycle: RollCycle | None = None
    ) -> Identity:
        return cls(uuids.uuid4().bytes, segment_size, timestamps, time.time_ns(), roll_cycle)

    @classmethod
    def parse(cls, text: bytes | str, path: str) -> Identity:
        """Read the content of a `log.json`; refuse what is none, and what a newer format wrote."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _refuse(path, f"is not JSON ({error})") from None
        if not isinstance(content, dict) or not isinstance(content.get("format"), dict):
            raise _refuse(path, "has no 'format'")
        major = _whole_number(content["format"], "major", path)
        if major > kernel.FORMAT[0]:
            raise UnsupportedVersionError(
                f"the log has format {major}, this release reads up to {kernel.FORMAT[0]}: use a "
                "newer commitlog",
                path=path,
            )
        try:
            uuid = uuids.UUID(str(content.get("uuid"))).bytes
        except ValueError:
            raise _refuse(path, "has no usable 'uuid'") from None
        segment_size = _whole_number(content, "segment_size", path)
        if (
            not kernel.SMALLEST <= segment_size <= kernel.LARGEST
            or segment_size % kernel.HEADER_SIZE
        ):
            raise _refuse(path, f"has an impossible segment_size of {segment_size}")
        return cls(
            uuid=uuid,
            segment_size=segment_size,
            timestamps=str(content.get("timestamps", "coarse")),
            created_ns=_whole_number(content, "created_ns", path),
            roll_cycle=_roll_cycle(content, path),
        )

    def past_header(self, position: int) -> int:
        """Return a position, or the end of its segment's header if that is greater.

        So the end of a full segment and the start of the next one compare as equal.
        """
        return max(position, position // self.segment_size * self.segment_size + kernel.HEADER_SIZE)

    def to_json(self) -> str:
        major, minor = kernel.FORMAT
        cycle = self.roll_cycle
        content = {
            "format": {"major": major, "minor": minor},
            "uuid": str(uuids.UUID(bytes=self.uuid)),
            "segment_size": self.segment_size,
            "roll_cycle": None if cycle is None else cycle.name,
            **(
                {}
                if cycle is None
                else {"roll_epoch_ns": cycle.epoch_ns, "time_zone": cycle.time_zone}
            ),
            "timestamps": self.timestamps,
            "created_ns": self.created_ns,
        }
        return json.dumps(content, indent=2) + "\n"


def _refuse(path: str, why: str) -> NotALogError:
    return NotALogError(
        f"{NAME} {why}: this is not a log, or its identity is damaged; `commitlog repair` "
        "rebuilds it from the segments",
        path=path,
    )


def _whole_number(content: dict[str, object], name: str, path: str) -> int:
    value = content.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise _refuse(path, f"has no usable {name!r}")
    return value


def _roll_cycle(content: dict[str, object], path: str) -> RollCycle | None:
    name = content.get("roll_cycle")
    if name is None:
        return None
    epoch_ns = content.get("roll_epoch_ns", 0)
    if not isinstance(epoch_ns, int) or isinstance(epoch_ns, bool):
        raise _refuse(path, "has no usable 'roll_epoch_ns'")
    try:
        return stored_cycle(str(name), str(content.get("time_zone", "UTC")), epoch_ns)
    except ValueError as error:
        raise _refuse(path, f"has no usable 'roll_cycle' ({error})") from None


def read(dir_fd: int, path: str) -> Identity | None:
    """Return the identity of the log in a directory, or None if there is no `log.json`."""
    place = os.path.join(path, NAME)
    try:
        text = read_small_file(NAME, SIZE_LIMIT, dir_fd=dir_fd)
    except FileNotFoundError:
        return None
    except IOFailureError as error:
        raise _refuse(place, f"cannot be read ({error.message.partition(':')[0]})") from None
    except PermissionError as error:
        raise ReadOnlyError(
            f"no permission to read {NAME} ({error.strerror}): fix the permissions, or be another "
            "user",
            path=place,
            errno=error.errno,
        ) from None
    return Identity.parse(text, place)


def missing(path: str) -> NotALogError:
    """Return the error for a directory without `log.json`."""
    return NotALogError(
        f"this directory has no {NAME}: it is not a log, or its identity was lost; if it was a "
        "log, run `commitlog repair`",
        path=path,
    )


def read_path(path: str) -> Identity | None:
    """Return the identity of the log at a path, or None if the directory has no `log.json`. If
    there is no such directory, raise `FileNotFoundError`.
    """
    with opened_directory(path) as fd:
        return read(fd, path)


def write(dir_fd: int, identity: Identity) -> bool:
    """Put a new `log.json` in place, durably; return False if there is one already."""
    placed = put_new_file(dir_fd, NAME, identity.to_json().encode())
    os.fsync(dir_fd)
    return placed
