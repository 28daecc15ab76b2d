"""Back up a log to a directory, a file or a store."""

from __future__ import annotations

import os
from collections.abc import Collection

import commitlog
from commitlog import CommitLog
from commitlog.backup import directory_backup, store_backup, tar_backup
from commitlog.backup.contents import chosen
from commitlog.backup.source_log import SourceLog
from commitlog.backup.writing import Written
from commitlog.base.option import check_switches
from commitlog.base.path import path_of
from commitlog.base.progress import Meter, Progress
from commitlog.extension import HEADER_SIZE
from commitlog.stores.marker import place_of
from commitlog.stores.store import Store
from commitlog.stores.tar_target import SUFFIX
from commitlog.stores.target import is_address
from commitlog.types import BackedUp, BackupContent


def backup(
    log: CommitLog | str | os.PathLike[str],
    to: str | os.PathLike[str] | Store,
    *,
    incremental: bool = False,
    without: BackupContent | Collection[BackupContent] = (),
    verify: bool = True,
    progress: Progress | None = None,
) -> BackedUp:
    """Write a complete, consistent copy of a log, while programs append to it.

    The backup has all records up to one position, at which the log was durable, and the last
    segment as far as it was written. It gets its place only when it is whole, durable and
    verified: a backup that fails or is killed leaves at `to` what was there.

    Parameters
    ----------
    log : CommitLog, str or path
        An open log; or the directory of a log, the URL of a log on a server, an archive or a
        store, which is opened for reading. An open log that can be written commits and flushes
        first. Of a log that another process writes, the backup has what is committed.
    to : str, path or Store
        Where to: a directory, which is a log then; a file whose name ends in ``.tar.zst``; or a
        `Store`, or an address such as ``s3://bucket/orders``, which are stored to.
    incremental : bool
        Continue the backup at `to`: write only what it lacks. Segments that the log has deleted
        since are kept. It must be of this log and of the same history.
    without : str or collection of str
        What to leave out of ``"tailers"``, ``"producers"``, ``"queues"`` and ``"schemas"``. A
        store has none of them.
    verify : bool
        Read every frame that was written again, and check it.
    progress : callable, optional
        Called now and then with the bytes that are read and checked, and their total. What it
        raises ends the backup.

    Returns
    -------
    BackedUp

    Raises
    ------
    LogExistsError
        There is something else at `to`, another backup is being written there, or it is one of
        another log or of another history.
    LogNotFoundError
        There is no log, or no backup to continue.
    CorruptRecordError, CorruptSegmentError
        The log is damaged, at that position: no backup is made.
    PositionError
        The log deleted what the backup at `to` lacks.
    FencedError
        The log was cut, promoted or replaced meanwhile.
    DiskFullError, IOFailureError, ReadOnlyError
        The backup cannot be written.
    """
    check_switches(incremental=incremental, verify=verify)
    wanted = chosen(without)
    meter = Meter(progress, 0)
    if not isinstance(log, CommitLog):
        with commitlog.open(log, "r") as opened:
            return backup(
                opened,
                to,
                incremental=incremental,
                without=without,
                verify=verify,
                progress=progress,
            )
    source = SourceLog(log)
    if isinstance(to, Store) or is_address(path_of(to)):
        store = to if isinstance(to, Store) else Store(to)
        path = place_of(store)
        written = store_backup.back_up(source, store, meter, incremental=incremental, verify=verify)
    else:
        path = path_of(to)
        form = tar_backup if path.endswith(SUFFIX) else directory_backup
        written = form.back_up(source, path, wanted, meter, incremental=incremental, verify=verify)
    return _result(path, source, written, incremental=incremental, verified=verify)


def _result(
    path: str, source: SourceLog, written: Written, *, incremental: bool, verified: bool
) -> BackedUp:
    contents, numbers = written.contents, written.numbers
    return BackedUp(
        path=path,
        # An empty log leaves a store without a segment.
        first_position=numbers[0] * source.size + HEADER_SIZE if numbers else written.end,
        end_position=written.end,
        segments=len(numbers),
        written_segments=len(written.new),
        written_bytes=written.bytes,
        tailers=contents.tailer_names,
        queues=contents.queue_names,
        producers=contents.producers is not None,
        schemas=bool(contents.schemas),
        incremental=incremental,
        verified=verified,
    )
