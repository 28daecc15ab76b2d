"""LogPostings: the posting lists of a log's sealed segments, for tailers that select records."""

from __future__ import annotations

import contextlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

import numpy as np

from commitlog._kernel.readers import Selection, read_postings
from commitlog._kernel.segments import HEADER_SIZE, Segment
from commitlog.base.failpoint import failpoint
from commitlog.segment import posting_file
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.segment.posting_file import (
    PART_RECORDS,
    DamagedPostingsError,
    Kind,
    Offsets,
    Pairs,
    PostingFile,
    hash_of_key,
    hash_of_type,
)
from commitlog.segment.seal_table import SealTable
from commitlog.segment.segment_header import Seal

_WHO = "posting lists"
_FILES_KEPT = 1 << 8
_TABLES_KEPT = 64 << 20  # bytes
_FULL, _AT_END = 0, 1
_RETRY_S = 60.0  # after the system refused a file
# A file is written only if the file system then has as much free space as so many segments: the
# next appends need it.
_SEGMENTS_FREE = 2


class _UnlistedError(Exception):
    """A segment gets no lists: it is damaged, or the build was stopped."""


def _go_on() -> bool:
    return False


class LogPostings:
    """The posting lists of one open log. Any thread may call; two threads may do the same work.

    The lists of a sealed segment are read from its posting file. If that is missing, damaged or
    stale, a `writable` log builds it, and any other handle scans the segment.
    """

    def __init__(self, queue: MappedFileQueue, seals: SealTable, *, writable: bool) -> None:
        self._queue = queue
        self._directory = queue.directory
        self._seals = seals
        self._writable = writable
        self._files: OrderedDict[int, PostingFile] = OrderedDict()
        self._building: set[int] = set()
        self._retry_at_s = 0.0
        self._listed_below = 0

    def forked(self) -> None:
        """In the child of a fork, which no building thread has reached."""
        self._building = set()

    # --- reading ----------------------------------------------------------------------------------

    def listed(self, segment: Segment, selection: Selection) -> Offsets | None:
        """Return the ascending offsets of at least all selected records of a held segment; None:
        the caller has to scan it.
        """
        number, seal = segment.number, self._seals.get(segment.number)
        if seal is None or seal.segment_id != segment.id:
            return None
        file = self._files.get(number)
        if file is None or file.seal_crc != seal.crc:
            file = self._opened(number, seal)
        for _ in range(2):
            if file is None:
                file = self._build(segment, seal, _go_on)
            if file is None:
                return None
            try:
                return _selected(file, selection)
            except (DamagedPostingsError, OSError):
                self._files.pop(number, None)
                file = None  # it is built again, once
        return None

    def lacks(self, number: int, selection: Selection) -> bool:
        """Return whether the lists of a segment show that it has no selected record."""
        seal = self._seals.get(number)
        if seal is None:
            return False
        file = self._files.get(number)
        if file is None or file.seal_crc != seal.crc:
            file = self._opened(number, seal)
        try:
            found = None if file is None else _selected(file, selection)
        except (DamagedPostingsError, OSError):
            return False
        return found is not None and not len(found)

    def _opened(self, number: int, seal: Seal) -> PostingFile | None:
        file, _ = posting_file.read(self._directory, number, seal)
        if file is not None:
            files = self._files
            files[number] = file
            kept = sum(each.table_bytes for each in list(files.values()))
            while len(files) > 1 and (kept > _TABLES_KEPT or len(files) > _FILES_KEPT):
                try:
                    _, oldest = files.popitem(last=False)
                except KeyError:  # another thread was faster
                    break
                kept -= oldest.table_bytes
        return file

    # --- building ---------------------------------------------------------------------------------

    def build_missing(self, is_ending: Callable[[], bool]) -> None:
        """Build the lists of all sealed segments that have none, until the log is ending."""
        number = max(self._listed_below, self._queue.first_number)
        while not is_ending():
            seal = self._seals.get(number)
            if seal is None:
                return
            if posting_file.read(self._directory, number, seal)[1] != "sound":
                with self._queue.held(number, _WHO) as segment:
                    if segment is not None and segment.id == seal.segment_id:
                        self._build(segment, seal, is_ending)
                if time.monotonic() < self._retry_at_s:
                    return
            number += 1
            self._listed_below = number

    def _build(
        self, segment: Segment, seal: Seal, is_ending: Callable[[], bool]
    ) -> PostingFile | None:
        """Build, file and open the lists of a sealed segment. Return None if there are none: it is
        damaged, the system refuses the file, or another thread builds it.
        """
        number = segment.number
        if not self._writable or number in self._building or not self._has_room():
            return None
        self._building.add(number)
        try:
            parts = self._parts(segment, seal, is_ending)
            if not posting_file.write(self._directory, number, seal, parts):
                self._retry_at_s = time.monotonic() + _RETRY_S
                return None
        except _UnlistedError:
            return None
        finally:
            self._building.discard(number)
        failpoint("postings filed")
        if not self._directory.has(number):  # retention has deleted it meanwhile
            self._directory.remove_index(number)
            return None
        return self._opened(number, seal)

    def _has_room(self) -> bool:
        """Return whether the file system has room for a file, and for the next segments."""
        if time.monotonic() < self._retry_at_s:
            return False
        with contextlib.suppress(OSError):
            status = os.fstatvfs(self._directory.fd)
            if status.f_bavail * status.f_frsize > _SEGMENTS_FREE * self._directory.segment_size:
                return True
        self._retry_at_s = time.monotonic() + _RETRY_S
        return False

    def _parts(
        self, segment: Segment, seal: Seal, is_ending: Callable[[], bool]
    ) -> Iterator[tuple[Kind, Pairs, int]]:
        """Yield what the lists are made of, `PART_RECORDS` records at a time."""
        most = min(PART_RECORDS, max(seal.record_count, 1))
        types, keys = np.empty(most, np.uint64), np.empty(most, np.uint64)
        offset, code, counted = HEADER_SIZE, _FULL, 0
        while code == _FULL:
            records, keyed, offset, code = read_postings(
                self._queue.core, segment, offset, types, keys
            )
            counted += records
            if records:
                yield "types", types[:records], records
                yield "keys", keys[:keyed], records
            if is_ending():
                raise _UnlistedError
            failpoint("postings part written")
        if code != _AT_END or counted != seal.record_count:
            raise _UnlistedError


def _selected(file: PostingFile, selection: Selection) -> Offsets | None:
    found: Offsets | None = None
    if selection.types is not None:
        found = _union(file, selection.types)
    if selection.key is not None:
        keyed = file.find("keys", hash_of_key(selection.key))
        if found is None or keyed is None:
            found = keyed if found is None else found
        else:
            found = np.intersect1d(found, keyed, assume_unique=True)
    if selection.noted_type is None or found is None:
        return found
    noted = file.find("types", hash_of_type(selection.noted_type))
    return None if noted is None else np.union1d(found, noted)


def _union(file: PostingFile, types: tuple[int, ...]) -> Offsets | None:
    """Return the offsets of the records of any of the types; None if one of them has no list."""
    listed = np.empty(0, np.uint32)
    for type in types:
        offsets = file.find("types", hash_of_type(type))
        if offsets is None:
            return None
        listed = np.union1d(listed, offsets) if len(listed) else offsets
    return listed
