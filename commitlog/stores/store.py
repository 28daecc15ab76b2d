"""Store: keep a log's segments, and every second its end, in a bucket or a directory."""

from __future__ import annotations

from dataclasses import dataclass

from commitlog.base.keywords import refuses_unknown
from commitlog.extension import LogView, SegmentSource
from commitlog.options import StoreRule, StoreWork
from commitlog.stores.store_options import StoreOptions


@refuses_unknown()
@dataclass(frozen=True)
class Store(StoreOptions, StoreRule):
    """Set where a log is stored, and how often while it is open. See docs/stores.md.

    Each sealed segment is stored whole, compressed by zstd. The durable end of an open log is
    stored in small objects, which are deleted once a larger one covers them; their objects are
    never rewritten.

    Parameters
    ----------
    target : str or path
        An address such as ``"s3://bucket/orders"``, or a directory of another machine or disk,
        which becomes an absolute path. It holds one log's records and nothing else.
    level : int
        The zstd level, 1 to 22. Higher: smaller objects, and more processor time.
    filesystem : store of obstore, pyarrow.fs.FileSystem or fsspec file system, optional
        The store or file system in which `target` is a path.
    every : float or str
        How many seconds, at least 0.01, the end of the log waits to be stored; 1 MiB is stored at
        once. If the machine is lost, the records of this time and of a running upload are lost. A
        longer time means fewer requests and a larger loss.
    max_age : str or datetime.timedelta, optional
        Delete a segment from the store when the log rolled past it so long ago, such as ``"90d"``.
    max_bytes : int or str, optional
        Delete the oldest segments while the store takes more bytes than that. Neither limit deletes
        the last whole segment. Records that are deleted from both store and log are lost.
    single_writer : bool
        Store a log although the target has no conditional put, as those of pyarrow and fsspec. You
        see to it that one machine at a time stores the log. If two do, their records are mixed, and
        what is restored never existed.

    Raises
    ------
    InvalidOptionError
        A value is out of range.
    MissingExtraError
        zstandard, obstore or pyarrow is not installed: ``pip install 'commitlog-engine[archive]'``.
    """

    def _begin(self, view: LogView) -> StoreWork:
        # Imported here, because most logs have no store.
        from commitlog.stores.store_service import StoreService

        return StoreService(view, self)

    def _open_source(self) -> SegmentSource:
        # Imported here, because a log that is only written does not read its store.
        from commitlog.stores.archive_source import ArchiveSource

        return ArchiveSource(self.target, self.filesystem)
