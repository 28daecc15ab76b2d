"""Tailer: a reader's place in a log, and how it goes on from there."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, Self, get_args

from commitlog._kernel.engine import Core
from commitlog._kernel.readers import IDLE, Record
from commitlog._kernel.segments import Segment, SparseIndex
from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import Duration, parse_duration, whole_of
from commitlog.errors import CommitLogError, CorruptRecordError, InvalidOptionError, PositionError
from commitlog.segment.mapped_file import MappedFile
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.tail.batch import Batch
from commitlog.tail.direction import Direction
from commitlog.tail.index import LogIndex
from commitlog.tail.replay import Pace, Replay
from commitlog.tail.seek import Seeker, Start, Visibility, check_choice
from commitlog.tail.tailer_file import TailerFile

OnDamage = Literal["raise", "skip"]
if TYPE_CHECKING:
    from commitlog._kernel.readers import Following
    from commitlog.tail.coming import Coming

Idle = Literal["spin", "yield", "backoff", "block"]
_IDLES = get_args(Idle)
_FOREVER_S = 3600.0
_BATCH_MOST = 1 << 62  # what the kernel can be asked for; 16 MiB of records are fewer
_logger = logging.getLogger("commitlog")
# What users find on a tailer: the rest is between its classes, of which some are compiled.
_SHOWN = (
    "close",
    "damaged",
    "direction",
    "dropped_records",
    "follow",
    "name",
    "position",
    "read",
    "read_batch",
    "reading",
    "reading_batch",
    "search",
    "seek",
    "seek_cycle",
    "striding",
    "to_end",
    "to_start",
    "values",
)


class Tailer(ProcessBound, Seeker):
    """Reads records in their order, forward or backward; got from `CommitLog.tailer`. One thread at a time.

    It stands between two records. Iterating gives `Record` objects from there to the present end, or back to the oldest one; iterating
    again goes on from where it stands then; with a name, a loop that was left gives its last record again. `read`, `follow` and `values`
    come from the compiled base class, so that each record is one C call.

    Parameters
    ----------
    core : Core
        The log's kernel handle.
    queue : MappedFileQueue
        Its segments.
    index : LogIndex
        Finds records in them.
    start : {"first", "end"}, int or None
        The oldest record, the present end, or a record's position; None: where there is something to read in its direction.
    direction : {"forward", "backward"}
        Which way it reads first.
    visibility : {"committed", "appended", "flushed"}
        "committed": what every process sees. "appended": also what only this process's pool buffers have, which a kill would take
        back. "flushed": only what no crash can take back.
    on_damage : {"raise", "skip"}
        "skip" goes on at the next whole frame and counts in `damaged`: what stood in between is lost to this reader.
    log : CommitLog, optional
        Kept alive by this tailer: a log that is dropped is closed.
    """

    def __init__(
        self,
        core: Core,
        queue: MappedFileQueue,
        index: LogIndex,
        *,
        start: Start | None = None,
        direction: Direction = "forward",
        visibility: Visibility = "committed",
        on_damage: OnDamage = "raise",
        log: object = None,
    ) -> None:
        check_choice("visibility", visibility, ("committed", "appended", "flushed"))
        check_choice("on_damage", on_damage, ("raise", "skip"))
        self._log = log
        self._queue = queue
        self.log_index = index
        self._on_damage = on_damage
        self._visibility = visibility
        self._held: tuple[MappedFile, int] | None = None
        self._who = f"tailer {id(self):#x}"
        self.damaged: list[tuple[int, int | None]] = []
        self._file: TailerFile | None = None
        self.setup(core, 0, from_buffer=visibility == "appended", flushed_only=visibility == "flushed")
        self.direction = direction
        self.seek(("end" if direction == "backward" else "first") if start is None else start)

    def __dir__(self) -> list[str]:
        """What is meant for users."""
        return list(_SHOWN)

    # --- what the kernel asks --------------------------------------------------------------------------------------

    def open_segment(self, number: int) -> Segment | None:
        held = self._queue.hold(number, self._who)
        if held is None:
            self._refuse_gap(number)
            return None
        return self._enter(held)

    def open_before(self, number: int, place: int) -> Segment | None:
        held = self._queue.hold(number, self._who)
        if held is None:
            first = self._queue.first_number
            if place // self.core.segment_size < first:
                self._refuse_gap(number)
            if number >= first:
                raise PositionError(
                    f"the records before position {place} are missing, and older ones are there: go on at one of those",
                    path=self.core.path,
                    position=place,
                    first_position=first * self.core.segment_size,
                )
            return None
        return self._enter(held)

    def _enter(self, held: tuple[MappedFile, int]) -> Segment:
        self._leave()
        self._held = held
        file = held[0]
        return file.segment.share(self._queue, self.log_index, self.log_index.known_first_sequence(file.number))

    def index_of(self, segment: Segment, offset: int) -> SparseIndex:
        return self.log_index.reaching(segment, offset)

    def _refuse_gap(self, number: int) -> None:
        """No such segment: either it is yet to come, or it was deleted and this tailer stands in a gap."""
        # A join puts its last segment in place first: what is missing then is yet to come. It may have ended between the first two looks.
        if self._onward(number) is None or self._queue.joining:
            return
        onward = self._onward(number)
        if onward is None or onward == number:
            return
        raise PositionError(
            f"the records from here to {onward * self.core.segment_size} were deleted: go on with seek('first') or a later position",
            path=self.core.path,
            position=number * self.core.segment_size,
            first_position=onward * self.core.segment_size,
        )

    def _onward(self, number: int) -> int | None:
        """The first segment from a number on that is there."""
        return next((there for there in self._queue.numbers() if there >= number), None)

    def pass_damage(self, error: CorruptRecordError) -> int | None:
        self.damaged.append((error.position or 0, error.resume_position))
        if self._on_damage == "raise":
            return None
        return error.position if self.backward else error.resume_position

    def check_patience(self, timeout: Duration | None, idle: Idle) -> float | None:
        check_choice("idle", idle, _IDLES)
        return None if timeout is None else parse_duration(timeout, "timeout")

    def coming(self, timeout: float | None) -> Coming:
        from commitlog.tail.coming import Coming  # asyncio is imported by those who use it

        return Coming(self, timeout)

    def replay(self, iterator: Following, speed: float | None, max_pause: Duration | None) -> Replay:
        return Replay(self, iterator, Pace(speed, max_pause))

    def _leave(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held[0].release(held[1])

    # --- reading ---------------------------------------------------------------------------------------------------

    def read_batch(self, max_records: int = 65536, timeout: Duration | None = 0, idle: Idle = "backoff") -> Batch:
        """The next records in the tailer's direction as NumPy columns, at most `max_records` and about 16 MiB of them.

        Parameters
        ----------
        max_records : int
            At least 1.
        timeout, idle
            As for `read`: how long to wait for the first.

        Returns
        -------
        Batch
            In reading order. Empty when nothing came.
        """
        batch = self._take_batch(max_records, timeout, idle, keeps=True)
        self.save_place()
        return batch

    def _take_batch(self, max_records: int, timeout: Duration | None, idle: Idle, *, keeps: bool) -> Batch:
        most = whole_of(max_records)
        if most is None or most < 1:
            raise InvalidOptionError(f"max_records must be an int of at least 1, not {max_records!r}")
        most = min(most, _BATCH_MOST)
        batch = Batch(*self.batch(most))
        if len(batch) or timeout == 0 or self.backward:
            return batch
        seconds = self.check_patience(timeout, idle)
        seconds = _FOREVER_S * 24 * 365 if seconds is None else seconds
        deadline = time.monotonic() + seconds
        while not len(batch) and (left := deadline - time.monotonic()) > 0:
            if keeps:
                self.save_place()  # what was passed was no record, and a writer may wait for it
            if self.wait(IDLE[idle], left):
                batch = Batch(*self.batch(most))
        return batch

    @contextlib.contextmanager
    def reading(self, timeout: Duration | None = 0, idle: Idle = "backoff") -> Iterator[Record | None]:
        """The next record for the length of a `with`: an exception in it takes the tailer back, and the same record comes again.

        Parameters
        ----------
        timeout, idle
            As for `read`.

        Yields
        ------
        Record or None
            None when nothing came in time.
        """
        with self._or_back():
            yield self.take(timeout, idle)

    @contextlib.contextmanager
    def reading_batch(self, max_records: int = 65536, timeout: Duration | None = 0, idle: Idle = "backoff") -> Iterator[Batch]:
        """The next records for the length of a `with`: an exception in it takes the tailer back, and the same records come again.

        Parameters
        ----------
        max_records, timeout, idle
            As for `read_batch`.

        Yields
        ------
        Batch
            Empty when nothing came in time.
        """
        with self._or_back():
            yield self._take_batch(max_records, timeout, idle, keeps=False)

    @contextlib.contextmanager
    def _or_back(self) -> Iterator[None]:
        """Keep the place that is reached at the end, or go back to the one at the start."""
        before = self.position
        try:
            yield
        except BaseException:
            with contextlib.suppress(CommitLogError):  # the log is closed
                self.move_to(before)
            raise
        self.save_place()

    # --- the name --------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """The name under which its place is kept; None: it is not kept."""
        return None if self._file is None else self._file.name

    @property
    def dropped_records(self) -> int:
        """Records that writers dropped because this tailer was too far behind, ever since it was made or reset; 0 without a name."""
        return 0 if self._file is None else self._file.page.dropped

    def keep_in(self, file: TailerFile) -> None:
        """Keep the place in a tailer's file from now on, which is closed with this tailer. Stand where the file says, unless it is new."""
        self._file = file
        if not file.created:
            self._go_to(file.page.position)
        self.name_place(file.page)

    def _go_to(self, position: int) -> None:
        """To a place that was saved. What was deleted since is told when it is to be read; behind the end nothing was ever read."""
        end = max(self.core.tail_position, self.visible_end)
        if position > end:
            _logger.warning("tailer %r of %s was at %d, and the log ends at %d: it goes on there", self.name, self.core.path, position, end)
        self.move_to(min(position, end))

    # --- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the segment it stands in, and of its name: others may then read under it. Idempotent; dropping the tailer does the
        same."""
        self.drop_place()
        self._leave()
        if self._file is not None:
            self.end()
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self._leave()
        except (AttributeError, CommitLogError):
            return  # its own constructor had refused
