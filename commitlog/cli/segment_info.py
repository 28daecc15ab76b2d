"""What `commitlog info` says of one segment's file."""

from __future__ import annotations

from dataclasses import dataclass, field

from commitlog._kernel.segments import HEADER_SIZE, Segment
from commitlog.cli.clock import Clock
from commitlog.cli.identity_line import FORMAT, identity_line, uuid_text
from commitlog.cli.segment_header import segment_header
from commitlog.segment.directory import Kind
from commitlog.segment.lone_segment import LoneSegment


@dataclass
class LoneSegmentInfo:
    """What is printed, in this order. A seal says all of it; without one frames are counted, and
    with which sequence they begin only the log knows."""

    kind: Kind
    path: str
    uuid: str
    format: str
    segment_size: int
    created_ns: int
    base: int
    id: str
    opened_ns: int | None
    cycle: int | None
    seal: dict[str, int] | None
    disk_bytes: int
    records: int
    first_position: int
    end_position: int
    first_sequence: int | None = None
    last_sequence: int | None = None
    first_timestamp_ns: int | None = None
    last_timestamp_ns: int | None = None
    problems: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, directory: LoneSegment) -> LoneSegmentInfo:
        segment = directory.open_segment(directory.number, writable=False)
        try:
            header = segment_header(segment)
            info = cls(
                kind=directory.kind,
                path=directory.path,
                uuid=uuid_text(directory.identity.uuid),
                format=FORMAT,
                segment_size=header.pop("size"),
                created_ns=directory.identity.created_ns,
                **header,
                disk_bytes=directory.whole_disk_bytes(),
                records=0,
                first_position=segment.base + HEADER_SIZE,
                end_position=0,
            )
            if info.seal is not None:
                info._take_seal(info.seal)
            else:
                info._count(segment, directory.find_end())
        finally:
            segment.release()
        return info

    def _take_seal(self, seal: dict[str, int]) -> None:
        self.records, self.end_position, self.first_sequence = (
            seal["record_count"],
            self.base + seal["end"],
            seal["first_sequence"],
        )
        if self.records:
            self.last_sequence = self.first_sequence + self.records - 1
            self.first_timestamp_ns, self.last_timestamp_ns = (
                seal["first_timestamp_ns"],
                seal["last_timestamp_ns"],
            )

    def _count(self, segment: Segment, end: int) -> None:
        stopped, code, self.records, _, _, first_ns, last_ns, _ = segment.scan(
            HEADER_SIZE, end - self.base
        )
        self.end_position = end
        if self.records:
            self.first_timestamp_ns, self.last_timestamp_ns = first_ns, last_ns
        if code != 0:
            self.problems.append(
                f"damage at position {self.base + stopped}: the records behind it are not "
                "counted; `commitlog verify` says more"
            )

    def lines(self) -> list[str]:
        """For people."""
        clock = Clock()
        opened = "not yet"
        if self.opened_ns is not None:
            opened = f"{clock.text(self.opened_ns)}, cycle {self.cycle}"
        said = [
            f"{self.path}: a segment, {'not sealed' if self.seal is None else 'sealed'}",
            identity_line(self.uuid, self.created_ns),
            f"  size       {self.segment_size} bytes, {self.disk_bytes} bytes on disk",
            f"  base       {self.base}, id {self.id}",
            f"  opened     {opened}",
            f"  first      {self.first_position}",
            f"  end        {self.end_position}",
            f"  records    {self.records}",
        ]
        if self.first_timestamp_ns is not None and self.last_timestamp_ns is not None:
            said[-1] += (
                f", from {clock.text(self.first_timestamp_ns)} to "
                f"{clock.text(self.last_timestamp_ns)}"
            )
        if self.last_sequence is not None:
            said.append(f"  sequences  {self.first_sequence} to {self.last_sequence}")
        elif self.first_sequence is not None:
            said.append(f"  sequences  no record; the next one has {self.first_sequence}")
        else:
            said.append("  sequences  not known: a segment says them when it is sealed")
        return said + [f"  wrong: {problem}" for problem in self.problems]
