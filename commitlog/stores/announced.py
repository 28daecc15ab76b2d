"""Announce archives and stores to the core: an entry point in pyproject.toml names this."""

from __future__ import annotations

from commitlog.extension import SegmentSource, SourceKind
from commitlog.options import Options
from commitlog.stores.archived import is_archive


def _open(path: str, options: Options) -> SegmentSource:
    # Imported here, because a program that opens a server's log does not need it.
    from commitlog.stores.archive_source import ArchiveSource

    return ArchiveSource(path)


ARCHIVE = SourceKind("an archive", _open, claims=is_archive)
