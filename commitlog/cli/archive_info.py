"""What `commitlog info` says of an archive."""

from __future__ import annotations

from dataclasses import dataclass, field

from commitlog._kernel.segments import HEADER_SIZE
from commitlog.cli.identity_line import IdentityInfo, identity_fields, identity_line
from commitlog.errors import CorruptSegmentError
from commitlog.retention.archived_directory import ArchivedDirectory
from commitlog.segment.directory import holes


@dataclass
class ArchiveInfo(IdentityInfo):
    """What is printed, in this order. Of its files no more is read than a list of them, and the
    headers of the first and the last.
    """

    segments: int
    first_segment: int | None
    last_segment: int | None
    compressed_bytes: int
    uncompressed_bytes: int
    first_position: int | None = None
    end_position: int | None = None
    first_sequence: int | None = None
    last_sequence: int | None = None
    problems: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, directory: ArchivedDirectory) -> ArchiveInfo:
        identity, size, numbers = (
            directory.identity,
            directory.segment_size,
            directory.segment_numbers(),
        )
        info = cls(
            **identity_fields(directory, identity),
            segments=len(numbers),
            first_segment=numbers[0] * size if numbers else None,
            last_segment=numbers[-1] * size if numbers else None,
            compressed_bytes=directory.whole_disk_bytes(),
            uncompressed_bytes=len(numbers) * size,
        )
        if numbers:
            info.first_position, info.end_position = (
                numbers[0] * size + HEADER_SIZE,
                directory.find_end(),
            )
            info.problems += [
                f"segments from position {start} to {stop} are missing"
                for start, stop in holes(numbers, size)
            ]
            info._add_sequences(directory)
        return info

    def _add_sequences(self, directory: ArchivedDirectory) -> None:
        try:
            first, behind = directory.sequences()
        except CorruptSegmentError as error:
            self.problems.append(str(error))
        else:
            self.first_sequence, self.last_sequence = first, behind - 1 if behind > first else None

    def lines(self) -> list[str]:
        """For people."""
        said = [
            f"{self.path}: an archive",
            f"{identity_line(self.uuid, self.created_ns)}, {self.timestamps} timestamps",
        ]
        between = f", from {self.first_segment} to {self.last_segment}" if self.segments else ""
        said.append(f"  segments   {self.segments} of {self.segment_size} bytes{between}")
        said.append(
            f"  size       {self.compressed_bytes} bytes compressed, {self.uncompressed_bytes} "
            "bytes unpacked"
        )
        if self.roll_cycle is not None:
            said.append(f"  cycle      {self.roll_cycle}")
        if self.segments:
            said += [f"  first      {self.first_position}", f"  end        {self.end_position}"]
        if self.last_sequence is not None:
            said.append(f"  sequences  {self.first_sequence} to {self.last_sequence}")
        elif self.first_sequence is not None:
            said.append(f"  sequences  no record; the next would be {self.first_sequence}")
        return said + [f"  wrong: {problem}" for problem in self.problems]
