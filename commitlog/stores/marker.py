"""Marker: keep a log's file `stored` up to date."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace

from commitlog.base.host import host
from commitlog.errors import CommitLogError
from commitlog.extension import LogFiles
from commitlog.stats import StoreStats
from commitlog.stores.store_options import StoreOptions
from commitlog.stores.target import is_address

_INTERVAL_S = 5.0  # between two writes while only the end moves


class Marker:
    """Keep the file up to date, for the thread that stores the log."""

    def __init__(self, store: StoreOptions) -> None:
        self._place = place_of(store)
        self._last: StoreStats | None = None
        self._written_s = 0.0
        self._failing_since_ns: int | None = None

    def note(self, files: LogFiles, stored: StoreStats, *, compared: bool, at_once: bool) -> None:
        """Note how far the log is stored: if a segment was stored or an error came or went, else
        every few seconds.

        If the file cannot be written, the next call tries again; what it says then is too little.

        Parameters
        ----------
        files : LogFiles
            Of the log.
        stored : StoreStats
            What the store has.
        compared : bool
            The store was compared with the log. Before, the positions of `stored` mean nothing.
        at_once : bool
            Note a new end now.
        """
        if stored.last_error is None:
            self._failing_since_ns = None
        elif self._failing_since_ns is None:
            self._failing_since_ns = host.time_ns()
        stored = replace(stored, failing_since_ns=self._failing_since_ns)
        with contextlib.suppress(CommitLogError, OSError):
            if not compared:
                known = files.stored()
                if known is None or known.target != self._place:
                    known = StoreStats(target=self._place)
                stored = replace(stored, position=known.position, kept_position=known.kept_position)
            if self._is_due(stored, at_once=at_once):
                files.note_stored(stored)
                self._last, self._written_s = stored, host.monotonic()

    def _is_due(self, stored: StoreStats, *, at_once: bool) -> bool:
        last = self._last
        if last is None or (stored.kept_position, stored.failing_since_ns) != (
            last.kept_position,
            last.failing_since_ns,
        ):
            return True
        return stored.position != last.position and (
            at_once or host.monotonic() - self._written_s >= _INTERVAL_S
        )


def place_of(store: StoreOptions) -> str:
    """Return a store's address without credentials; the absolute path if it is a directory."""
    text = os.fsdecode(store.target)
    if store.filesystem is not None:
        return text.rstrip("/")
    if not is_address(text):
        return os.path.abspath(text)
    from urllib.parse import unquote, urlsplit  # most logs have no store

    parts = urlsplit(text)
    if parts.scheme == "file":
        return os.path.abspath(unquote(parts.path))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
