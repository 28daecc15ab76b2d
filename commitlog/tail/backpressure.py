"""Back-pressure: hold the appends of a handle while a required tailer is too far behind."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from commitlog._kernel.engine import REFUSED_LAG, Writer
from commitlog._kernel.readers import TailerPage
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.later_log import LaterLog
from commitlog.errors import CommitLogError, TailerLagError, TailerNotFoundError
from commitlog.options import OnLag
from commitlog.segment.directory import LogDirectory
from commitlog.tail import tailer_file, tailer_folder

_NOT_SEEN = 2**64 - 1  # never a value of the cell `required`
_NAP_LEAST_S, _NAP_MOST_S = 0.0001, 0.005
# One check counts for at most this long, so that a machine that resumes from suspend evicts no
# tailer.
_CREDIT_MOST_S = 1.0
_logger = logging.getLogger("commitlog")


@dataclass
class _Required:
    name: str
    page: TailerPage
    max_lag_bytes: int
    position: int = 0
    still_s: float = 0.0  # how long it has not moved while appends waited for it
    checked_s: float = field(default_factory=time.monotonic)


class Backpressure:
    """Limit appends by the lag of the required tailers. Any thread may call, with the GIL held.

    `on_lag` says what an append beyond the limit does; it waits for at most `timeout_s`. A tailer
    that blocks appends for `evict_after_s` without moving is evicted. `dropped_records` counts the
    records that this handle has dropped.
    """

    def __init__(
        self,
        log: Writer,
        directory: LogDirectory,
        *,
        on_lag: OnLag,
        timeout_s: float,
        evict_after_s: float | None,
    ) -> None:
        self.dropped_records = 0
        self.log = log
        self._directory = directory
        self._on_lag = on_lag
        self._timeout_s = timeout_s if on_lag == "wait" else 0.0
        self._evict_after_s = evict_after_s
        self._seen = _NOT_SEEN
        self._folder_locked_s: float | None = None  # since when every check found it locked
        self._required: dict[str, _Required] = {}
        self._limited: int | None = None  # where the kernel checks again

    def begin(self) -> None:
        """Read the required tailers and set the limit of appends; later appends check it."""
        slowest = self._slowest()
        self._apply(None if slowest is None else self._limit(slowest))

    def apply_change(self, name: str, number: int | None) -> None:
        """Apply a change of one tailer's terms that this handle has made.

        `number` is what the cell `required` was behind the change; None: that is not known. If it
        was the only change since the last look, no other tailer is read.
        """
        if number is None or self._seen != number - 1:
            self.begin()
            return
        self._seen = number
        # The limit may stay too low: the append that reaches it computes it anew.
        limit = self._limited
        self._required.pop(name, None)
        unreadable = LaterLog(_logger)
        tailer = self._load(name, unreadable)
        if tailer is not None:
            self._required[name] = tailer
            self._refresh(tailer)
            own = self._limit(tailer)
            limit = own if limit is None else min(limit, own)
        self._apply(limit)
        unreadable.report()

    def _apply(self, limit: int | None) -> None:
        self._limited = limit
        self.log.limit_appends(limit, self._seen)
        # The kernel checks the limit after an append. A program that opens the log for each single
        # append needs this check, too.
        if limit is not None and self.log.tail_position > limit and self.log.refusal == 0:
            self.log.refusal = REFUSED_LAG

    def hold(self, records: int) -> bool:
        """Block an append of so many records at the limit; return whether they are dropped. If the
        tailer does not catch up in time, raise `TailerLagError`.
        """
        with Hold(self) as hold:
            for nap_s in hold.naps(records):
                time.sleep(nap_s)
            return hold.dropped

    def look(self, hold: Hold, records: int) -> bool:
        """Check the limit once; return whether an append of so many records must wait longer.

        If the records are dropped, `hold.dropped` is set.
        """
        while self.log.refusal == REFUSED_LAG:
            slowest = self._slowest()
            limit = None if slowest is None else self._limit(slowest)
            if slowest is None or limit is None or self.log.tail_position <= limit:
                self._limited = limit
                self.log.limit_appends(limit, self._seen)
                return False
            if self._is_overdue(slowest):
                self._evict(slowest)
            elif self._on_lag == "drop":
                self._drop(slowest, records)
                hold.dropped = True
                return False
            elif hold.waited_s >= self._timeout_s:
                raise self._too_far_behind(slowest)
            else:
                return True
        return False  # another thread raised the limit, or closed the log

    def _slowest(self) -> _Required | None:
        seen = self.log.cursors["required"]
        if seen != self._seen:
            # Read the number before the tailers. A process that changes terms raises the number
            # first and holds the lock on terms until it is done. If the lock is held, the state
            # read here may be older than the change, so the next check reads it again.
            self._seen = seen if self._are_terms_at_rest() else _NOT_SEEN
            self._find()
        slowest = None
        for tailer in list(self._required.values()):
            self._refresh(tailer)
            if tailer.name in self._required and (
                slowest is None or self._limit(tailer) < self._limit(slowest)
            ):
                slowest = tailer
        return slowest

    def _are_terms_at_rest(self) -> bool:
        if tailer_folder.are_terms_changing(self._directory):
            return False
        if not tailer_folder.is_folder_locked(self._directory):
            self._folder_locked_s = None
            return True
        # A reader may lock the folder without limit; a change of terms releases its lock.
        now_s = time.monotonic()
        if self._folder_locked_s is None:
            self._folder_locked_s = now_s
        return now_s - self._folder_locked_s >= tailer_folder.FOLDER_WAIT_S

    def _find(self) -> None:
        before, found = self._required, {}
        unreadable = LaterLog(_logger)
        for name in tailer_folder.names(self._directory):
            tailer = self._load(name, unreadable)
            if tailer is not None:
                if name in before:
                    tailer.position, tailer.still_s = before[name].position, before[name].still_s
                found[name] = tailer
        self._required = found
        unreadable.report()

    def _load(self, name: str, unreadable: LaterLog) -> _Required | None:
        """Read a tailer's terms; None if appends do not wait for it."""
        try:
            page = tailer_file.open_page(self._directory, name)
        except TailerNotFoundError:
            return None  # deleted meanwhile
        except CommitLogError as error:
            unreadable.note(logging.WARNING, "appends do not wait for tailer %r: %s", name, error)
            return None
        terms = page.terms(self._directory.log_uuid)
        if terms is None or not terms[0] or not terms[1]:
            return None
        return _Required(name, page, terms[1])

    def _refresh(self, tailer: _Required) -> None:
        """Read a tailer's position and terms again; forget it if it is not required any more.

        A damaged position counts as unchanged.
        """
        terms = tailer.page.terms(self._directory.log_uuid)
        if terms is not None and not terms[0]:
            self._required.pop(tailer.name, None)
            return
        if terms is not None:
            tailer.max_lag_bytes = terms[1] or tailer.max_lag_bytes
        position = tailer.page.read_position()
        now_s = time.monotonic()
        if position is not None and position != tailer.position:
            tailer.position, tailer.still_s = position, 0.0
        else:
            tailer.still_s += min(now_s - tailer.checked_s, _CREDIT_MOST_S)
        tailer.checked_s = now_s

    def _limit(self, tailer: _Required) -> int:
        # The end of a segment and the first record of the next are the same place: the header
        # between them does not count as lag.
        offset = tailer.position % self._directory.segment_size
        return tailer.position + max(0, HEADER_SIZE - offset) + tailer.max_lag_bytes

    def _is_overdue(self, tailer: _Required) -> bool:
        return self._evict_after_s is not None and tailer.still_s >= self._evict_after_s

    def _evict(self, tailer: _Required) -> None:
        self._required.pop(tailer.name, None)
        # It was deleted meanwhile, or this user may not write its file: this handle ignores it.
        with contextlib.suppress(CommitLogError):
            tailer_file.evict(
                self._directory, tailer.name, lambda: self.log.cursors.raise_cell("required")
            )
        # Last, because a log handler may append, and would find the tailer overdue again.
        _logger.warning(
            "tailer %r of %s blocked appends without moving for %.3g s: it is evicted, and no "
            "longer required",
            tailer.name,
            self._directory.path,
            tailer.still_s,
        )

    def _drop(self, tailer: _Required, records: int) -> None:
        is_first = not self.dropped_records
        self.dropped_records += records
        tailer.page.count_dropped(records)
        if is_first:  # last, because a log handler may append, and its record is dropped, too
            _logger.warning(
                "tailer %r of %s is too far behind: records are dropped",
                tailer.name,
                self._directory.path,
            )

    def _too_far_behind(self, tailer: _Required) -> TailerLagError:
        waited = f", and did not catch up within {self._timeout_s:g} s" if self._timeout_s else ""
        behind = self.log.tail_position - tailer.position
        return TailerLagError(
            f"required tailer {tailer.name!r} is {behind} bytes behind, and its max_lag is "
            f"{tailer.max_lag_bytes}{waited}: nothing was appended. Let it catch up, or evict it: "
            f"log.evict_tailer({tailer.name!r})",
            path=self._directory.path,
            position=tailer.position,
            name=tailer.name,
        )


class Hold:
    """Decide how long one append at the limit waits, and its outcome; the caller sleeps.

    A context manager, which records each wait when it ends. `waited`: the append waited; the caller
    sets this if it queued first. `dropped`: the record is dropped, so that the caller must not
    retry.
    """

    def __init__(self, guard: Backpressure) -> None:
        self.dropped = False
        self._guard = guard
        self._begin()

    def naps(self, records: int) -> Iterator[float]:
        """Yield how long to sleep, until the append of so many records is to be retried or is
        dropped. If the tailer does not catch up in time, raise `TailerLagError`.
        """
        nap_s = _NAP_LEAST_S
        while self._guard.look(self, records):
            self.waited = True
            yield nap_s
            nap_s = min(2 * nap_s, _NAP_MOST_S)
        self._end()
        self._begin()

    @property
    def waited_s(self) -> float:
        """Return how long the append has waited so far."""
        return time.monotonic() - self._began_s

    def _begin(self) -> None:
        self.waited = False
        self._began_s = time.monotonic()

    def _end(self) -> None:
        if self.waited:
            self._guard.log.note_latency("lag", int(self.waited_s * 1e9))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
