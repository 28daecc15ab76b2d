"""Survey: checks each segment of a log and collects what it finds in a `VerifyReport`."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator

from commitlog._kernel.failure import BUSY, DAMAGE, END
from commitlog._kernel.segments import FRAME_ALIGN, HEADER_SIZE, SEAL_AT, SEAL_SIZE, Segment
from commitlog.base.progress import Meter
from commitlog.errors import CorruptSegmentError, PositionError, UnsupportedVersionError
from commitlog.flush.checkpoint import Checkpoint
from commitlog.flush.known_durable import known_durable
from commitlog.recovery.join_note import JoinNote, Manifest
from commitlog.recovery.pending_join import unreached
from commitlog.recovery.walk import behind_damage
from commitlog.repair.extent import RecordedEnd
from commitlog.repair.reports import Damage, SegmentReport, TornTail, VerifyReport
from commitlog.segment import index_file, posting_file
from commitlog.segment.directory import (
    LogDirectory,
    holes,
    index_name,
    is_base,
    posting_name,
    segment_bases,
    segment_name,
)
from commitlog.segment.seal_table import SealTable
from commitlog.segment.segment_header import Seal
from commitlog.tail import tailer_file, tailer_state

_CHUNK = 1 << 20
SEAL_BROKEN = "its seal is damaged, and counts as not written"
SEAL_WRONG = "its seal does not match its frames"
INDEX_REMEDY = "the next seek in this segment rebuilds it"
POSTINGS_REMEDY = "the next view of a writer rebuilds them"


class Survey:
    """One pass over a log: `begin`, then `check_segment` for each segment, then `end`. If it
    `is_log`, the directory is a log's own, and the files beside its segments are checked, too.
    """

    def __init__(
        self,
        directory: LogDirectory,
        checkpoint: Checkpoint | None,
        *,
        live: bool,
        fault: str | None,
        is_log: bool = True,
    ) -> None:
        self.is_log = is_log
        self.directory = directory
        self.live = live
        self.size = directory.segment_size
        self.known = 0
        self._checkpoint = checkpoint
        self.torn_at: int | None = None
        self.report = VerifyReport(
            path=directory.path,
            uuid=directory.log_uuid.hex(),
            segment_size=self.size,
            live=live,
            clean=not live and checkpoint is not None and checkpoint.clean,
            checkpoint=None if checkpoint is None else checkpoint.position,
            kind=directory.kind,
        )
        if fault is not None:
            self.report.problems.append(f"{fault}; the segment headers agree on its content")

    def run(self, meter: Meter | None = None, *, rounds: int = 1) -> VerifyReport:
        """Check everything. `meter` counts the segments, which are checked in so many rounds; 0:
        an earlier run has said that there is one more.
        """
        numbers = self.begin()
        if meter is not None:
            meter.grow(len(numbers) * self.size * rounds)
        for number in numbers:
            self.check_segment(number)
            if meter is not None:
                meter.add(self.size)
        return self.end(numbers)

    def begin(self) -> list[int]:
        """Check everything except the segments, and return the numbers of the segments."""
        numbers = self.directory.segment_numbers()
        if not self.is_log:
            self._find_holes(numbers)  # other files in the directory are not part of it
            return numbers
        for name, base in segment_bases(self.directory.names()).items():
            if not is_base(base, self.size):
                self.report.problems.append(
                    f"{name}: no segment of {self.size} bytes begins at the position in this name"
                )
        numbers = self._check_joins(numbers)
        self.known = known_durable(self.directory, numbers, self._checkpoint)
        self._find_holes(numbers)
        self._check_ends()
        return numbers

    def add(self, report: SegmentReport, torn_at: int | None) -> None:
        """Add another survey's report of the next segment, without data behind a torn tail."""
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
        if self.is_log:
            self.report.notes += [
                f"the file of tailer {state.name!r} is damaged: {state.damage}; rebuild it with "
                f"`commitlog tailers LOG reset {state.name} POSITION`"
                for state in tailer_state.states(self.directory)
                if state.damage is not None
            ]
        if self.is_log and not self.live:
            self.report.notes += [
                f"the position {state.position} of tailer {state.name!r} is inside a SKIP that "
                f"ends at {landing}; `commitlog repair` moves the tailer there"
                for state, landing in tailer_file.inside_skips(self.directory)
            ]
        return self.report

    def seal_of(self, number: int) -> list[int] | None:
        """Return what identifies the content of a sealed segment, for notes; None if it is not
        sealed.
        """
        seal = self._seal(number)
        return None if seal is None else [seal.segment_id, seal.crc]

    def _seal(self, number: int) -> Seal | None:
        return SealTable(self.directory).get(number)

    def _check_joins(self, numbers: list[int]) -> list[int]:
        """Return the numbers without those of an unfinished join, which no reader reaches yet."""
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
                f"the last segments are missing: the log was durable up to position {self.known}, "
                f"and its segments end at {reached}"
            )

    def _check_ends(self) -> None:
        for name, position, landing in RecordedEnd(self.directory).hidden():
            self.report.problems.append(
                f"`{name}` records the end of the log at position {position}, inside a SKIP that "
                f"ends at {landing}: no reader would reach an append there; `commitlog repair` "
                "moves the end behind the SKIP"
            )

    def _segments(self, numbers: list[int]) -> Iterator[Segment]:
        for number in numbers:
            unusable = contextlib.suppress(
                CorruptSegmentError, UnsupportedVersionError, PositionError
            )
            with unusable, self.directory.opened_segment(number) as segment:
                yield segment

    def check_segment(self, number: int) -> None:
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
                self._check_postings(segment, report)
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
            resume = behind_damage(segment, found[0]) if code == DAMAGE else None
            if position >= self.known and not self.live and resume is None:
                self.torn_at = position
                return
            offset = self._resume(segment, found[0]) if resume is None else resume
            if position < self.known or code not in (END, BUSY):
                report.damage.append(Damage(position, segment.base + offset, _reason(code)))

    def _check_index(self, segment: Segment, report: SegmentReport) -> None:
        seal = self._seal(segment.number)
        index, state = (
            index_file.read_unsealed(self.directory, segment)
            if seal is None
            else index_file.read(self.directory, segment.number, seal)
        )
        if index is not None:
            offsets = [offset for offset, _ in struct.iter_unpack("<Qq", index.content())]
            state = (
                "sound" if all(segment.step(offset)[0] == 0 for offset in offsets) else "damaged"
            )
        if state in ("damaged", "stale"):
            fault = "is damaged" if state == "damaged" else "does not match the segment"
            report.notes.append(f"its index {index_name(segment.base)} {fault}; {INDEX_REMEDY}")

    def _check_postings(self, segment: Segment, report: SegmentReport) -> None:
        seal = self._seal(segment.number)
        if seal is None:
            return
        state = posting_file.checked(self.directory, segment.number, seal)
        if state in ("damaged", "stale"):
            fault = "are damaged" if state == "damaged" else "do not match the segment"
            lists = f"its posting lists {posting_name(segment.base)}"
            report.notes.append(f"{lists} {fault}; {POSTINGS_REMEDY}")

    def _resume(self, segment: Segment, offset: int) -> int:
        """Return the offset of the next valid frame, but at most that of the durable position."""
        limit = self.known - segment.base
        limit = limit if offset < limit < segment.size else segment.size
        resume = min(segment.resume(offset), limit)
        if resume < segment.size or (segment.number + 1) * self.size <= self.known:
            return resume
        # In the last segment of a live log, the zeros behind the last written byte are not damage:
        # appends have not reached them.
        written = content_end(segment, offset)
        return written if written > offset and self.live else resume

    def _check_seal(
        self, segment: Segment, report: SegmentReport, found: tuple[int, ...] | None
    ) -> None:
        """Check the seal against the scan of the whole segment, if that met no damage."""
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
            written = content_end(segment, start)
            if written == start:
                continue
            end = segment.base + written
            records += _count_valid(segment, start)
        if end > position:
            self.report.torn = TornTail(position, end, records)


def _reason(code: int) -> str:
    if code == END:
        return "zeros where a frame should be"
    if code == BUSY:
        return "a claim that was never published"
    return "not a frame, or its CRC does not match"


def _count_valid(segment: Segment, offset: int) -> int:
    records = 0
    while offset < segment.size:
        found = segment.scan(offset)
        records += found[2]
        offset = segment.resume(found[0]) if found[0] < segment.size else segment.size
    return records


def content_end(segment: Segment, start: int) -> int:
    """Return the frame boundary behind the last non-zero byte from `start` on, or `start`."""
    for stop in range(segment.size, start, -_CHUNK):
        at = max(stop - _CHUNK, start)
        if segment.nonzero(at, stop) < stop:
            return (
                -(-(at + len(segment.read(at, stop - at).rstrip(b"\0"))) // FRAME_ALIGN)
                * FRAME_ALIGN
            )
    return start
