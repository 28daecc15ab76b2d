"""A view of a log: reads records, and prints those that are to be shown."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np

from commitlog.cli.filter import Filter, Pattern, first_match
from commitlog.cli.output import Output
from commitlog.cli.printed import Form, Shown
from commitlog.cli.reading import present_end, say_damage
from commitlog.errors import LogNotFoundError
from commitlog.log.commit_log import CommitLog
from commitlog.log.parts import parts_of
from commitlog.tail.batch import Batch
from commitlog.tail.replay import Pace
from commitlog.tail.tailer import Idle, Tailer

_BATCH = 65536
# How often a view that waits looks up from the log: for a reader that is gone, a log that was
# removed.
_LOOK_UP_S = 0.2


@dataclass(frozen=True)
class Manner:
    """What is shown, and how.

    Attributes
    ----------
    form : Form
        Prints a record.
    sequences : bool
        Whether it prints their sequences.
    chosen : Filter
        Which records.
    until : Pattern or None
        The first record that it finds something in is the last one.
    limit : int or None
        At most so many.
    pace : Pace or None
        When each is due.
    idle : str
        How to wait for more.
    """

    form: Form
    sequences: bool
    chosen: Filter
    until: Pattern | None
    limit: int | None
    pace: Pace | None
    idle: Idle


class View:
    """Prints what a tailer reads.

    Parameters
    ----------
    log : CommitLog
        What is viewed.
    tailer : Tailer
        Stands where the view begins.
    manner : Manner
        What is shown, and how.
    output : Output
        Where to.
    named : Tailer or None
        A named tailer, which is moved past what was printed, when that has been handed on: what was
        not comes again.
    """

    def __init__(
        self,
        log: CommitLog,
        tailer: Tailer,
        manner: Manner,
        output: Output,
        named: Tailer | None = None,
    ) -> None:
        self._log = log
        self._tailer = tailer
        self._manner = manner
        self._output = output
        self._named = named
        self._left = manner.limit
        self.damage_told = 0

    def print_present(self) -> None:
        """Print what is there now; what is appended meanwhile is not."""
        end = None if self._tailer.direction == "backward" else present_end(self._log)
        while self._print(self._tailer.read_batch(self._most()), end) and not self._beyond(end):
            self._output.check_reader()

    def follow(self) -> None:
        """Go on with what comes, from one writer after the other, until the reader, the log or the
        user is gone, or all was shown.
        """
        while True:
            batch = self._tailer.read_batch(
                self._most(), timeout=_LOOK_UP_S, idle=self._manner.idle
            )
            if len(batch) and not self._print(batch, None):
                return
            self._look_up()

    def _most(self) -> int:
        """How many records to read at a time."""
        return _BATCH if self._left is None or self._manner.chosen else min(self._left, _BATCH)

    def _beyond(self, end: int | None) -> bool:
        return end is not None and self._tailer.position >= end

    def _look_up(self) -> None:
        self._output.check_reader()
        if os.fstat(parts_of(self._log).directory.fd).st_nlink == 0:
            raise LogNotFoundError(
                "the log was removed while it was followed: there is nothing to wait for",
                path=self._log.path,
            )

    # --- one batch --------------------------------------------------------------------------------

    def _print(self, batch: Batch, end: int | None) -> bool:
        """Print what is to be shown of a batch; whether there may be more."""
        self.damage_told = say_damage(self._tailer, self.damage_told)
        if not len(batch):
            return False
        manner = self._manner
        count = len(batch) if end is None else int(np.searchsorted(batch.positions, end))
        more = count == len(batch)
        last = None if manner.until is None else first_match(manner.until, batch)
        if last is not None and last < count:
            count, more = last + 1, False
        rows = manner.chosen.rows(batch)
        rows = rows[rows < count]
        if self._left is not None and len(rows) >= self._left:
            rows = rows[: self._left]
            count, more = int(rows[-1]) + 1, False
        if self._left is not None:
            self._left -= len(rows)
        shown = Shown.of(batch, rows, sequences=manner.sequences)
        if manner.pace is None:
            self._put(shown)
        else:
            for number, row in enumerate(rows.tolist()):
                self._pause(manner.pace, shown.timestamps_ns[number])
                self._put(shown.one(number))
                self._keep(batch, row + 1)
        self._keep(batch, count)
        return more

    def _keep(self, batch: Batch, count: int) -> None:
        """Move the named tailer past the first so many records of a batch."""
        if self._named is None or count == 0:
            return
        if self._tailer.direction == "backward":
            place = int(batch.positions[count - 1])
        else:
            place = int(batch.positions[count]) if count < len(batch) else self._tailer.position
        self._named.seek(place)

    def _put(self, shown: Shown) -> None:
        self._output.write(self._manner.form.text(shown))
        self._output.flush()

    def _pause(self, pace: Pace, timestamp_ns: int) -> None:
        """Until a record is due."""
        while (left_s := pace.wait_s(timestamp_ns)) > 0:
            time.sleep(min(left_s, _LOOK_UP_S))
            self._output.check_reader()
