"""Seals: a finished segment's summary in its header, which saves readers a scan of the segment."""

from __future__ import annotations

import logging

from commitlog._kernel.segments import SparseIndex
from commitlog.base.later_log import LaterLog
from commitlog.errors import CorruptRecordError, CorruptSegmentError
from commitlog.options.tuning import INDEX_SPACING_DEFAULT
from commitlog.segment import index_file
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.segment.seal_table import first_unsealed, read_seal

_logger = logging.getLogger("commitlog.segment")


class Sealer:
    """Seals segments in ascending order, each when all of its records are in its file.

    A seal holds the sequence of its first record, so it needs its predecessor's. The scan that
    counts the records also makes the segment's index.
    """

    def __init__(self, queue: MappedFileQueue, spacing: int = INDEX_SPACING_DEFAULT) -> None:
        self._directory = queue.directory
        self._queue = queue
        self._spacing = spacing
        self._next: int | None = None
        self._sequence = 0
        self._stuck = False
        self._log = LaterLog(_logger)

    def report(self) -> None:
        """Log what the last seals met. Call this while no lock is held."""
        self._log.report()

    @property
    def reached(self) -> int:
        """The number below which every segment is known to be sealed."""
        return -1 if self._next is None else self._next

    def begin(self, number: int) -> None:
        """Find the first unsealed segment below `number`, and report every seal from there on,
        whichever handle writes it.
        """
        self._next, self._sequence = first_unsealed(self._directory, number)

    def seal_below(self, number: int) -> None:
        """Seal every unsealed segment below `number`. Stops at a segment that the tail has passed
        but that is not whole: it is damaged.
        """
        if self._stuck:
            return
        if self._next is None:
            self.begin(number)
        assert self._next is not None
        while self._next < number:
            if not self._directory.has(self._next):
                # Another process sealed and deleted it; a later sealed segment remains.
                self.begin(number)
                if self._next and read_seal(self._directory, self._next - 1) is None:
                    self._stuck = True
                    self._log.note(
                        logging.ERROR,
                        "segments are missing before %s: no more are sealed",
                        self._directory.segment_path(self._next),
                    )
                    return
                continue
            try:
                self._stuck = not self._seal(self._next)
            except (CorruptRecordError, CorruptSegmentError):
                self._stuck = True
            if self._stuck:
                self._log.note(
                    logging.ERROR,
                    "%s is damaged and cannot be sealed: run `commitlog verify` on the log",
                    self._directory.segment_path(self._next),
                )
                return
            self._next += 1
            self._queue.report("sealed", self._next - 1)

    def _seal(self, number: int) -> bool:
        with self._queue.held(number, "seal") as segment:
            if segment is None:
                return False
            index = SparseIndex(segment.id, segment.size, self._spacing)
            if not segment.seal(self._sequence, index):
                return False
            seal = segment.sealed()
            assert seal is not None
            self._sequence = seal[1] + seal[2]
            if index.complete:
                self._write_index(number, index)
            return True

    def _write_index(self, number: int, index: SparseIndex) -> None:
        """Write the index that the scan has built. A reader that finds no index rebuilds it."""
        seal = read_seal(self._directory, number)
        if (
            seal is not None
            and seal.record_count == index.records
            and not index_file.write(self._directory, number, index, seal)
        ):
            self._log.note(
                logging.WARNING,
                "the index of %s could not be written; it is rebuilt when it is needed",
                self._directory.segment_path(number),
            )
