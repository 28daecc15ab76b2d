"""Mends what `verify` finds: `commitlog repair`.

Repair discards nothing: it copies each file to `<name>.broken` before it changes it. It marks
damage as SKIP, so that readers pass over it, and keeps what follows. It leaves a torn tail to the
next writable open.

Before the first change of a segment, repair removes the clean mark and the cursors of a closed log:
wherever repair is stopped, the next open checks the recorded end against the frames.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import mmap
import os
import stat

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
from commitlog.base.path import path_of, telling, telling_of_refusals
from commitlog.base.regular_file import open_regular, write_whole
from commitlog.base.roll_cycle import RollCycle
from commitlog.errors import (
    CorruptSegmentError,
    InvalidOptionError,
    LogLockedError,
    UnsupportedVersionError,
)
from commitlog.recovery.join_manifest import NAME as MANIFEST
from commitlog.recovery.join_manifest import Manifest
from commitlog.recovery.join_note import JoinNote
from commitlog.recovery.pending_join import check as check_join
from commitlog.recovery.pending_join import finish_pending, unreached
from commitlog.repair.kept_files import KeptFiles
from commitlog.repair.lost_identity import read_page, segment_files
from commitlog.repair.lost_segment_id import find_segment_id
from commitlog.repair.missing_segments import (
    check_room,
    create_blank,
    find_missing,
    last_possible,
    within_reach,
)
from commitlog.repair.recorded_end import RecordedEnd
from commitlog.repair.repair_report import Action, RepairReport
from commitlog.repair.verification import (
    SEAL_BROKEN,
    SEAL_WRONG,
    open_directory,
    read_identity,
    surveying_log,
)
from commitlog.repair.verify_report import Damage, VerifyReport
from commitlog.segment import identity as identities
from commitlog.segment.cursors_file import is_live
from commitlog.segment.directory import JOIN_NOTE, LogDirectory, is_base, segment_name
from commitlog.segment.lock_file import LockFile
from commitlog.segment.lone_segment import refuse_lone_segment
from commitlog.tail import tailer_file

__all__ = ["Action", "RepairReport", "mark_skipped", "repair"]

_logger = logging.getLogger("commitlog.repair")
_CHUNK = 1 << 20


def repair(
    path: str | os.PathLike[str], *, dry_run: bool = False, roll_cycle: RollCycle | None = None
) -> RepairReport:
    """Mend a log that no process has open. Durable when it returns; a second run finds nothing to
    do.

    Parameters
    ----------
    path : path
        The log's directory.
    dry_run : bool
        Report the actions, and write nothing. The frames of a segment whose header must be mended
        first are not checked.
    roll_cycle : RollCycle, optional
        The log's roll cycle, if `log.json` is lost and the segments do not show it: those of a
        named cycle in UTC do. It is checked against the times at which the segments were opened.

    Raises
    ------
    InvalidOptionError
        The log did not roll by that cycle, or `log.json` is whole and holds the cycle.
    LogLockedError
        A process has the log open for writing.
    LogNotFoundError, NotALogError
        There is no log, and no data from which to rebuild one.
    UnsupportedVersionError
        A newer release wrote it.
    ReadOnlyError, DiskFullError, IOFailureError
        A system call failed. The steps done so far are complete; run it again.
    """
    path = path_of(path)
    with telling_of_refusals(path):
        refuse_lone_segment(path)
        fd = open_directory(path)
    try:
        with telling(path, "repair the log", permission="repair it as its owner"):
            return _repair_opened(fd, path, dry_run, roll_cycle)
    finally:
        os.close(fd)


def _repair_opened(fd: int, path: str, dry_run: bool, roll_cycle: RollCycle | None) -> RepairReport:
    read_identity(fd, path)
    if dry_run:
        if not os.access(path, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        if is_live(fd):
            raise _locked("another process", path)
        return _Repair(fd, path, dry_run, roll_cycle).run()
    with contextlib.closing(LockFile(fd)) as lock_file:
        if not lock_file.acquire("exclusive"):
            raise _locked(lock_file.read().describe(), path)
        return _Repair(fd, path, dry_run, roll_cycle).run()


def _locked(holder: str, path: str) -> LogLockedError:
    return LogLockedError(
        f"{holder} has the log open: close it there, then repair it", path=path, holder=holder
    )


class _Repair:
    """One run. The steps build on each other: an identity opens headers, headers open segments,
    whole segments show damage.
    """

    def __init__(self, dir_fd: int, path: str, dry_run: bool, roll_cycle: RollCycle | None) -> None:
        self.dir_fd = dir_fd
        self.path = path
        self.dry_run = dry_run
        self.report = RepairReport(path, dry_run)
        self.kept = KeptFiles(dir_fd, path, self.report.copies)
        self.identity, self.fault = read_identity(dir_fd, path, roll_cycle)
        if roll_cycle is not None and self.fault is None:
            raise InvalidOptionError(
                f"{identities.NAME} is whole and says how the log rolls: give no roll cycle, or "
                "move that file away before",
                path=path,
            )
        self.directory = LogDirectory(
            path, self.identity.segment_size, self.identity.uuid, self.identity.roll_cycle
        )
        self.size = self.identity.segment_size

    def run(self) -> RepairReport:
        try:
            self._mend_identity()
            self._settle_joins()
            self.recorded = RecordedEnd(self.directory, self.identity)
            self._move_irregular_away()
            numbers = self._move_strays()
            self._fill_holes(numbers)
            for number in numbers:
                self._mend_length(number)
                self._mend_header(number)
            found = self._survey()
            for segment in found.segments:
                if (
                    segment.damage
                    or SEAL_BROKEN in segment.problems
                    or SEAL_WRONG in segment.problems
                ):
                    self._mend_frames(
                        segment.base // self.size,
                        segment.damage,
                        last=segment is found.segments[-1],
                    )
            self._move_hidden_ends()
            self._say_what_remains(found)
        finally:
            self.directory.close()
        return self.report

    def _survey(self) -> VerifyReport:
        with surveying_log(self.dir_fd, self.path, live=False) as survey:
            return survey.run()

    # --- what every step does ---

    def _act(
        self, what: str, file: str, position: int | None = None, resume_position: int | None = None
    ) -> bool:
        """Record an action; return whether to execute it."""
        self.report.actions.append(Action(what, file, position, resume_position))
        if not self.dry_run:
            _logger.warning("%s: %s: %s", self.path, file, what)
        return not self.dry_run

    def _copy(self, name: str) -> None:
        """Copy a segment before its first change."""
        if self.kept.copy(name, self.size):  # repair neither reads nor changes bytes behind that
            self._distrust()

    def _distrust(self) -> None:
        """Invalidate the recorded end of the log, because a segment is about to change."""
        self.recorded.distrust()
        failpoint("distrusted")

    def _write(self, name: str, offset: int, content: bytes) -> None:
        fd = open_regular(name, os.O_RDWR, dir_fd=self.dir_fd)
        try:
            write_whole(fd, content, offset)
            os.fsync(fd)
        finally:
            os.close(fd)
        failpoint("written")

    # --- the steps ---

    def _mend_identity(self) -> None:
        if self.fault is None or not self._act(
            f"rebuilt from the segment headers, since {self.fault}", identities.NAME
        ):
            return
        if os.path.lexists(os.path.join(self.path, identities.NAME)):
            self.kept.move_away(identities.NAME)
        identities.write(self.dir_fd, self.identity)
        failpoint("identity written")

    def _settle_joins(self) -> None:
        """Finish a pending join. If it cannot be finished, take it back: no reader has reached its
        segments.
        """
        try:
            note = JoinNote.read(self.directory)
            if note is not None:
                check_join(self.directory, note)
                if self._act("the join that it tells of was finished", JOIN_NOTE):
                    finish_pending(self.directory)
        except (CorruptSegmentError, UnsupportedVersionError) as error:
            self._take_join_back(error.message)
        try:
            Manifest.read(self.directory)
        except (CorruptSegmentError, UnsupportedVersionError) as error:
            if self._act(
                "moved away, so that a streaming query may write its last batch once more: "
                f"{error.message}",
                MANIFEST,
            ):
                self.kept.move_away(MANIFEST)

    def _take_join_back(self, why: str) -> None:
        for number in reversed(unreached(self.directory)):
            name = segment_name(number * self.size)
            if self._act(
                "moved away, since the join that placed it cannot be finished",
                name,
                number * self.size,
                (number + 1) * self.size,
            ):
                self.kept.move_away(name)
        if self._act(f"moved away: {why}", JOIN_NOTE):
            self.kept.move_away(JOIN_NOTE)

    def _is_regular(self, number: int) -> bool:
        return stat.S_ISREG(
            os.stat(
                segment_name(number * self.size), dir_fd=self.dir_fd, follow_symlinks=False
            ).st_mode
        )

    def _move_irregular_away(self) -> None:
        """Move away each link, directory, FIFO or device that has a segment's name, which leaves a
        gap.
        """
        for number in self.directory.segment_numbers():
            name, base = segment_name(number * self.size), number * self.size
            if not self._is_regular(number) and self._act(
                "moved away: it is not a regular file", name, base, base + self.size
            ):
                self._distrust()
                self.kept.move_away(name)

    def _move_strays(self) -> list[int]:
        """Move away files that the log cannot have reached; return the numbers of the others."""
        for name, base in segment_files(self.dir_fd).items():
            if (
                base % self.size == 0
                and not is_base(base, self.size)
                and self._act("moved away: no log is as long as its name says", name)
            ):
                self.kept.move_away(name)
        hidden = set(unreached(self.directory))
        numbers = [
            number
            for number in self.directory.segment_numbers()
            if number not in hidden and self._is_regular(number)
        ]
        last = last_possible(self.directory, self.recorded, numbers)
        kept = within_reach(numbers, last)
        for number in numbers[len(kept) :]:
            name = segment_name(number * self.size)
            what = (
                f"moved away: the log ends before position {(last + 1) * self.size}, and "
                "nothing leads to this segment"
            )
            if self._act(what, name, number * self.size):
                self._distrust()
                self.kept.move_away(name)
        return kept

    def _fill_holes(self, numbers: list[int]) -> None:
        """Create an empty segment for each missing one, so that readers can pass the gap."""
        missing = find_missing(numbers, self.size, self.recorded.known)
        if missing and not self.dry_run:
            check_room(self.directory, sum(count for _, count in missing))
        for first, count in missing:
            name, start = segment_name(first * self.size), first * self.size
            what = "missing: a segment that holds nothing was put in its place"
            if count > 1:
                what = (
                    f"missing, as are the {count - 1} behind it: segments that hold nothing "
                    "were put in their places"
                )
            if not self._act(what, name, start, start + count * self.size):
                continue
            self._distrust()
            for number in range(first, first + count):
                create_blank(self.directory, number, closed=bool(numbers) and number < numbers[-1])
                failpoint("segment created")

    def _mend_length(self, number: int) -> None:
        """Bring a file that was cut short back to its size; what it lost is damage to be marked."""
        name = segment_name(number * self.size)
        length = os.stat(name, dir_fd=self.dir_fd, follow_symlinks=False).st_size
        if length >= self.size or not self._act(
            f"extended from {length} bytes to {self.size}", name, number * self.size + length
        ):
            return
        self._copy(name)
        fd = open_regular(name, os.O_RDWR, dir_fd=self.dir_fd)
        try:
            os.posix_fallocate(fd, 0, self.size)
            os.fsync(fd)
        finally:
            os.close(fd)
        failpoint("extended")

    def _mend_header(self, number: int) -> None:
        """Rebuild the identity part of a header around the segment's id, which only the file itself
        and its CRCs hold.
        """
        name, base = segment_name(number * self.size), number * self.size
        page = read_page(self.dir_fd, name)
        code = kernel.check_header(page, self.identity.uuid, base, self.size)
        segment_id = kernel.header_fields(page)[1]
        sealed_by_crc = kernel.header_crc(
            self._sound_page(page, segment_id, base)
        ) == kernel.header_crc(page)
        if code not in (HEADER, VERSION) or (code == VERSION and not sealed_by_crc):
            return  # sound; or another log's or a newer release's, and not a damaged one of ours
        proven = segment_id if sealed_by_crc else self._find_id(name, page, base)
        if proven is not None:
            if self._act("header rebuilt", name, base):
                self._copy(name)
                self._write(name, 0, self._sound_page(page, proven, base)[:OPENED_AT])
        elif self._act(
            "header and segment id are lost: the file was moved away, and an empty segment put in "
            "its place",
            name,
            base,
            base + self.size,
        ):
            self._distrust()
            self.kept.move_away(name)
            create_blank(
                self.directory,
                number,
                closed=number < max(self.directory.segment_numbers(), default=number),
            )
            failpoint("segment created")

    def _sound_page(self, page: bytes, segment_id: int, base: int) -> bytes:
        return kernel.header_page(
            self.identity.uuid, segment_id, base, self.size, kernel.header_fields(page)[4]
        )

    def _find_id(self, name: str, page: bytes, base: int) -> int | None:
        """Return the id that the CRCs of the segment prove, or the header's if there are no CRCs,
        where any id fits.
        """
        found = kernel.header_fields(page)[1]
        fd = open_regular(name, dir_fd=self.dir_fd)
        try:
            size = min(os.fstat(fd).st_size, self.size)
            if size <= HEADER_SIZE:
                return None  # of a dry run, which has not extended it
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
                return find_segment_id(page, content, self.identity.uuid, base, self.size)
        finally:
            os.close(fd)

    def _mend_frames(self, number: int, damage: list[Damage], *, last: bool) -> None:
        """Mark damage as SKIP, and correct the seal."""
        name = segment_name(number * self.size)
        for part in damage:
            self._act(f"marked as SKIP: {part.reason}", name, part.position, part.resume_position)
        if not damage:
            self._act("seal that did not fit was rewritten", name, number * self.size)
        if self.dry_run:
            return
        self._copy(name)
        segment = self.directory.open_segment(number, writable=True)
        try:
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
        finally:
            segment.release()
        self.directory.remove_index(number)
        os.fsync(self.dir_fd)

    def _seal_again(self, segment: Segment) -> None:
        """Seal a sealed segment again, for its present content. Its first sequence stays: lost
        records keep their numbers.
        """
        seal = segment.sealed()
        if segment.nonzero(SEAL_AT, SEAL_AT + SEAL_SIZE) == SEAL_AT + SEAL_SIZE:
            return
        self._write(os.path.basename(segment.path), SEAL_AT, bytes(SEAL_SIZE))
        if seal is not None:
            segment.seal(seal[1])
            segment.flush(0, HEADER_SIZE)

    def _move_hidden_ends(self) -> None:
        """Move an end or a named tailer's position that lies inside a SKIP behind it: no reader
        reaches the inside of a SKIP.
        """
        for name, position, landing in self.recorded.hidden():
            if self._act(
                "the log's end lay inside a SKIP, and was moved behind it", name, position, landing
            ):
                self.recorded.distrust()
                self.recorded.move(name, landing)
                failpoint("end moved")
        for state, landing in list(tailer_file.inside_skips(self.directory)):
            if self._act(
                "the tailer stood inside a SKIP, and goes on behind it",
                f"tailers/{state.name}",
                state.position,
                landing,
            ):
                tailer_file.go_on_at(self.directory, state, landing)

    def _say_what_remains(self, found: VerifyReport) -> None:
        if not self.dry_run:
            found = self._survey()
            self.report.remaining += [
                f"{segment.name}: damage at position {part.position}"
                for segment in found.segments
                for part in segment.damage
            ]
            self.report.remaining += [
                f"positions {start} to {stop} are missing" for start, stop in found.holes
            ]
        mended = {action.file for action in self.report.actions}
        for segment in found.segments:
            if not self.dry_run or segment.name not in mended:
                self.report.remaining += [
                    f"{segment.name}: {problem}" for problem in segment.problems
                ]
        if not self.dry_run or self.fault is None:
            self.report.remaining += found.problems


def mark_skipped(segment: Segment, start: int, stop: int, *, last: bool) -> None:
    """Cover [start, stop) with SKIP frames. The first frame is written last: until then the damage
    is unchanged.

    If the damage reaches the segment's end, one SKIP of length 0 covers it, but not in the last
    segment, in which the tail may be.
    """
    if stop == segment.size and not last:
        segment.skip(start, 0)
        return
    for at in range(
        start + (stop - start - 1) // FRAME_LIMIT * FRAME_LIMIT, start - 1, -FRAME_LIMIT
    ):
        segment.skip(at, min(FRAME_LIMIT, stop - at))
