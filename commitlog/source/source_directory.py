"""SourceDirectory: present the segments of a source as a log's directory to readers."""

from __future__ import annotations

import os

from commitlog._kernel.failure import DAMAGE
from commitlog._kernel.segments import FRAME_ALIGN, HEADER_SIZE, Segment
from commitlog.base.polling import attempts
from commitlog.base.regular_file import read_range
from commitlog.errors import CorruptSegmentError, PositionError
from commitlog.segment.directory import NUMBER_MOST, LogDirectory, open_folder
from commitlog.segment.seal_table import SealTable
from commitlog.segment.segment_cache import SegmentCache
from commitlog.segment.segment_header import Seal, SegmentHeader
from commitlog.source.growing import Growing
from commitlog.source.segment_source import SegmentRef, SegmentSource

_LISTING_LAG_S = 1.0


class SourceDirectory(LogDirectory):
    """The segments of a source, each copied into a temporary folder on its first use.

    The most recently used ones stay there until this is closed: up to `cache_bytes`, but at least
    three. What the source returns is checked before it is used. This owns the source, also if the
    constructor raises.

    Parameters
    ----------
    source : SegmentSource
        Where the segments come from.
    cache_bytes : int
        How much stays in the folder.
    folder : str, optional
        Map the source's one segment in this folder, where it has its own name, and copy nothing.
    """

    idle_kept = 1
    viewed_kept = 1

    def __init__(self, source: SegmentSource, cache_bytes: int, folder: str | None = None) -> None:
        self.source = source
        self.kind = source.kind
        self.growing: Growing | None = None
        self._refs: dict[int, SegmentRef] = {}
        self._listed: object = None
        self._pid = os.getpid()
        self._cache: SegmentCache | None = None
        try:
            self._begin(cache_bytes, folder)
        except BaseException:
            self.close()
            raise

    def _begin(self, cache_bytes: int, folder: str | None) -> None:
        source, live = self.source, self.source.live
        size = source.identity.segment_size
        if folder is None:
            self._cache = SegmentCache(
                size,
                cache_bytes,
                write=self._fill,
                has=self._may_read_ahead,
                path_of=source.locate,
            )
            folder = self._cache.folder
        super().__init__(source.location, source.identity, open_folder(folder))
        if live is not None:
            assert self._cache is not None
            self.growing = Growing(self, self._cache.refused, live.read)
            live.follow(self.growing)
        self._present()

    def forked(self) -> None:
        self.source.after_fork()
        if self._cache is not None:
            self._cache.forked()

    def close(self) -> None:
        self.source.close()
        super().close()
        if self._pid == os.getpid() and self.growing is not None:
            self.growing.close()
        if self._cache is not None:
            self._cache.close()

    def check(self) -> None:
        self.source.check()

    def look_again(self) -> None:
        self.source.list_again()

    # --- what the source has ----------------------------------------------------------------------

    def _present(self) -> dict[int, SegmentRef]:
        """Return the segments of the source, checked if the list is a new one."""
        listed = self.source.segments()
        if listed is not self._listed:
            refs, last = {}, -1
            for ref in listed:
                if type(ref.number) is not int or not last < ref.number <= NUMBER_MOST:
                    raise self._unfit(
                        f"lists segment {ref.number!r} behind {last}: numbers ascend, from 0 to "
                        f"{NUMBER_MOST}"
                    )
                if type(ref.stored_bytes) is not int or ref.stored_bytes < 0:
                    raise self._unfit(f"says that a segment takes {ref.stored_bytes!r} bytes")
                refs[ref.number] = ref
                last = ref.number
            self._refs, self._listed = refs, listed
        return self._refs

    def _unfit(self, what: str, position: int | None = None) -> CorruptSegmentError:
        return CorruptSegmentError(
            f"the source of this log {what}: use another copy, or report it to the author of the "
            "source",
            path=self.source.location,
            position=position,
        )

    def end(self) -> int:
        """Return the position at which the log ends, checked against the list of segments."""
        end, refs = self.source.end(), self._present()
        if end is None:
            return self._find_end()
        reached = (max(refs) + 1) * self.segment_size if refs else 0
        if type(end) is not int or end % FRAME_ALIGN or not 0 <= end <= reached:
            raise self._unfit(
                f"says that the log ends at {end!r}, but its segments end at {reached}, and "
                f"positions are multiples of {FRAME_ALIGN}"
            )
        return end

    def _find_end(self) -> int:
        """Return the position at which the records end: from there on a bad frame is the end, and
        not damage.

        A sealed segment is whole. In one that was copied while it was written, the first invalid
        frame is the end, or damage if whole frames follow it. Segments without a record, which
        were made ahead, are behind the end. If segments are missing before them, their records are
        lost: the end is behind the missing ones, so that a reader meets the damage.
        """
        numbers = self.segment_numbers()
        onward = numbers[-1] if numbers else 0
        for number in reversed(numbers):
            if number < onward - 1:
                return onward * self.segment_size
            onward = number
            with self.opened_segment(number) as segment:
                if segment.sealed() is not None:
                    return (number + 1) * self.segment_size
                stopped, code = segment.scan()[:2]
                end = segment.certain_end(stopped) if code == DAMAGE else stopped
                if end > HEADER_SIZE or number == numbers[0]:
                    return number * self.segment_size + end
        return 0

    def sequences(self) -> tuple[int, int] | None:
        """Return the first sequence, and the one behind the last, from the first and last seal, and
        from the records behind the last seal; None if the log grows, or does not begin with a seal.
        """
        refs = self._present()
        whole = [number for number, ref in refs.items() if ref.whole]
        if self.growing is not None or (refs and not whole and 0 not in refs):
            return None
        first = following = 0
        if whole:
            first = self._seal_of(whole[0]).first_sequence
            following = self._seal_of(whole[-1]).next_sequence
        for number in [number for number in refs if not whole or number > whole[-1]]:
            with self.opened_segment(number) as segment:
                following += segment.scan()[2]
        return first, following

    def _seal_of(self, number: int) -> Seal:
        seal = SealTable(self).get(number)
        if seal is None:
            raise CorruptSegmentError(
                "this segment is not sealed, so it is damaged: restore it from another copy",
                path=self.segment_path(number),
                position=number * self.segment_size,
            )
        return seal

    # --- a directory of segments ------------------------------------------------------------------

    def segment_path(self, number: int) -> str:
        return self.source.locate(number)

    def segment_numbers(self) -> list[int]:
        return list(self._present())

    def has(self, number: int) -> bool:
        return number in self._present()

    def is_whole(self, number: int) -> bool:
        """Return whether all of a segment is there, so that nothing is added to it any more."""
        ref = self._present().get(number)
        return ref is not None and ref.whole

    def _may_read_ahead(self, number: int) -> bool:
        """What is in parts now may be whole when it is its turn."""
        return self.has(number) if self.growing is not None else self.is_whole(number)

    @property
    def joining(self) -> bool:
        return False

    def disk_bytes(self, number: int) -> int:
        """Return what a segment takes where it is; 0 if it is not there."""
        ref = self._present().get(number)
        return 0 if ref is None else ref.stored_bytes

    def whole_disk_bytes(self) -> int:
        return sum(ref.stored_bytes for ref in self._present().values())

    def read_header(self, number: int) -> bytes | None:
        """Return the first page of a segment. Its seal counts when all of its records are here."""
        growing = self.growing
        if growing is None and self._cache is not None and number in self._cache:
            page = super().read_header(number)
            if page is not None:  # else the cache has just dropped it
                return page
        page = self.source.header(number)
        if page is None:
            return None
        self._check_header(number, page)
        if growing is not None and (number + 1) * self.segment_size > growing.committed:
            return SegmentHeader.without_seal(page)
        return page

    def _check_header(self, number: int, page: bytes) -> None:
        if not SegmentHeader(page).is_of(self.identity, number):
            raise self._unfit(
                "gave a page that is not the header of this segment of this log",
                number * self.segment_size,
            )

    def open_segment(self, number: int, *, writable: bool) -> Segment:
        self.fetch(number)
        return super().open_segment(number, writable=writable)

    def fetch(self, number: int) -> None:
        """Copy a segment into the folder, unless it is there."""
        if self._cache is None:
            if not self.has(number):
                raise PositionError(
                    "this is one segment of a log, but the position is in another: open the log",
                    path=self.path,
                    position=number * self.segment_size,
                    first_position=min(self._present()) * self.segment_size,
                )
        elif self.has_or_deleted(number):
            self._cache.fetch(number)

    def has_or_deleted(self, number: int) -> bool:
        """Return whether a segment is there. If it is missing between others, raise
        `CorruptSegmentError`: retention deletes the oldest ones.
        """
        # A listing may lag: the segment was stored, or those before it were deleted.
        for _ in attempts(_LISTING_LAG_S, f"segment {number}", interval_s=_LISTING_LAG_S / 4):
            refs = self._present()
            if number in refs:
                return True
            if not refs or not min(refs) < number < max(refs):
                return False
            self.source.list_again()
        raise CorruptSegmentError(
            f"segment {number} is missing, and there are segments before and behind it: restore it "
            "from another copy; if the listing may be behind, try again first",
            path=self.segment_path(number),
            position=number * self.segment_size,
        )

    def _fill(self, number: int, fd: int) -> None:
        """Have a segment written, and check it: a mapping of a shorter file would end in SIGBUS."""
        if self.growing is not None:
            self.growing.fill(number, fd)
        else:
            self.source.fill(number, fd)
        base, size = number * self.segment_size, os.fstat(fd).st_size
        if size != self.segment_size:
            raise self._unfit(
                f"wrote a segment of {size} bytes, and not of {self.segment_size}", base
            )
        self._check_header(number, read_range(fd, HEADER_SIZE, 0))
