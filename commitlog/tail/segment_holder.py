"""SegmentHolder: holds the segment that a cursor reads."""

from __future__ import annotations

from typing import Literal

from commitlog._kernel.engine import Core
from commitlog._kernel.segments import Segment, SparseIndex
from commitlog.errors import CorruptRecordError, PositionError
from commitlog.segment.mapped_file import MappedFile
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.tail.index import LogIndex

OnDamage = Literal["raise", "skip"]


class SegmentHolder:
    """Gives a cursor its segments and holds one at a time: it is the cursor's `CursorPolicy`.

    Parameters
    ----------
    core : Core
        The log's kernel handle.
    queue : MappedFileQueue
        The log's segments.
    index : LogIndex
        Finds records in them.
    on_damage : {"raise", "skip"}
        Whether the cursor steps over damage.

    Attributes
    ----------
    damaged : list of (int, int or None)
        Where damage was met, and where the next whole frame is.
    """

    def __init__(
        self,
        core: Core,
        queue: MappedFileQueue,
        index: LogIndex,
        on_damage: OnDamage,
    ) -> None:
        self.damaged: list[tuple[int, int | None]] = []
        self.name = f"tailer {id(self):#x}"
        self._core = core
        self._queue = queue
        self._index = index
        self._on_damage = on_damage
        self._held: tuple[MappedFile, int] | None = None

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        """Hold no segment."""
        held, self._held = self._held, None
        if held is not None:
            held[0].release(held[1])

    # --- what the cursor asks ----------------------------------------------------------------

    def next_segment(self, number: int) -> Segment | None:
        """Hold a segment to read forward in; None if it is not there yet.

        Raises
        ------
        PositionError
            The segment was deleted.
        """
        held = self._queue.hold(number, self.name)
        if held is None:
            self._refuse_gap(number)
            return None
        return self._enter(held)

    def segment_before(self, number: int, place: int) -> Segment | None:
        """Hold a segment to read backward in; None if the log begins at `place`.

        Raises
        ------
        PositionError
            The segment was deleted, or is missing between others.
        """
        held = self._queue.hold(number, self.name)
        if held is not None:
            return self._enter(held)
        first = self._queue.first_number
        if place // self._core.segment_size < first:
            self._refuse_gap(number)
        if number >= first:
            raise PositionError(
                f"the records before position {place} are missing, and older ones are there: go "
                "on at one of those",
                path=self._core.path,
                position=place,
                first_position=first * self._core.segment_size,
            )
        return None

    def index_of(self, segment: Segment, offset: int) -> SparseIndex:
        """The index of a segment, up to an offset at least if what is below can be seen."""
        return self._index.reaching(segment, offset)

    def skips_damage(self, error: CorruptRecordError) -> bool:
        """Note damage; whether the cursor steps over it."""
        self.damaged.append((error.position or 0, error.resume_position))
        return self._on_damage == "skip"

    def _enter(self, held: tuple[MappedFile, int]) -> Segment:
        self.release()
        self._held = held
        file = held[0]
        first_sequence = self._index.known_first_sequence(file.number)
        return file.segment.share(self._queue, self._index, first_sequence)

    def _refuse_gap(self, number: int) -> None:
        """Raise if a missing segment was deleted, and is not yet to come."""
        # A join puts its last segment in place first, so what is missing then is yet to come.
        # The join may end between the first two looks, hence the third.
        if self._onward(number) is None or self._queue.joining:
            return
        onward = self._onward(number)
        if onward is None or onward == number:
            return
        end = onward * self._core.segment_size
        raise PositionError(
            f"the records from here to {end} were deleted: go on with seek('first') or a later "
            "position",
            path=self._core.path,
            position=number * self._core.segment_size,
            first_position=end,
        )

    def _onward(self, number: int) -> int | None:
        """The first segment from a number on that is there."""
        return next((there for there in self._queue.numbers() if there >= number), None)
