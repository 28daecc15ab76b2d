"""Scanner: finds the jobs of a queue in its log, and reads their records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from commitlog import CommitLog, Record, Tailer
from commitlog.errors import InUseError, PositionError
from commitlog.queues.compiled.leases import MOST, Lease, LeaseTable

J = TypeVar("J", bound=Lease)
_AHEAD = 64  # records of a scan, at least
_KEPT_MOST = 4 * MOST  # records that are kept for jobs of this process


class Scanner:
    """Read a log for the workers of this process; one thread at a time is in it.

    Parameters
    ----------
    wants : callable, optional
        Whether a record of a type is a job; by default all are.
    """

    def __init__(
        self, log: CommitLog, table: LeaseTable, wants: Callable[[Record], bool] | None
    ) -> None:
        self._table = table
        self._wants = wants
        self._tailer: Tailer = log.tailer(
            start=max(table.scan, log.first_position), on_damage="skip"
        )
        self._reader: Tailer = log.tailer(on_damage="skip")
        self._log = log
        self._lock = threading.RLock()
        self._busy = False
        self._records: dict[int, Record] = {}

    def __enter__(self) -> Scanner:
        self._lock.acquire()
        if self._busy:
            self._lock.release()
            raise InUseError(
                "this thread is taking a job, and a signal handler or a finaliser that interrupted "
                "it takes one, too: take it later",
                path=self._log.path,
            )
        self._busy = True
        return self

    def __exit__(self, *_: object) -> None:
        self._busy = False
        self._lock.release()

    def scan(self, most: int) -> bool:
        """Add records to the leases; return False if there were none, for any worker."""
        table, tailer = self._table, self._tailer
        start = table.scan
        if tailer.position != start:
            self._move(tailer, start)
        records = list(islice(tailer, max(most, _AHEAD)))
        stop = tailer.position
        if stop <= start:
            return False
        jobs = records if self._wants is None else list(filter(self._wants, records))
        added = table.add(start, stop, jobs, records[-1] if records else None)
        if added < 0:
            return True
        if len(self._records) > _KEPT_MOST:
            self._records.clear()
        for record in jobs if added == len(jobs) else jobs[:added]:
            self._records[record.position] = record
        return added > 0 or not jobs

    def _move(self, tailer: Tailer, position: int) -> None:
        try:
            tailer.seek(position)
        except PositionError as error:
            if error.first_position is None or error.first_position <= position:
                raise
            tailer.seek("first")  # forced deletion: there is nothing left to do there

    def read(self, jobs: Iterable[J]) -> list[J]:
        """Give jobs their records; return those whose records are no more there."""
        lost = []
        records, reader = self._records, self._reader
        for job in jobs:
            record = records.pop(job.position, None)
            if record is None:
                record = self._read_at(reader, job.position)
            if record is None:
                lost.append(job)
            else:
                job.record = record
        return lost

    def _read_at(self, reader: Tailer, position: int) -> Record | None:
        try:
            if reader.position != position:
                reader.seek(position)
            record = reader.read()
        except PositionError:
            return None
        return record if record is not None and record.position == position else None

    def is_job(self, record: Record) -> bool:
        """Return whether a record is one of the queue."""
        return self._wants is None or self._wants(record)

    def forked(self) -> None:
        """In the child of a fork: another thread may have been in it."""
        self._lock = threading.RLock()
        self._busy = False
