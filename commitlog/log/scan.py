"""Scan: a range of a log's records as Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from commitlog._kernel.readers import read_columns
from commitlog.base.units import whole_of
from commitlog.errors import InvalidOptionError, PositionError, SequenceError
from commitlog.log.parts import LogParts
from commitlog.tail.arrow import BatchForm
from commitlog.tail.batch import Batch
from commitlog.tail.seek import Seeker, Timestamp

if TYPE_CHECKING:
    import pyarrow as pa

Bound = Timestamp  # an int is a position here
BATCH_ROWS = 1 << 16
NUMBERS_ROWS = 1 << 18  # without keys and values: a batch stays small


class Scan:
    """Read the records between two bounds forward, once.

    The end is fixed when the scan is created: later records are not in it. The bounds and columns
    are those of `CommitLog.to_reader`. `what` is the call that needs pyarrow, for the error, and
    `views` is as for `BatchForm`. `keep` is the log, if nothing else keeps it: a dropped log is
    closed.
    """

    def __init__(
        self,
        parts: LogParts,
        start: Bound | None,
        end: Bound | None,
        columns: Sequence[str] | None,
        what: str,
        *,
        views: bool = False,
        keep: object = None,
    ) -> None:
        parts.check_open()
        self._keep = keep
        self._form = BatchForm(columns, what, views=views)
        self._index = parts.index
        self._seeker = Seeker(parts.index, start="first")
        present_end = parts.engine.committed_position
        self._end = present_end if end is None else min(self._position_of(end), present_end)
        self._move_to("first" if start is None else start)
        begin = self._seeker.cursor.position
        if self._end < min(begin, present_end):
            raise InvalidOptionError(
                f"end ({end!r}, at position {self._end}) is before start ({start!r}, at position "
                f"{begin}): swap them",
                path=parts.path,
            )
        self._seeker.cursor.end_at(self._end)

    def _position_of(self, end: Bound) -> int:
        position = whole_of(end)
        if position is None:
            self._move_to(end)
            return self._seeker.cursor.position
        if position < 0:
            raise InvalidOptionError(
                f"end must be a position of at least 0, or a time, not {end!r}"
            )
        return position

    def _move_to(self, bound: Bound) -> None:
        if whole_of(bound) is not None or bound in ("first", "end"):
            self._seeker.seek(bound)  # type: ignore[arg-type]
        else:
            self._seeker.seek(timestamp=bound)

    def reader(self) -> pa.RecordBatchReader:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self._form.schema, self.record_batches())

    def record_batches(self, most: int = 1 << 63) -> Iterator[Any]:
        """Read up to the end, at most `most` records. Each record batch owns its memory."""
        cursor, form = self._seeker.cursor, self._form
        rows = BATCH_ROWS if {"key", "value"} & set(form.names) else NUMBERS_ROWS
        try:
            sequences = self._sequences() if form.names == ("sequence",) else None
            if sequences is not None:
                yield from self._counted(sequences[:most])
                return
            while most:
                columns = read_columns(cursor, min(rows, most), form.names, views=form.views)
                part = form.record_batch(Batch(*columns))
                if not part.num_rows:
                    return
                most -= part.num_rows
                yield part
        finally:
            cursor.leave()
            self._seeker.segments.release()

    def _sequences(self) -> range | None:
        """Return the sequences of the range without reading a record, or None if seals and indexes
        do not have them: a claim is open, or the range does not end at a record.
        """
        try:
            first = self._index.sequence_of(self._seeker.cursor.position)
            return range(first, self._index.sequence_of(self._end))
        except (PositionError, SequenceError):
            return None

    def _counted(self, sequences: range) -> Iterator[Any]:
        for start in range(sequences.start, sequences.stop, NUMBERS_ROWS):
            stop = min(start + NUMBERS_ROWS, sequences.stop)
            yield self._form.numbers(np.arange(start, stop, dtype=np.int64))
