"""SideSources: the side logs of a served log, for its followers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from commitlog import CommitLog
from commitlog import open as open_log
from commitlog.base.host import host
from commitlog.base.side_logs import side_logs
from commitlog.errors import CommitLogError
from commitlog.extension import view_of
from commitlog.network.remote.wire import RefusedError

_LOOKS = 10  # until no letter comes between two
_FLUSH_S = 0.5
_SIDES_MOST = 2000  # of a log


class SideSources:
    """Open the side logs of a log for reading, each once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._logs: dict[str, CommitLog] = {}
        self._lock = host.lock()
        self._asked_s = 0.0

    def log(self, folder: str) -> CommitLog:
        """Return a side log, open; `RefusedError` if there is none."""
        with self._lock:
            known = self._logs.get(folder)
            where = os.path.join(self._path, folder)
            if known is not None and not view_of(known).is_at(where):
                del self._logs[folder]
                known.close()
                known = None
            if known is None:
                if folder not in side_logs(self._path):
                    raise RefusedError(f"the log has no {folder!r}")
                known = self._logs[folder] = open_log(where, "r")
            return known

    def ends(self) -> dict[str, dict[str, Any] | None] | None:
        """Return identity, first segment and durable end of each side log; for one that cannot be
        read now, None, so that followers keep their copy of it.

        The ends of one queue are of one moment: its state says that a job is a dead letter only if
        that letter is below the end of its letters, and the other way round. None if the letters
        changed at each look: ask again.
        """
        self._ask_for_flushes()
        for _ in range(_LOOKS):
            found = dict(self._ends())
            letters = {each: end for each, end in self._ends() if each.endswith("/dead")}
            if all(found.get(each) == end for each, end in letters.items()):
                return found
        return None

    def _ask_for_flushes(self) -> None:
        """Have writers flush soon what they would flush after some seconds."""
        if host.monotonic() - self._asked_s < _FLUSH_S:
            return
        self._asked_s = host.monotonic()
        with self._lock:
            views = [view_of(each) for each in self._logs.values()]
        for view in views:
            if view.flushed_position < view.committed_position:
                view.ask_for_flush()

    def _ends(self) -> Iterator[tuple[str, dict[str, Any] | None]]:
        for number, folder in enumerate(side_logs(self._path)):
            try:
                yield folder, self._end(folder) if number < _SIDES_MOST else None
            except CommitLogError:
                yield folder, None
            except RefusedError:
                continue  # it was just removed

    def _end(self, folder: str) -> dict[str, Any] | None:
        view = view_of(self.log(folder))
        end = view.flushed_position
        view.refresh()
        numbers = view.segment_numbers()
        if not numbers:
            return None  # it is just being made
        return {"identity": view.identity.to_json(), "first": numbers[0], "end": end}

    def close(self) -> None:
        with self._lock:
            logs, self._logs = self._logs, {}
        for each in logs.values():
            each.close()
