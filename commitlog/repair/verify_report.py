"""The result of `verify`: a report of a log and of each of its segments."""

from __future__ import annotations

from dataclasses import dataclass, field

from commitlog.segment.directory import Kind


@dataclass(frozen=True)
class Damage:
    """Bytes that are not frames, from `position` to `resume_position`, where reading continues."""

    position: int
    resume_position: int
    reason: str


@dataclass(frozen=True)
class TornTail:
    """The data behind the last valid frame of a log that was not closed, up to its last non-zero
    byte. `records` counts the whole records in it.

    The next writable open keeps what was published if the memory that the writers shared is still
    there; otherwise it cuts the log at `position`.
    """

    position: int
    end_position: int
    records: int


@dataclass
class SegmentReport:
    """The findings about one segment.

    Attributes
    ----------
    name : str
        The name of the file.
    base : int
        The position of its first byte.
    records, skipped_bytes : int
        The number of valid records, and the bytes in SKIP frames, which hold none.
    end : int
        The position behind its last valid frame.
    damage : list of Damage
        The damage, in ascending order.
    problems : list of str
        What is wrong with its header, its seal or its length.
    notes : list of str
        Faults that lose no record, such as a damaged index.
    """

    name: str
    base: int
    records: int = 0
    skipped_bytes: int = 0
    end: int = 0
    damage: list[Damage] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class VerifyReport:
    """The findings about a log, an archive or a segment file.

    Attributes
    ----------
    path, uuid, segment_size
        The path of the log, archive or segment file; the uuid and the segment size of the log.
    live : bool
        Whether a process has the log open for writing; then the counts are a snapshot.
    clean : bool
        Whether the log was closed and not opened since. Always true for an archive; for a segment
        file, whether it is complete.
    checkpoint : int or None
        The position known to be durable.
    segments : list of SegmentReport
        The segments, by position.
    holes : list of (int, int)
        Ranges of positions at which segments are missing.
    torn : TornTail or None
        The torn tail, which the next writable open recovers.
    problems : list of str
        What is wrong with the other files of the log.
    notes : list of str
        Faults that lose no record, such as the damaged file of a named tailer.
    joining : bool
        Whether a join of staged segments was begun and not finished. The next writable open
        finishes it; the report does not count the segments placed so far.
    kind : {"log", "archive", "segment"}
        What was verified.
    """

    path: str
    uuid: str
    segment_size: int
    live: bool
    clean: bool
    checkpoint: int | None
    segments: list[SegmentReport] = field(default_factory=list)
    holes: list[tuple[int, int]] = field(default_factory=list)
    torn: TornTail | None = None
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    joining: bool = False
    kind: Kind = "log"

    @property
    def damage(self) -> list[Damage]:
        """Return the damage of all segments, by position."""
        return [damage for segment in self.segments for damage in segment.damage]

    @property
    def records(self) -> int:
        """Return the number of valid records below the torn tail."""
        return sum(segment.records for segment in self.segments)

    @property
    def skipped_bytes(self) -> int:
        """Return the bytes in SKIP frames."""
        return sum(segment.skipped_bytes for segment in self.segments)

    @property
    def end(self) -> int:
        """Return the position behind the last valid frame."""
        return max((segment.end for segment in self.segments), default=0)

    @property
    def sound(self) -> bool:
        """Return whether nothing is wrong. A torn tail is not damage."""
        return not (
            self.problems
            or self.holes
            or any(segment.damage or segment.problems for segment in self.segments)
        )
