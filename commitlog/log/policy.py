"""LogPolicy: what the engine cannot decide alone."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from commitlog.log import fork

if TYPE_CHECKING:
    from commitlog.log.parts import LogParts
    from commitlog.log.writer_services import WriterServices

_logger = logging.getLogger("commitlog")


class LogPolicy:
    """The engine's callbacks. The engine calls them with the interpreter's lock held.

    Parameters
    ----------
    parts : LogParts
        The log's.
    """

    def __init__(self, parts: LogParts) -> None:
        self._parts = parts

    @property
    def _writer(self) -> WriterServices:
        writer = self._parts.writer
        assert writer is not None  # the engine of a reader appends nothing
        return writer

    def roll_from(self, number: int) -> None:
        """Bring the segment after `number` and move the tail there.

        One thread of this process does so; the others find it done.
        """
        engine, directory, writer = self._parts.engine, self._parts.directory, self._writer
        with writer.roll_lock:
            tail = engine.tail
            if tail is None or tail[0] != number or tail[1] < engine.segment_size:
                return
            writer.allocation.bring(number + 1)
            opened_ns = engine.open_segment(number + 1, writer.rolling.time_after(number))
            engine.move_tail(number, opened_ns, directory.cycle_at(opened_ns))
            position = (number + 1) * engine.segment_size
            _logger.debug("%s: rolled to the segment at position %d", engine.path, position)

    def meet_cycle(self) -> None:
        """Close the current segment if its cycle is over; else set `Engine.cycle_end_ns`."""
        self._writer.rolling.close_if_over()

    def hold_back(self, records: int) -> bool:
        """Hold an append of so many records for a required tailer.

        Returns
        -------
        bool
            True if the records are dropped.

        Raises
        ------
        TailerLagError
            The tailer did not catch up in time.
        """
        return self._writer.lag_guard.hold(records)

    def adopt(self) -> None:
        """Take the log over on the first append in the child of a fork."""
        fork.adopt(self._parts)

    def find_cursors(self) -> None:
        """Look for the cursors of a writer that came after this reader."""
        self._parts.find_cursors()

    def release_files(self) -> None:
        """Close what calls in the kernel use: after `close`, and after the last call of other threads."""
        parts = self._parts
        parts.close_checkpoint()
        if parts.slot_lock is not None:
            parts.slot_lock.close()
            parts.slot_lock = None
        if parts.pid == os.getpid():
            parts.directory.close()
        if parts.lock_file is not None:
            parts.lock_file.close()
        parts.engine.cursors.part()
