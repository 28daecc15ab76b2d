"""Repairs one segment file: its length, its header, its frames and its seal; copies it before."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Sequence

from commitlog._kernel import segments as kernel
from commitlog._kernel.failure import HEADER, VERSION
from commitlog._kernel.segments import (
    FRAME_LIMIT,
    HEADER_SIZE,
    OPENED_AT,
    SEAL_AT,
    SEAL_SIZE,
    Segment,
)
from commitlog.base.failpoint import failpoint
from commitlog.base.regular_file import opened_regular, write_whole
from commitlog.base.temporary_file import temporary_file
from commitlog.repair.extent import RecordedEnd, create_blank
from commitlog.repair.lost_identity import read_page
from commitlog.repair.lost_segment_id import find_segment_id
from commitlog.repair.reports import Damage
from commitlog.segment.directory import LogDirectory, segment_name
from commitlog.segment.new_file import put_aside

_CHUNK = 1 << 20


class KeptFiles:
    """Keep the files of a log's directory as they were before a repair, and list the copies."""

    def __init__(self, dir_fd: int, path: str, copies: list[str]) -> None:
        self._dir_fd = dir_fd
        self._path = path
        self._copies = copies
        self._kept: set[str] = set()

    def copy(self, name: str, size: int) -> bool:
        """Copy a file, at most `size` bytes of it, durably; return False if it was kept before."""
        if name in self._kept:
            return False
        with opened_regular(name, dir_fd=self._dir_fd) as source:
            mode = stat.S_IMODE(os.fstat(source).st_mode)
            with temporary_file(self._dir_fd, name, mode) as (target, temporary):
                left = size
                while left and (copied := os.sendfile(target, source, None, min(_CHUNK, left))):
                    left -= copied
                os.fsync(target)
                self._keep(name, temporary)
        failpoint("copied")
        return True

    def move_away(self, name: str) -> None:
        """Rename a file to the name of a copy, which neither readers nor writers use."""
        self._keep(name, name)
        failpoint("moved away")

    def _keep(self, name: str, source: str) -> None:
        copy = put_aside(self._dir_fd, source, name, ".broken")
        self._kept.add(name)
        self._copies.append(os.path.join(self._path, copy))


Act = Callable[..., bool]


