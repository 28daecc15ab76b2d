"""The results of `verify` and of `repair`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Damage:
    """Bytes that are not frames, from `position` to `resume_position`, where reading continues."""

    position: int
    resume_position: int
    reason: str


@dataclass(frozen=True)
class TornTail:
    """The data behind the last valid frame of a log that was not closed, up to its last non-zero
    byte, with the number of whole records in it.

    The next writable open keeps what was published if the memory that the writers shared is still
    there; otherwise it cuts the log at `position`.
    """

    position: int
    end_position: int
    records: int


@dataclass
class SegmentReport:
    """The findings about one segment.

    `records` counts the valid records, `skipped_bytes` the bytes in SKIP frames, which hold none.
    `end` is the position behind the last valid frame. The damage is in ascending order. `problems`
    are wrong with the header, the seal or the length; `notes` lose no record, such as a damaged
    index.
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
    """The findings about a log, an archive or a segment file, as `kind` says.

    `live`: a process has the log open for writing, and the counts are a snapshot. `clean`: the log
    was closed and not opened since; true for an archive, and for a segment file that is complete.
    `checkpoint` is the position known to be durable. `holes` are ranges of positions at which
    segments are missing, and `torn` is the tail that the next writable open recovers. `problems`
    are wrong with the other files of the log; `notes` lose no record, such as the damaged file of a
    named tailer. `joining`: a join was begun and not finished; the next writable open finishes it,
    and the report does not count the segments placed so far.
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
    kind: str = "log"

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


@dataclass(frozen=True)
class Action:
    """One change that `repair` made, or would make: in words, with the file, and the range of
    positions if it has one.
    """

    what: str
    file: str
    position: int | None = None
    resume_position: int | None = None


@dataclass
class RepairReport:
    """The changes that `repair` made, in order; after a dry run, those of a real run.

    `copies` are the files that hold the previous contents, and `remaining` are the problems that
    are left.
    """

    path: str
    dry_run: bool = False
    actions: list[Action] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    remaining: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Return whether the log has no problem now."""
        return not self.remaining and not (self.dry_run and self.actions)
