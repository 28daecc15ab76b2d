"""Checks every frame of a log, an archive or a lone segment, reports faults, and changes nothing:
`commitlog verify`.

On a log that was not closed, an invalid frame above the durable position begins a torn tail: its
records were never acknowledged as durable, and the next writable open cuts it. An invalid frame
below that position, or anywhere on a log that is open for writing, is damage.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator

from commitlog._kernel.failure import BUSY, END
from commitlog._kernel.segments import FRAME_ALIGN, HEADER_SIZE, SEAL_AT, SEAL_SIZE, Segment
from commitlog.base.path import path_of, telling_of_refusals
from commitlog.base.roll_cycle import RollCycle
from commitlog.errors import (
    CorruptSegmentError,
    LogNotFoundError,
    NotALogError,
    PositionError,
    UnsupportedVersionError,
)
from commitlog.flush import checkpoint as checkpoints
from commitlog.flush.checkpoint import Checkpoint
from commitlog.recovery.join_manifest import Manifest
from commitlog.recovery.join_note import JoinNote
from commitlog.recovery.pending_join import unreached
from commitlog.repair.lost_identity import deduce, segment_files
from commitlog.repair.recorded_end import RecordedEnd
from commitlog.repair.verify_report import Damage, SegmentReport, TornTail, VerifyReport
from commitlog.retention.archived import refuse_archive
from commitlog.retention.detached import Detached, open_detached
from commitlog.segment import identity as identities
from commitlog.segment import index_file
from commitlog.segment.cursors_file import is_live
from commitlog.segment.directory import LogDirectory, holes, index_name, is_base, segment_name
from commitlog.segment.identity import Identity
from commitlog.segment.seal_table import SealTable
from commitlog.tail import tailer_file, tailer_state

_CHUNK = 1 << 20
SEAL_BROKEN = "its seal fails its CRC; it counts as not written"
SEAL_WRONG = "its seal does not fit its frames"
INDEX_REMEDY = "it is made anew when somebody seeks there"


def verify(path: str | os.PathLike[str]) -> VerifyReport:
    """Check every segment of a log, open or closed, of an archive, or one segment's file apart from
    its log; reads only.

    Parameters
    ----------
    path : path
        A log's directory; an archive's, or its address; or a segment's file. Segments of an archive
        are unpacked one after the other, and at most three of them lie in a folder for temporary
        files.

    Raises
    ------
    LogNotFoundError, NotALogError
        The path does not exist, or is no log.
    CorruptSegmentError
        The segment's file was cut short, or its header is damaged, so that its frames cannot be
        checked.
    UnsupportedVersionError
        A newer release wrote it.
    IOFailureError
        The archive cannot be read, or there is no room to unpack it.
    """
    path = path_of(path)
    with telling_of_refusals(path):
        with surveying(path) as survey:
            report = survey.run()
            opened_meanwhile = (
                not report.live and not survey.directory.detached and is_live(survey.directory.fd)
            )
        if opened_meanwhile:  # the presumed end may have been a claim
            with surveying(path, live=True) as survey:
                report = survey.run()
    return report


def open_directory(path: str) -> int:
    """Open a directory that may be a log; return its descriptor."""
    refuse_archive(path)
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise LogNotFoundError("there is no log here", path=path) from None
    except NotADirectoryError:
        raise NotALogError("this is a file: a log is a directory", path=path) from None


def read_identity(
    dir_fd: int, path: str, cycle: RollCycle | None = None
) -> tuple[Identity, str | None]:
    """Return the log's identity, and the fault of its `log.json` or None. `cycle` is the caller's
    roll cycle, used if `log.json` is lost.

    Raises
    ------
    NotALogError
        Neither `log.json` nor any segment holds an identity.
    """
    fault = f"{identities.NAME} is missing"
    try:
        identity = identities.read(dir_fd, path)
    except UnsupportedVersionError:
        raise
    except NotALogError as error:
        identity, fault = None, error.message.partition(":")[0]
    if identity is not None:
        return identity, None
    identity = deduce(dir_fd, cycle)
    if identity is None:
        raise NotALogError(
            f"{fault}, and no segment with a sound header says what log this was: it is none, or "
            "beyond repair",
            path=path,
        )
    return identity, fault


@contextlib.contextmanager
def surveying(path: str, *, live: bool | None = None) -> Iterator[Survey]:
    """Open a survey of the log, the archive or the segment at a path. If `live` is None, check
    whether a process writes to it.
    """
    detached = open_detached(path)
    if detached is not None:
        with contextlib.closing(detached):
            yield _survey_of_detached(detached)
        return
    fd = open_directory(path)
    try:
        with surveying_log(fd, path, live=is_live(fd) if live is None else live) as survey:
            yield survey
    finally:
        os.close(fd)


@contextlib.contextmanager
def surveying_log(dir_fd: int, path: str, *, live: bool) -> Iterator[Survey]:
    """Open a survey of a log whose directory is open."""
    identity, fault = read_identity(dir_fd, path)
    with contextlib.closing(
        LogDirectory(path, identity.segment_size, identity.uuid, identity.roll_cycle)
    ) as directory:
        yield Survey(
            directory, identity, checkpoints.read(dir_fd, identity.uuid), live=live, fault=fault
        )


def _survey_of_detached(directory: Detached) -> Survey:
    """An archive and a sealed segment were durable as a whole: any invalid frame is damage. A
    segment that was copied while it was written ends where its reader stops.
    """
    end = directory.find_end()
    checkpoint = Checkpoint(end, clean=True, count=0) if end % directory.segment_size == 0 else None
    survey = Survey(directory, directory.identity, checkpoint, live=False, fault=None)
    survey.known = end
    return survey


class Survey:
    """One walk over a log: `begin`, `look_at` each segment in ascending order, `end`."""

    def __init__(
        self,
        directory: LogDirectory,
        identity: Identity,
        checkpoint: Checkpoint | None,
        *,
        live: bool,
        fault: str | None,
    ) -> None:
        self.directory = directory
        self.identity = identity
        self.live = live
        self.size = identity.segment_size
        self.known = 0 if checkpoint is None else checkpoint.position
        self.torn_at: int | None = None
        self.report = VerifyReport(
            path=directory.path,
            uuid=identity.uuid.hex(),
            segment_size=self.size,
            live=live,
            clean=not live and checkpoint is not None and checkpoint.clean,
            checkpoint=None if checkpoint is None else checkpoint.position,
            kind=directory.kind,
        )
        if fault is not None:
            self.report.problems.append(f"{fault}; the segments agree on what it said")

    def run(self) -> VerifyReport:
        numbers = self.begin()
        for number in numbers:
            self.look_at(number)
        return self.end(numbers)

    def begin(self) -> list[int]:
        """Check everything but the segments; return their numbers."""
        numbers = self.directory.segment_numbers()
        if self.directory.detached:
            self._find_holes(numbers)  # other files in the directory do not belong to them
            return numbers
        for name, base in segment_files(self.directory.fd).items():
            if not is_base(base, self.size):
                self.report.problems.append(
                    f"{name} is named by a position at which no segment of {self.size} bytes begins"
                )
        numbers = self._look_at_joins(numbers)
        self._find_holes(numbers)
        if self.report.checkpoint is None:
            # Without a checkpoint, everything up to the last certain frame counts as durable.
            self.known = self._last_certain(numbers)
        self._look_at_ends()
        return numbers

    def add(self, report: SegmentReport, torn_at: int | None) -> None:
        """Add another survey's report of the next segment, without the data behind a torn tail."""
        if self.torn_at is not None:
            report = SegmentReport(
                report.name, report.base, problems=report.problems, notes=report.notes
            )
        else:
            self.torn_at = torn_at
        self.report.segments.append(report)

    def end(self, numbers: list[int]) -> VerifyReport:
        """Measure the torn tail, check the named tailers, and return the report."""
        if self.torn_at is not None:
            self._measure_torn_tail(self.torn_at, numbers)
        if not self.directory.detached:
            self.report.notes += [
                f"the file of tailer {state.name!r} is damaged: {state.damage}; "
                f"`commitlog tailers LOG reset {state.name} POSITION` makes it anew"
                for state in tailer_state.states(self.directory)
                if state.damage is not None
            ]
        if not self.directory.detached and not self.live:
            self.report.notes += [
                f"tailer {state.name!r} stands at position {state.position}, inside a SKIP that "
                f"reaches to {landing}: "
                "`commitlog repair` has it go on there"
                for state, landing in tailer_file.inside_skips(self.directory)
            ]
        return self.report

    def _look_at_joins(self, numbers: list[int]) -> list[int]:
        """Return the numbers without the segments of an unfinished join, which no reader reaches
        yet.
        """
        self.report.joining = self.directory.joining
        for read in (JoinNote.read, Manifest.read):
            try:
                read(self.directory)
            except (CorruptSegmentError, UnsupportedVersionError) as error:
                self.report.problems.append(error.message)
        hidden = set(unreached(self.directory))
        return [number for number in numbers if number not in hidden]

    def _find_holes(self, numbers: list[int]) -> None:
        self.report.holes += holes(numbers, self.size)
        reached = (numbers[-1] + 1) * self.size if numbers else 0
        if self.known > reached + HEADER_SIZE:
            self.report.problems.append(
                f"the log was durable up to position {self.known}, and its segments end at "
                f"{reached}: the last are missing"
            )

    def _look_at_ends(self) -> None:
        for name, position, landing in RecordedEnd(self.directory, self.identity).hidden():
            self.report.problems.append(
                f"by `{name}` the log ends at position {position}, inside a SKIP that reaches to "
                f"{landing}: "
                "no reader comes to what was appended there; `commitlog repair` moves the end "
                "behind it"
            )

    def _segments(self, numbers: list[int]) -> Iterator[Segment]:
        """Yield the segments that can be opened, one at a time."""
        for number in numbers:
            unusable = contextlib.suppress(
                CorruptSegmentError, UnsupportedVersionError, PositionError
            )
            with unusable, self.directory.opened_segment(number) as segment:
                yield segment

    def _last_certain(self, numbers: list[int]) -> int:
        for segment in self._segments(numbers[::-1]):
            end = segment.certain_end(HEADER_SIZE)
            if end > HEADER_SIZE:
                return segment.base + end
        return 0

    def look_at(self, number: int) -> None:
        """Check the next segment."""
        report = SegmentReport(segment_name(number * self.size), number * self.size)
        try:
            segment = self.directory.open_segment(number, writable=False)
        except PositionError:
            return  # removed since the directory was listed
        except (CorruptSegmentError, UnsupportedVersionError) as error:
            report.problems.append(error.message)
            self.report.segments.append(report)
            return
        self.report.segments.append(report)
        try:
            if self.torn_at is None:
                self._scan(segment, report)
            if not report.damage:
                self._check_index(segment, report)
        finally:
            segment.release()

    def _scan(self, segment: Segment, report: SegmentReport) -> None:
        offset = HEADER_SIZE
        while offset < segment.size:
            found = segment.scan(offset)
            code, records, skipped = found[1:4]
            report.records += records
            report.skipped_bytes += skipped
            if records or skipped:
                report.end = segment.base + found[0]
            if code == 0:
                self._check_seal(segment, report, None if report.damage else found)
                return
            position = segment.base + found[0]
            if position >= self.known and not self.live:
                self.torn_at = position
                return
            offset = self._resume(segment, found[0])
            if position < self.known or code not in (END, BUSY):
                report.damage.append(Damage(position, segment.base + offset, _reason(code)))

    def _check_index(self, segment: Segment, report: SegmentReport) -> None:
        """Check the index, if there is one, against the seal and the frames."""
        seal = SealTable(self.directory).get(segment.number)
        index, state = (
            (None, "missing")
            if seal is None
            else index_file.read(self.directory, segment.number, seal)
        )
        if index is not None:
            offsets = [offset for offset, _ in struct.iter_unpack("<Qq", index.content())]
            state = (
                "sound" if all(segment.step(offset)[0] == 0 for offset in offsets) else "damaged"
            )
        if state in ("damaged", "stale"):
            said = "is damaged" if state == "damaged" else "was made of something else"
            report.notes.append(f"its index {index_name(segment.base)} {said}; {INDEX_REMEDY}")

    def _resume(self, segment: Segment, offset: int) -> int:
        """Return the offset of the next whole frame, or at which the log certainly continues."""
        limit = self.known - segment.base
        limit = limit if offset < limit < segment.size else segment.size
        resume = min(segment.resume(offset), limit)
        if resume < segment.size or (segment.number + 1) * self.size <= self.known:
            return resume
        # In the last segment of a live log, nothing is written behind the last non-zero byte, so
        # nothing there is damage.
        behind = content_end(segment, offset)
        return behind if behind > offset and self.live else resume

    def _check_seal(
        self, segment: Segment, report: SegmentReport, found: tuple[int, ...] | None
    ) -> None:
        """Check the seal against the result of a scan of the whole segment; None if the scan met
        damage.
        """
        if self.live or segment.nonzero(SEAL_AT, SEAL_AT + SEAL_SIZE) == SEAL_AT + SEAL_SIZE:
            return  # on a live log a process may be writing it
        seal = segment.sealed()
        if seal is None:
            report.problems.append(SEAL_BROKEN)
        elif found is not None and (found[4], found[2], *found[5:]) != (seal[0], *seal[2:]):
            report.problems.append(SEAL_WRONG)

    def _measure_torn_tail(self, position: int, numbers: list[int]) -> None:
        end, records = position, 0
        for segment in self._segments(
            [number for number in numbers if (number + 1) * self.size > position]
        ):
            start = max(position - segment.base, HEADER_SIZE)
            behind = content_end(segment, start)
            if behind == start:
                continue
            end = segment.base + behind
            records += _count_certain(segment, start)
        if end > position:
            self.report.torn = TornTail(position, end, records)


def _reason(code: int) -> str:
    if code == END:
        return "zeros where a frame should be"
    if code == BUSY:
        return "a claim that was never published"
    return "not a frame, or its CRC does not match"


def _count_certain(segment: Segment, offset: int) -> int:
    records = 0
    while offset < segment.size:
        found = segment.scan(offset)
        records += found[2]
        offset = segment.resume(found[0]) if found[0] < segment.size else segment.size
    return records


def content_end(segment: Segment, start: int) -> int:
    """Return the offset of the frame boundary behind the last non-zero byte from `start` on, or
    `start` if all are zero.
    """
    for stop in range(segment.size, start, -_CHUNK):
        at = max(stop - _CHUNK, start)
        if segment.nonzero(at, stop) < stop:
            return (
                -(-(at + len(segment.read(at, stop - at).rstrip(b"\0"))) // FRAME_ALIGN)
                * FRAME_ALIGN
            )
    return start
