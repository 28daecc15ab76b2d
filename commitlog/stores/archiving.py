"""Archive the old segments of a log without opening it, also while writers have it open."""

from __future__ import annotations

import os

from commitlog import Retention
from commitlog.base.progress import Progress
from commitlog.base.units import Age
from commitlog.extension import LogFiles, pruning
from commitlog.stores.archiver import Archiver
from commitlog.stores.store import Store
from commitlog.types import Pruned


def archive_segments(
    path: str | os.PathLike[str],
    store: Store,
    *,
    older_than: Age = "0s",
    keep: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Pruned:
    """Store old segments of a log, oldest first; delete each once its copy is durable.

    A segment that the store has already is not written again, so an interrupted run can be
    repeated.

    Parameters
    ----------
    path : path
        The log's directory.
    store : Store
        Where to, and at which level; its other options are for logs that are open.
    older_than : str or datetime.timedelta
        Only segments that the log rolled past so long ago; text has a unit, such as ``"7d"``.
    keep : bool
        Delete nothing, and archive every sealed and durable segment.
    dry_run : bool
        Report what would be archived, and change nothing.
    progress : callable, optional
        Called now and then with the bytes of segments that are archived, and their total. What it
        raises ends the run, which can be repeated.

    Raises
    ------
    CorruptSegmentError
        A segment is damaged: it stays, and so do those behind it.
    LogExistsError, IOFailureError
        The target belongs to another log, or cannot be reached or written; also if there is nothing
        to archive.
    """
    retention = Retention(max_age=older_than)
    with pruning(path, retention) as pruner, LogFiles(pruner.path) as files:
        archiver = Archiver(files, store)
        archiver.check_target()
        return pruner.prune(retention, archiver, dry_run=dry_run, keep=keep, progress=progress)
