"""LocalPlaces: the named tailers of a log on this machine, as files in its directory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from commitlog.base.file_system import check_file_system
from commitlog.errors import ReadOnlyError
from commitlog.log.parts import LogParts
from commitlog.tail import tailer_file, tailer_state
from commitlog.tail.seek import Seeker, Start
from commitlog.tail.tailer_file import Notify, TailerFile
from commitlog.tail.tailer_state import TailerState


class LocalPlaces:
    """Keep named tailers in files, and notify the log's writers of changed terms: see
    `PlaceKeeper`.
    """

    def __init__(self, parts: LogParts) -> None:
        self._parts = parts

    def open(
        self,
        name: str,
        start: int,
        *,
        required: bool | None,
        max_lag_bytes: int,
        every_ns: int,
    ) -> TailerFile:
        directory = self._parts.directory
        # On other file systems, locks and shared mappings cannot enforce one reader per name.
        check_file_system(directory.path, directory.fd)
        if required is not None:
            self._check_notifiable()
        file = TailerFile(directory, name, start)
        try:
            file.page.keep_durable(every_ns)
            if required is not None:
                with self._changing(name) as notify:
                    file.declare(required, max_lag_bytes, notify)
        except BaseException:
            file.close()
            raise
        return file

    def states(self) -> list[TailerState]:
        return tailer_state.states(self._parts.directory, self._parts.engine.tail_position)

    def reset(self, name: str, position: Start) -> None:
        place = Seeker(self._parts.index, start=position).cursor.position
        with self._changing(name) as notify:
            tailer_file.reset(self._parts.directory, name, place, notify)

    def delete(self, name: str) -> None:
        with self._changing(name) as notify:
            tailer_file.delete(self._parts.directory, name, notify)

    def evict(self, name: str) -> bool:
        self._check_notifiable()
        with self._changing(name) as notify:
            return tailer_file.evict(self._parts.directory, name, notify)

    def _check_notifiable(self) -> None:
        """Raise if this user cannot notify the writers of a changed `required` setting."""
        cursors = self._parts.engine.cursors
        if cursors.shared and not cursors.writable:
            why = (
                "the log's writers cannot be notified of a changed `required` setting, because "
                "this user may not write `cursors`: run this as a user who can write it"
            )
            raise ReadOnlyError(why, path=self._parts.path)

    @contextlib.contextmanager
    def _changing(self, name: str) -> Iterator[Notify]:
        """Yield what notifies the writers of a change of a tailer's terms; at the end, this handle
        applies the change at once.
        """
        numbers: list[int] = []
        yield lambda: numbers.extend(self._notify_writers())
        writer = self._parts.writer
        if writer is not None:
            writer.backpressure.apply_change(name, numbers[-1] if numbers else None)

    def _notify_writers(self) -> Iterator[int]:
        """Notify the writers, and yield the number of the change, if they can be notified. The
        caller holds the lock on terms, so no other change gets the same number.
        """
        parts = self._parts
        if not parts.engine.cursors.shared:
            # A writer may have opened the log since, and checked before the setting changed.
            parts.find_cursors()
        parts.check_open()  # a closing log no longer notifies the writers
        cursors = parts.engine.cursors
        if cursors.shared and cursors.writable:
            cursors.raise_cell("required")
            yield cursors["required"]
