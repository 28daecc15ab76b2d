"""Admission: who may write to a log that has copies, or is one, and what a recovery notes of it."""

from __future__ import annotations

from commitlog.errors import FencedError
from commitlog.recovery.epochs import Epochs
from commitlog.segment.directory import LogDirectory


def refuse_follower(directory: LogDirectory) -> None:
    """Refuse to write to a log that follows another one, or that has promised to."""
    found, elsewhere = Epochs(directory).read_placed()
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
    epochs = Epochs(directory)
    if epochs.exists():
        known, elsewhere = epochs.read_placed()
        if known.follows is None:
            epochs.write(known.restarted(directory.identity.past_header(end)), elsewhere)
