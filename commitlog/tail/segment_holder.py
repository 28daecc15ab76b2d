"""SegmentHolder: hold the segment that a cursor reads."""

from __future__ import annotations

import contextlib
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from commitlog._kernel.engine import REFUSED_READ_ONLY
from commitlog._kernel.failure import ROLLED_BACK
from commitlog._kernel.readers import Selection
from commitlog._kernel.segments import Segment, SparseIndex
from commitlog.errors import CommitLogError, CorruptRecordError, PositionError
from commitlog.segment.mapped_file_queue import MappedFile
from commitlog.tail.index import LogIndex

OnDamage = Literal["raise", "skip"]
_REPLACED = (
    "the segment's file was replaced after this reader had opened it, as overlayfs does at the "
    "first write of another process, and the new file is sound here: open the log again, and open "
    "it for writing before its readers"
)


class SegmentHolder:
    """Give a cursor its segments and hold one at a time: the cursor's policy.

    `damaged` has the start of each damaged range met, and the next whole frame.
    """

    def __init__(self, index: LogIndex, on_damage: OnDamage) -> None:
        self.damaged: list[tuple[int, int | None]] = []
        self.name = f"tailer {id(self):#x}"
        self._index = index
        self._queue = index.queue
        self._core = index.queue.core
        self._on_damage = on_damage
        self._held: tuple[MappedFile, int] | None = None

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held[0].release(held[1])

    # --- the cursor's policy -----------------------------------------------------------------

    def next_segment(self, number: int) -> Segment | None:
        """Hold a segment to read forward in; None if it is still to come."""
        held = self._queue.hold(number, self.name)
        if held is None and self._refuse_gap(number):
            held = self._queue.hold(number, self.name)
        return None if held is None else self._enter(held)

    def segment_before(self, number: int, place: int) -> Segment | None:
        """Hold a segment to read backward in; None if the log begins at `place`. If it was deleted,
        or is missing between others, raise `PositionError`.
        """
        held = self._queue.hold(number, self.name)
        if held is not None:
            return self._enter(held)
        first = self._queue.first_number
        if number >= first or place // self._core.segment_size < first:
            first = self._queue.first_remaining()
            held = self._queue.hold(number, self.name)
            if held is not None:
                return self._enter(held)
        if place // self._core.segment_size < first:
            self._refuse_gap(number)
        if number >= first:
            raise PositionError(
                f"the segment before position {place} is missing, and older ones exist: continue "
                "in one of those",
                path=self._core.path,
                position=place,
                first_position=first * self._core.segment_size,
            )
        return None

    def index_of(self, segment: Segment, offset: int) -> SparseIndex:
        """Return the index of a segment, extended to an offset as far as visible."""
        return self._index.reaching(segment, offset)

    def listed(self, segment: Segment, selection: Selection) -> NDArray[np.uint32] | None:
        """Return where the selected records of a segment are; None: the cursor scans it."""
        self._queue.keep_viewed()
        return self._index.postings.listed(segment, selection)

    def skips_damage(self, error: CorruptRecordError) -> bool:
        """Record damage; return whether the cursor steps over it."""
        if self._is_replaced(error.position or 0):
            error.args = (_REPLACED,)
        self.damaged.append((error.position or 0, error.resume_position))
        return self._on_damage == "skip"

    def _is_replaced(self, position: int) -> bool:
        """Return whether the path of a segment leads to a sound frame where its mapping has none.

        A reader that opened a file before a writer of the same log keeps the lower file of an
        overlayfs, and the writer gets a copy.
        """
        number, offset = divmod(position, self._core.segment_size)
        directory = self._queue.directory
        if self._core.refusal != REFUSED_READ_ONLY:
            return False
        with contextlib.suppress(CommitLogError, OSError), directory.opened_segment(number) as new:
            return new.step(offset)[0] in (0, ROLLED_BACK)
        return False

    def _enter(self, held: tuple[MappedFile, int]) -> Segment:
        self.release()
        self._held = held
        file = held[0]
        # The seal in the mapping is valid even if retention has deleted the file.
        seal = file.segment.sealed()
        first_sequence = (
            self._index.known_first_sequence(file.number) if seal is None else int(seal[1])
        )
        return file.segment.share(self._queue, self._index, first_sequence)

    def _refuse_gap(self, number: int) -> bool:
        """Raise if a missing segment was deleted, and is not one that a join has yet to place.
        Return whether it is there by now.
        """
        # A join places its last segment first. It may end between the first two checks, hence the
        # third.
        if self._onward(number) is None or self._queue.directory.joining:
            return False
        self._queue.directory.look_again()
        onward = self._onward(number)
        if onward is None or onward == number:
            return onward == number
        end = onward * self._core.segment_size
        raise PositionError(
            f"the records from here to {end} were deleted: continue with seek('first') or a later "
            "position",
            path=self._core.path,
            position=number * self._core.segment_size,
            first_position=end,
        )

    def _onward(self, number: int) -> int | None:
        return next((there for there in self._queue.numbers() if there >= number), None)
