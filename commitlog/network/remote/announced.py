"""Announce the logs of servers to the core: an entry point in pyproject.toml names this."""

from __future__ import annotations

from commitlog.extension import SegmentSource, SourceKind
from commitlog.options import Options, ready_wait_s


def _open(path: str, options: Options) -> SegmentSource:
    # Imported here, because a program that opens an archive does not need it.
    from commitlog.network.remote.server_source import ServerSource

    return ServerSource(path, ready_wait_s(options))


SERVER = SourceKind("a log on another machine", _open, schemes=("tls", "tcp"), grows=True)
