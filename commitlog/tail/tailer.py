"""Tailer: a reader's place in a log, and how it goes on from there."""

from __future__ import annotations

import time
from typing import Literal, Self, get_args

from commitlog._kernel.core import Core
from commitlog._kernel.failure import ROLLED_BACK
from commitlog._kernel.reader import IDLE, Reader
from commitlog._kernel.segment import Segment
from commitlog._kernel.segment_file import HEADER_SIZE
from commitlog.errors import CommitLogError, CorruptRecordError, InvalidOptionError, PositionError
from commitlog.options import Duration, parse_duration
from commitlog.segment.mapped_file import MappedFile
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.tail.batch import Batch

Start = Literal["first", "end"] | int
Visibility = Literal["committed", "appended", "flushed"]
OnDamage = Literal["raise", "skip"]
Idle = Literal["spin", "yield", "backoff", "block"]
_IDLES = get_args(Idle)
_FOREVER_S = 3600.0


def _is_whole(value: object) -> bool:
    """An int that is not a bool: callers without a type checker pass anything."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_frame(segment: Segment, offset: int) -> bool:
    """Whether a frame starts at an offset. Inside a record stand any bytes, so only a CRC that matches, or the way there from the
    segment's start, proves it."""
    whole = (0, ROLLED_BACK)
    if segment.step(offset)[0] in whole or (segment.buffered and segment.step(offset, buffered=True)[0] in whole):
        return True
    stopped: int = segment.scan(0, offset)[0]
    return stopped == offset


def _chosen(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidOptionError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


class Tailer(Reader):
    """Reads records in their order; got from `CommitLog.tailer`. One thread at a time.

    Iterating gives `Record` objects from where it stands to the present end; iterating again goes on from there. `read`, `follow` and
    `values` come from the compiled base class, so that each record is one C call.

    Parameters
    ----------
    core : Core
        The log's kernel handle.
    queue : MappedFileQueue
        Its segments.
    start : {"first", "end"} or int
        The oldest record, the present end, or a record's position.
    visibility : {"committed", "appended", "flushed"}
        "committed": what every process sees. "appended": also what only this process's pool buffers have, which a kill would take
        back. "flushed": only what no crash can take back.
    on_damage : {"raise", "skip"}
        "skip" goes on at the next whole frame and counts in `damaged`: what stood in between is lost to this reader.
    """

    def __init__(
        self,
        core: Core,
        queue: MappedFileQueue,
        *,
        start: Start = "first",
        visibility: Visibility = "committed",
        on_damage: OnDamage = "raise",
    ) -> None:
        _chosen("visibility", visibility, ("committed", "appended", "flushed"))
        _chosen("on_damage", on_damage, ("raise", "skip"))
        self._queue = queue
        self._on_damage = on_damage
        self._visibility = visibility
        self._held: tuple[MappedFile, int] | None = None
        self._who = f"tailer {id(self):#x}"
        self.damaged: list[tuple[int, int | None]] = []
        self.setup(core, 0, from_buffer=visibility == "appended", flushed_only=visibility == "flushed")
        self.seek(start)

    # --- where it stands -------------------------------------------------------------------------------------------

    @property
    def visible_end(self) -> int:
        """Where what this tailer may see ends at present."""
        core = self.core
        ends = {"committed": core.committed_position, "appended": core.appended_position, "flushed": core.flushed_position}
        return ends[self._visibility]

    def seek(self, position: Start) -> None:
        """Stand at the oldest record, the present end, or a position.

        Parameters
        ----------
        position : {"first", "end"} or int
            Where to. A position must be that of a record, or the end.

        Raises
        ------
        PositionError
            No record starts there, or it was deleted; the error knows the first position that there is.
        """
        if position == "first":
            self.move_to(self._first_position())
        elif position == "end":
            self.move_to(self.visible_end)
        elif not _is_whole(position):
            raise InvalidOptionError(f"start must be 'first', 'end' or a position, not {position!r}")
        else:
            self._check_position(position)
            self.move_to(position)

    def _first_position(self) -> int:
        return self._queue.first_number * self.core.segment_size

    def _check_position(self, position: int) -> None:
        first = self._first_position()
        end = max(self.core.tail_position, self.visible_end)
        offset = position % self.core.segment_size
        if first <= position <= end and (offset == 0 or position == end):
            return
        if first <= position < end and offset % 8 == 0 and offset >= HEADER_SIZE:
            held = self._queue.hold(position // self.core.segment_size, self._who)
            if held is not None:
                file, token = held
                try:
                    if _is_frame(file.segment, offset):
                        return
                finally:
                    file.release(token)
        raise PositionError(
            f"no record starts here: the log's positions go from {first} to {end}; use a position that an append or a record gave",
            path=self.core.path,
            position=position,
            first_position=first,
        )

    # --- what the kernel asks --------------------------------------------------------------------------------------

    def open_segment(self, number: int) -> Segment | None:
        held = self._queue.hold(number, self._who)
        if held is None:
            self._refuse_gap(number)
            return None
        self._leave()
        self._held = held
        return held[0].segment.share(self._queue)

    def _refuse_gap(self, number: int) -> None:
        """No such segment: either it is yet to come, or it was deleted and this tailer stands in a gap."""
        numbers = self._queue.numbers()
        if not numbers or numbers[-1] < number:
            return
        onward = next((there for there in numbers if there >= number), None)
        if onward is None or onward == number:
            return
        raise PositionError(
            f"the records from here to {onward * self.core.segment_size} were deleted: go on with seek('first') or a later position",
            path=self.core.path,
            position=number * self.core.segment_size,
            first_position=onward * self.core.segment_size,
        )

    def pass_damage(self, error: CorruptRecordError) -> int | None:
        self.damaged.append((error.position or 0, error.resume_position))
        return error.resume_position if self._on_damage == "skip" else None

    def check_patience(self, timeout: Duration | None, idle: Idle) -> float | None:
        _chosen("idle", idle, _IDLES)
        return None if timeout is None else parse_duration(timeout, "timeout")

    def _leave(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held[0].release(held[1])

    # --- reading ---------------------------------------------------------------------------------------------------

    def read_batch(self, max_records: int = 65536, timeout: Duration | None = 0, idle: Idle = "backoff") -> Batch:
        """The next records as NumPy columns, at most `max_records` and about 16 MiB of them.

        Parameters
        ----------
        max_records : int
            At least 1.
        timeout, idle
            As for `read`: how long to wait for the first.

        Returns
        -------
        Batch
            Empty when nothing came.
        """
        if not _is_whole(max_records) or max_records < 1:
            raise InvalidOptionError(f"max_records must be an int of at least 1, not {max_records!r}")
        batch = Batch(*self.batch(max_records))
        if len(batch) or timeout == 0:
            return batch
        seconds = self.check_patience(timeout, idle)
        seconds = _FOREVER_S * 24 * 365 if seconds is None else seconds
        deadline = time.monotonic() + seconds
        while not len(batch) and (left := deadline - time.monotonic()) > 0:
            if self.wait(IDLE[idle], left):
                batch = Batch(*self.batch(max_records))
        return batch

    # --- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the segment it stands in. Idempotent; dropping the tailer does the same."""
        self.drop_place()
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self._leave()
        except (AttributeError, CommitLogError):
            return  # its own constructor had refused
