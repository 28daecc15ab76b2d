"""Distinguish a deleted segment from a machine that does not have the log.

A missing segment file alone does not show which of the two is the case. Retention deletes the
oldest segments and leaves `log.json` and the younger segments. So a task takes a missing segment as
deleted only if its machine has both.
"""

from __future__ import annotations

from commitlog.errors import LogNotFoundError, NotALogError
from commitlog.spark import places
from commitlog.types import Identity

REMEDY = "make the log visible under this path on the driver and on every executor"


def identity_at(folder: str) -> Identity | None:
    """Return the identity in a folder's `log.json`, or None if there is no such file."""
    place = places.join(folder, Identity.FILE_NAME)
    try:
        with places.open_file(place) as file:
            return Identity.read_from(file, place)
    except FileNotFoundError:
        return None


def check_present(folder: str, uuid: bytes) -> None:
    """Check that this machine sees the log, or its archive, for which the read was planned."""
    found = identity_at(folder)
    if found is None:
        raise LogNotFoundError(
            f"this machine does not see the log for which the read was planned: {REMEDY}",
            path=folder,
        )
    if found.uuid != uuid:
        raise other_log(folder)


def other_log(place: str) -> NotALogError:
    """Return the error for a place that has another log than the planned one."""
    return NotALogError(
        f"this is another log than the one for which the read was planned: {REMEDY}", path=place
    )


def check_deleted(location: str, uuid: bytes, base: int) -> None:
    """Check that a missing segment was deleted: the log is present and has younger segments."""
    folder = places.parent(location)
    check_present(folder, uuid)
    found = [places.segment_of(name) for name in places.names(folder) or {}]
    if not any(segment is not None and segment[0] > base for segment in found):
        raise LogNotFoundError(
            "this machine sees neither this segment of the log nor a younger one, but the driver "
            f"does: {REMEDY}",
            path=location,
        )
