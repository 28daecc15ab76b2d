"""View: reads the selected records of a log and writes them to a sink."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from commitlog import Batch, CommitLog, Tailer
from commitlog.base.pace import Pace
from commitlog.errors import LogNotFoundError
from commitlog.extension import view_of
from commitlog.tools.cli.decoded import BatchDecoder
from commitlog.tools.cli.filter import Pattern, Rows
from commitlog.tools.cli.reading import BATCH_RECORDS, Selection, report_damage
from commitlog.tools.cli.sink import ByteSink, TableSink

# The interval at which a waiting view checks its output and whether the log was removed.
_CHECK_S = 0.2


class View:
    """Write what a tailer reads to a sink, up to the first record whose value `stop_at` matches.

    A `named` tailer is moved past each record once the sink has written it.
    """

    def __init__(
        self,
        log: CommitLog,
        selection: Selection,
        sink: ByteSink | TableSink,
        decoder: BatchDecoder | None,
        *,
        stop_at: Pattern | None = None,
        pace: Pace | None = None,
        follow: bool = False,
        named: Tailer | None = None,
    ) -> None:
        self._log = log
        self._sink = sink
        self._stop_at = stop_at
        self._pace = pace
        self._follow = follow
        self._named = named
        self._decoder = decoder
        self._filter = selection.filter(decoder)
        self._left = selection.limit
        self._until_ns = selection.until_ns
        self.records = 0
        self.damaged = 0
        # `stop_at` looks at every value.
        tailer = selection.tailer(log, every=stop_at is not None)
        self._tailer = tailer
        end = selection.find_end(tailer)
        if end is None and not self._follow:
            end = max(log.tail_position, log.committed_position)  # the present end
        self._end = end
        if named is not None and not selection.begins_by_option():
            tailer.seek(named.position)
        else:
            selection.seek_start(log, tailer, end, self._filter)
        self._start = tailer.position
        if named is not None:
            named.seek(tailer.position)
        if selection.reverse:
            selection.seek_end(tailer)
            tailer.direction = "backward"

    @property
    def bytes(self) -> int:
        """Return the bytes between the start and the end; 0 if the view has no end."""
        return 0 if self._end is None else max(0, self._end - self._start)

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Write the records. `progress` is called with the bytes read and the records written."""
        wait_s = _CHECK_S if self._follow else 0
        while True:
            batch = self._tailer.read_batch(self._most(), timeout=wait_s)
            more = self._take(batch) if len(batch) else self._follow
            self.damaged = report_damage(self._tailer, self.damaged)
            if progress is not None:
                progress(min(abs(self._tailer.position - self._start), self.bytes), self.records)
            if not more or self._is_at_end():
                return
            self._check()

    def _most(self) -> int:
        return (
            BATCH_RECORDS
            if self._left is None or self._filter
            else max(1, min(self._left, BATCH_RECORDS))
        )

    def _is_at_end(self) -> bool:
        if self._tailer.direction == "backward":
            return self._tailer.position <= self._start
        return self._end is not None and self._tailer.position >= self._end

    def _check(self) -> None:
        self._sink.check_reader()
        if self._follow and view_of(self._log).is_removed:
            raise LogNotFoundError(
                "the log was removed while it was followed",
                path=self._log.path,
            )

    # --- one batch ------------------------------------------------------------------------------

    def _take(self, batch: Batch) -> bool:
        """Write the selected rows of a batch; return whether to continue."""
        inside = batch.positions >= self._start
        if self._end is not None:
            inside &= batch.positions < self._end
        count = int(np.count_nonzero(inside))  # the leading rows, in either direction
        if self._follow and self._until_ns is not None:
            late = np.flatnonzero(batch.timestamps_ns >= self._until_ns)
            count = min([count, *late[:1].tolist()])
        more = count == len(batch)
        if self._stop_at is not None:
            search = self._stop_at.search
            found = (row for row, value in enumerate(batch.values()[:count]) if search(value))
            last = next(found, None)
            if last is not None:
                count, more = last + 1, False
        rows = self._filter.rows(batch)
        rows = rows[rows < count]
        if self._left is not None:
            if len(rows) >= self._left:
                rows = rows[: self._left]
                count, more = int(rows[-1]) + 1 if len(rows) else 0, False
            self._left -= len(rows)
        if self._decoder is not None:
            self._decoder.report(batch, count)
        if self._pace is None:
            self._sink.write(batch, rows)
        else:
            self._replay(self._pace, batch, rows)
        self.records += len(rows)
        self._keep(batch, count)
        return more

    def _replay(self, pace: Pace, batch: Batch, rows: Rows) -> None:
        for number, row in enumerate(rows.tolist()):
            for nap_s in pace.naps(int(batch.timestamps_ns[row])):
                time.sleep(nap_s)
                self._sink.check_reader()
            self._sink.write(batch, rows[number : number + 1])
            self._keep(batch, row + 1)

    def _keep(self, batch: Batch, count: int) -> None:
        """Move the named tailer past the first rows of a batch."""
        if self._named is not None and count > 0:
            self._named.seek(
                int(batch.positions[count]) if count < len(batch) else self._tailer.position
            )