class SegmentRepair:
    """The steps that change segments; `act` records one and says whether to execute it."""

    def __init__(
        self, directory: LogDirectory, recorded: RecordedEnd, kept: KeptFiles, act: Act
    ) -> None:
        self._directory = directory
        self._recorded = recorded
        self._kept = kept
        self._act = act
        self._fd = directory.fd
        self._size = directory.segment_size

    def mend_length(self, number: int) -> None:
        """Extend a file that was cut short; the lost bytes are damage, which is marked later."""
        name = segment_name(number * self._size)
        length = os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_size
        if length >= self._size or not self._act(
            f"extended from {length} bytes to {self._size}", name, number * self._size + length
        ):
            return
        self._copy(name)
        with self._directory.opened_file(number, os.O_RDWR) as fd:
            os.posix_fallocate(fd, 0, self._size)
            os.fsync(fd)
        failpoint("extended")

    def mend_header(self, number: int) -> None:
        """Rebuild the identity part of a header; only the file itself holds the segment's id."""
        name, base = segment_name(number * self._size), number * self._size
        page = read_page(self._fd, name)
        code = kernel.check_header(page, self._directory.log_uuid, base, self._size)
        segment_id = kernel.header_fields(page)[1]
        proven_by_crc = kernel.header_crc(
            self._sound_page(page, segment_id, base)
        ) == kernel.header_crc(page)
        if code not in (HEADER, VERSION) or (code == VERSION and not proven_by_crc):
            return  # sound, or the header of another log or of a newer release
        proven = segment_id if proven_by_crc else self._find_id(name, page, base)
        if proven is not None:
            if self._act("header rebuilt", name, base):
                self._copy(name)
                self._write(name, 0, self._sound_page(page, proven, base)[:OPENED_AT])
        elif self._act(
            "moved away and replaced by an empty segment: its header and its segment id are lost",
            name,
            base,
            base + self._size,
        ):
            self._recorded.distrust()
            self._kept.move_away(name)
            create_blank(
                self._directory,
                number,
                closed=number < max(self._directory.segment_numbers(), default=number),
            )
            failpoint("segment created")

    def mend_frames(self, number: int, damage: Sequence[Damage], *, last: bool) -> None:
        """Mark damage as SKIP, and write the seal again; without damage, only the seal is wrong.
        `last`: it is the last segment of the log.
        """
        name = segment_name(number * self._size)
        execute = [
            self._act(f"marked as SKIP: {part.reason}", name, part.position, part.resume_position)
            for part in damage
        ] or [self._act("seal rewritten, because it did not match", name, number * self._size)]
        if not all(execute):
            return
        self._copy(name)
        with self._directory.opened_segment(number, writable=True) as segment:
            for part in damage:
                mark_skipped(
                    segment,
                    part.position - segment.base,
                    part.resume_position - segment.base,
                    last=last,
                )
                segment.flush(0, segment.size)
                failpoint("marked")
            self._seal_again(segment)
        self._directory.remove_index(number)
        os.fsync(self._fd)

    def _copy(self, name: str) -> None:
        if self._kept.copy(name, self._size):  # repair neither reads nor changes bytes behind that
            self._recorded.distrust()

    def _write(self, name: str, offset: int, content: bytes) -> None:
        with opened_regular(name, os.O_RDWR, dir_fd=self._fd) as fd:
            write_whole(fd, content, offset)
            os.fsync(fd)
        failpoint("written")

    def _sound_page(self, page: bytes, segment_id: int, base: int) -> bytes:
        return kernel.header_page(
            self._directory.log_uuid, segment_id, base, self._size, kernel.header_fields(page)[4]
        )

    def _find_id(self, name: str, page: bytes, base: int) -> int | None:
        """Return the id that the CRCs of the segment prove; if there are no CRCs, the id in the
        header, since any id matches.
        """
        found = kernel.header_fields(page)[1]
        with opened_regular(name, dir_fd=self._fd) as fd:
            size = min(os.fstat(fd).st_size, self._size)
            if size <= HEADER_SIZE:
                return None  # in a dry run, which has not extended the file
            with (
                mmap.mmap(fd, size, prot=mmap.PROT_READ) as mapping,
                memoryview(mapping) as content,
            ):
                blank = not any(
                    content[at : at + _CHUNK].tobytes().strip(b"\0")
                    for at in range(OPENED_AT, len(content), _CHUNK)
                )
                if blank:
                    return found or None
                return find_segment_id(page, content, self._directory.log_uuid, base, self._size)

    def _seal_again(self, segment: Segment) -> None:
        """Seal a sealed segment again, for its present content. Its first sequence stays, so that
        records behind the lost ones keep their sequences.
        """
        seal = segment.sealed()
        if segment.nonzero(SEAL_AT, SEAL_AT + SEAL_SIZE) == SEAL_AT + SEAL_SIZE:
            return
        self._write(os.path.basename(segment.path), SEAL_AT, bytes(SEAL_SIZE))
        if seal is not None:
            segment.seal(seal[1])
            segment.flush(0, HEADER_SIZE)


def mark_skipped(segment: Segment, start: int, stop: int, *, last: bool) -> None:
    """Cover [start, stop) with SKIP frames.

    The first frame is written last: until then readers see the damage unchanged. If the damage
    reaches the end of the segment, one SKIP of length 0 covers it. In the last segment it does
    not, because the tail may be there.
    """
    if stop == segment.size and not last:
        segment.skip(start, 0)
        return
    for at in range(
        start + (stop - start - 1) // FRAME_LIMIT * FRAME_LIMIT, start - 1, -FRAME_LIMIT
    ):
        segment.skip(at, min(FRAME_LIMIT, stop - at))
