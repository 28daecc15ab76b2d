"""Admission: who may write to a log that has copies, or is one, and what a recovery notes of it."""

from __future__ import annotations

from commitlog.errors import FencedError
from commitlog.recovery import lineage
from commitlog.segment.directory import LogDirectory


def is_restored(directory: LogDirectory) -> bool:
    """Return whether a log that is a copy or has copies is in another directory, or a file of it is
    another one, than when its file was written: it was restored from a backup, cloned, or moved to
    another file system. It may lack records and promises.
    """
    known, elsewhere = lineage.read_placed(directory)
    return elsewhere is not None and known.is_replicated


def refuse_follower(directory: LogDirectory) -> None:
    """Refuse to write to a log that follows another one, or that has promised to."""
    found, elsewhere = lineage.read_placed(directory)
    if found.follows is not None:
        raise FencedError(
            f"this log follows {found.follows}, whose records it copies: open it with mode 'r', or "
            "run `commitlog promote` to make it the primary",
            path=directory.path,
        )
    if found.promised > found.rank:
        raise FencedError(
            f"epoch {found.promised.number} of this log was promised to a copy: follow that copy, "
            "or run `commitlog promote` to make this log the primary",
            path=directory.path,
        )
    if elsewhere is not None and found.is_replicated:
        raise FencedError(
            "this log has copies, and its directory is another one than before: it was restored "
            "from a backup, cloned, or moved to another file system, so its copies may have "
            "records that it lacks. To go on with it, run `commitlog promote --force restored` "
            "with an --other for each copy",
            path=directory.path,
        )


def note_recovery(directory: LogDirectory, end: int) -> None:
    """Note durably where a log that has copies ends after its recovery, unless it is a copy."""
    if lineage.version(directory) != (0, 0):
        found, elsewhere = lineage.read_placed(directory)
        if found.follows is None:
            new = found.restarted(lineage.past_header(end, directory.segment_size))
            lineage.write(directory, new, elsewhere)
