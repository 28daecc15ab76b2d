"""The result of `verify`: a report of a log, and of each of its segments."""

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
    """The data behind the last frame of a log that was not closed, up to its last byte. `records`
    counts the whole records in it.

    The next writable open resolves the claims in it, if this is still the boot in which they were
    made; otherwise it cuts the log there.
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
        The file.
    base : int
        Its base position.
    records, skipped_bytes : int
        Whole records; bytes in SKIP frames, which hold none.
    end : int
        Position behind its last whole frame.
    damage : list of Damage
        In ascending order.
    problems : list of str
        What is wrong with its header, its seal or its length.
    notes : list of str
        Faults that lose no record: its index.
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
    """What `verify` found.

    Attributes
    ----------
    path, uuid, segment_size
        The log, the archive or the segment's file; the uuid is the log's.
    live : bool
        A process has it open for writing; the counts are a snapshot.
    clean : bool
        It was closed, and not opened since. Always true of an archive; of a segment's file: it is
        complete.
    checkpoint : int or None
        The position known to be durable.
    segments : list of SegmentReport
        By position.
    holes : list of (int, int)
        Positions at which segments are missing, from and to.
    torn : TornTail or None
        The torn tail, which the next writable open resolves or cuts.
    problems : list of str
        What is wrong with the log's other files.
    notes : list of str
        Faults that lose no record: files of named tailers.
    joining : bool
        A join of staged segments was begun and not finished. The next writable open finishes it;
        the report does not count the segments placed so far.
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
        """All of it, by position."""
        return [damage for segment in self.segments for damage in segment.damage]

    @property
    def records(self) -> int:
        """Whole records below the torn tail."""
        return sum(segment.records for segment in self.segments)

    @property
    def skipped_bytes(self) -> int:
        """Bytes in SKIP frames."""
        return sum(segment.skipped_bytes for segment in self.segments)

    @property
    def end(self) -> int:
        """Position behind the last whole frame."""
        return max((segment.end for segment in self.segments), default=0)

    @property
    def sound(self) -> bool:
        """Nothing is wrong. A torn tail is no damage."""
        return not (
            self.problems
            or self.holes
            or any(segment.damage or segment.problems for segment in self.segments)
        )
