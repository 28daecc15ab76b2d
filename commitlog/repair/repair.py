"""Repairs what `verify` finds: `commitlog repair`.

Repair discards nothing: it copies each file to `<name>.broken` before it changes it. It marks
damage as SKIP, so that readers pass over it, and keeps what follows. It leaves a torn tail to the
next writable open.

Before the first change of a segment, repair removes the clean mark and the cursors of a closed log.
If repair is stopped at any step, the next open checks the recorded end against the frames.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat

from commitlog.base.failpoint import failpoint
from commitlog.base.option import check_switches
from commitlog.base.path import path_of, translate_errors, translate_refusals
from commitlog.base.progress import Meter, Progress
from commitlog.base.roll_cycle import RollCycle
from commitlog.errors import (
    CorruptSegmentError,
    InvalidOptionError,
    LogLockedError,
    UnsupportedVersionError,
)
from commitlog.recovery.join_note import MANIFEST, JoinNote, Manifest
from commitlog.recovery.pending_join import check as check_join
from commitlog.recovery.pending_join import finish_pending, unreached
from commitlog.repair.extent import (
    RecordedEnd,
    check_room,
    create_blank,
    find_missing,
    last_possible,
    within_reach,
)
from commitlog.repair.reports import Action, RepairReport, VerifyReport
from commitlog.repair.segment_repair import KeptFiles, SegmentRepair
from commitlog.repair.survey import SEAL_BROKEN, SEAL_WRONG
from commitlog.repair.verification import opened_log_directory, read_identity, surveying_log
from commitlog.segment import identity as identities
from commitlog.segment.cursors_file import is_live
from commitlog.segment.directory import (
    JOIN_NOTE,
    LogDirectory,
    is_base,
    segment_bases,
    segment_name,
)
from commitlog.segment.lock_file import LockFile
from commitlog.source.lone_segment import refuse_lone_segment
from commitlog.tail import tailer_file

__all__ = ["Action", "RepairReport", "repair"]

_logger = logging.getLogger("commitlog.repair")


def repair(
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    roll_cycle: RollCycle | None = None,
    progress: Progress | None = None,
) -> RepairReport:
    """Repair a log that no process has open; the repair is durable when this returns. A second run
    finds nothing to do.

    A dry run reports the actions, and writes nothing; it does not check frames in a segment whose
    header must be repaired first. `roll_cycle` is for a lost `log.json` of a log that rolled by a
    custom period, a zone other than UTC or an epoch, because the segments show only a named cycle
    in UTC. It is checked against the times at which the segments were opened.

    `progress` is called now and then with the bytes of segments that are checked, before and after
    the repair, and their total. If this raises, also because `progress` does, the steps so far are
    complete: remove the cause and run it again.
    """
    meter = Meter(progress, 0)
    check_switches(dry_run=dry_run)
    path = path_of(path)
    with translate_refusals(path):
        refuse_lone_segment(path)
        with (
            opened_log_directory(path) as fd,
            translate_errors(path, "repair the log", permission="repair it as its owner"),
        ):
            report = _repair_opened(fd, path, dry_run, roll_cycle, meter)
            meter.end()
            return report


def _repair_opened(
    fd: int, path: str, dry_run: bool, roll_cycle: RollCycle | None, meter: Meter
) -> RepairReport:
    read_identity(fd, path)
    if dry_run:
        if not os.access(path, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        if is_live(fd):
            raise _locked("another process", path)
        return _Repair(fd, path, dry_run, roll_cycle, meter).run()
    with contextlib.closing(LockFile(fd)) as lock_file:
        if not lock_file.acquire("exclusive"):
            raise _locked(lock_file.read().describe(), path)
        return _Repair(fd, path, dry_run, roll_cycle, meter).run()


def _locked(holder: str, path: str) -> LogLockedError:
    return LogLockedError(
        f"{holder} has the log open for writing: close it there, then run the repair again",
        path=path,
        holder=holder,
    )


class _Repair:
    """One run.

    The order of the steps matters: the identity is needed to check headers, headers to open
    segments, and open segments to find damage.
    """

    def __init__(
        self, dir_fd: int, path: str, dry_run: bool, roll_cycle: RollCycle | None, meter: Meter
    ) -> None:
        self.meter = meter
        self.dir_fd = dir_fd
        self.path = path
        self.dry_run = dry_run
        self.report = RepairReport(path, dry_run)
        self.kept = KeptFiles(dir_fd, path, self.report.copies)
        self.identity, self.fault = read_identity(dir_fd, path, roll_cycle)
        if roll_cycle is not None and self.fault is None:
            raise InvalidOptionError(
                f"{identities.NAME} is valid and holds the roll cycle of the log: leave the roll "
                "cycle out, or move that file away first",
                path=path,
            )
        self.directory = LogDirectory(path, self.identity)
        self.size = self.identity.segment_size

    def run(self) -> RepairReport:
        try:
            self._mend_identity()
            self._resolve_joins()
            recorded = RecordedEnd(self.directory)
            self._move_irregular_away(recorded)
            numbers = self._move_strays(recorded)
            self._fill_holes(numbers, recorded)
            found = self._mend_segments(numbers, recorded)
            self._move_hidden_ends(recorded)
            self._report_what_remains(found)
        finally:
            self.directory.close()
        return self.report

    def _survey(self, rounds: int = 0) -> VerifyReport:
        with surveying_log(self.dir_fd, self.path, live=False) as survey:
            return survey.run(self.meter, rounds=rounds)

    def _act(
        self, what: str, file: str, position: int | None = None, resume_position: int | None = None
    ) -> bool:
        self.report.actions.append(Action(what, file, position, resume_position))
        if not self.dry_run:
            _logger.warning("%s: %s: %s", self.path, file, what)
        return not self.dry_run

    def _mend_identity(self) -> None:
        if self.fault is None or not self._act(
            f"rebuilt from the segment headers, because {self.fault}", identities.NAME
        ):
            return
        if os.path.lexists(os.path.join(self.path, identities.NAME)):
            self.kept.move_away(identities.NAME)
        identities.write(self.dir_fd, self.identity)
        failpoint("identity written")

    def _resolve_joins(self) -> None:
        """Finish a pending join, or take it back: no reader has reached its segments."""
        try:
            note = JoinNote.read(self.directory)
            if note is not None:
                check_join(self.directory, note)
                if self._act("the join that it records was finished", JOIN_NOTE):
                    finish_pending(self.directory)
        except (CorruptSegmentError, UnsupportedVersionError) as error:
            self._take_join_back(error.message)
        try:
            Manifest.read(self.directory)
        except (CorruptSegmentError, UnsupportedVersionError) as error:
            if self._act(
                "moved away; a streaming query may write its last batch a second time: "
                f"{error.message}",
                MANIFEST,
            ):
                self.kept.move_away(MANIFEST)

    def _take_join_back(self, why: str) -> None:
        for number in reversed(unreached(self.directory)):
            name = segment_name(number * self.size)
            if self._act(
                "moved away, because the join that placed it cannot be finished",
                name,
                number * self.size,
                (number + 1) * self.size,
            ):
                self.kept.move_away(name)
        if self._act(f"moved away: {why}", JOIN_NOTE):
            self.kept.move_away(JOIN_NOTE)

    def _is_regular(self, number: int) -> bool:
        name = segment_name(number * self.size)
        return stat.S_ISREG(os.stat(name, dir_fd=self.dir_fd, follow_symlinks=False).st_mode)

    def _move_irregular_away(self, recorded: RecordedEnd) -> None:
        """Move away names of segments that are not regular files; `_fill_holes` follows."""
        for number in self.directory.segment_numbers():
            name, base = segment_name(number * self.size), number * self.size
            if not self._is_regular(number) and self._act(
                "moved away: it is not a regular file", name, base, base + self.size
            ):
                recorded.distrust()
                self.kept.move_away(name)

    def _move_strays(self, recorded: RecordedEnd) -> list[int]:
        """Move away files that are beyond the end of the log; return the numbers of the others."""
        for name, base in segment_bases(self.directory.names()).items():
            if (
                base % self.size == 0
                and not is_base(base, self.size)
                and self._act("moved away: its name is a position that no log can reach", name)
            ):
                self.kept.move_away(name)
        hidden = set(unreached(self.directory))
        numbers = [
            number
            for number in self.directory.segment_numbers()
            if number not in hidden and self._is_regular(number)
        ]
        last = last_possible(self.directory, recorded, numbers)
        kept = within_reach(numbers, last)
        for number in numbers[len(kept) :]:
            name = segment_name(number * self.size)
            what = (
                f"moved away: the log ends before position {(last + 1) * self.size}, and the "
                "segments before this one are missing"
            )
            if self._act(what, name, number * self.size):
                recorded.distrust()
                self.kept.move_away(name)
        return kept

    def _fill_holes(self, numbers: list[int], recorded: RecordedEnd) -> None:
        """Create an empty segment for each missing one, so that readers can pass the gap."""
        missing = find_missing(numbers, self.size, recorded.known)
        if missing and not self.dry_run:
            check_room(self.directory, sum(count for _, count in missing))
        for first, count in missing:
            name, start = segment_name(first * self.size), first * self.size
            what = "missing; an empty segment was created in its place"
            if count > 1:
                what = f"this and the next {count - 1} are missing; empty segments were created"
            if not self._act(what, name, start, start + count * self.size):
                continue
            recorded.distrust()
            for number in range(first, first + count):
                create_blank(self.directory, number, closed=bool(numbers) and number < numbers[-1])
                failpoint("segment created")

    def _mend_segments(self, numbers: list[int], recorded: RecordedEnd) -> VerifyReport:
        """Repair each segment; return what a survey found between headers and frames."""
        repair = SegmentRepair(self.directory, recorded, self.kept, self._act)
        for number in numbers:
            repair.mend_length(number)
            repair.mend_header(number)
        found = self._survey(rounds=1 if self.dry_run else 2)
        for segment in found.segments:
            if segment.damage or {SEAL_BROKEN, SEAL_WRONG}.intersection(segment.problems):
                last = segment is found.segments[-1]
                repair.mend_frames(segment.base // self.size, segment.damage, last=last)
        return found

    def _move_hidden_ends(self, recorded: RecordedEnd) -> None:
        """Move ends and tailers out of a SKIP: no reader reaches what is inside one."""
        for name, position, landing in recorded.hidden():
            if self._act(
                "the recorded end was inside a SKIP and was moved behind it",
                name,
                position,
                landing,
            ):
                recorded.distrust()
                recorded.move(name, landing)
                failpoint("end moved")
        for state, landing in list(tailer_file.inside_skips(self.directory)):
            if self._act(
                "the position was inside a SKIP and was moved behind it",
                f"tailers/{state.name}",
                state.position,
                landing,
            ):
                tailer_file.go_on_at(self.directory, state, landing)

    def _report_what_remains(self, found: VerifyReport) -> None:
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
