"""What `commitlog info` says of a log."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import commitlog
from commitlog import CommitLog
from commitlog.cli.holders import Writer, writers
from commitlog.cli.identity_line import IdentityInfo, identity_fields, identity_line
from commitlog.errors import CommitLogError
from commitlog.flush import checkpoint as checkpoints
from commitlog.flush.checkpoint import Checkpoint
from commitlog.repair.verification import open_directory, read_identity
from commitlog.segment.cursors_file import is_live
from commitlog.segment.directory import LogDirectory, segment_name
from commitlog.segment.identity import Identity


@dataclass
class LogInfo(IdentityInfo):
    """What is printed, in this order."""

    open_for_writing: bool
    clean: bool
    holders: list[Writer]
    segments: int
    first_segment: int | None
    last_segment: int | None
    disk_bytes: int
    checkpoint: int | None
    first_position: int | None = None
    tail_position: int | None = None
    appended_position: int | None = None
    committed_position: int | None = None
    flushed_position: int | None = None
    last_position: int | None = None
    first_sequence: int | None = None
    last_sequence: int | None = None
    tail_segment: str | None = None
    problems: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, path: str) -> LogInfo:
        fd = open_directory(path)
        try:
            identity, fault = read_identity(fd, path)
            directory = LogDirectory(
                path, identity.segment_size, identity.uuid, identity.roll_cycle
            )
        finally:
            os.close(fd)
        try:
            info = cls._of_files(directory, identity, checkpoints.read(directory.fd, identity.uuid))
            if fault is not None:
                info.problems.append(fault)
        finally:
            directory.close()
        try:
            with commitlog.open(path, "r") as opened:
                info._add_watermarks(opened, opened.first_position)
                info._add_sequences(opened)
        except CommitLogError as error:
            info.problems.append(str(error))
        return info

    @classmethod
    def _of_files(
        cls, directory: LogDirectory, identity: Identity, checkpoint: Checkpoint | None
    ) -> LogInfo:
        numbers = directory.segment_numbers()
        held = is_live(directory.fd)
        return cls(
            **identity_fields(directory, identity),
            open_for_writing=held,
            clean=not held and checkpoint is not None and checkpoint.clean,
            holders=writers(directory, identity) if held else [],
            segments=len(numbers),
            first_segment=numbers[0] * identity.segment_size if numbers else None,
            last_segment=numbers[-1] * identity.segment_size if numbers else None,
            disk_bytes=directory.whole_disk_bytes(),
            checkpoint=None if checkpoint is None else checkpoint.position,
        )

    def _add_watermarks(self, opened: CommitLog, first_position: int) -> None:
        self.first_position = first_position
        self.tail_position = opened.tail_position
        self.appended_position = opened.appended_position
        self.committed_position = opened.committed_position
        self.flushed_position = opened.flushed_position
        if self.segments:
            self.tail_segment = segment_name(
                self.tail_position // self.segment_size * self.segment_size
            )

    def _add_sequences(self, opened: CommitLog) -> None:
        """Which records there are. Damage in the segments that are not sealed does not keep the
        rest from being said.
        """
        try:
            self.first_sequence = opened.first_sequence
            self.last_position, self.last_sequence = opened.last_position, opened.last_sequence
        except CommitLogError as error:
            self.problems.append(str(error))

    def lines(self) -> list[str]:
        """For people."""
        state = (
            "open for writing"
            if self.open_for_writing
            else ("closed" if self.clean else "not closed; the next open recovers it")
        )
        said = [
            f"{self.path}: {state}",
            f"{identity_line(self.uuid, self.created_ns)}, {self.timestamps} timestamps",
            (
                f"  segments   {self.segments} of {self.segment_size} bytes, {self.disk_bytes} "
                "bytes on disk"
            ),
        ]
        if self.roll_cycle is not None:
            said.append(f"  cycle      {self.roll_cycle}")
        if self.segments:
            said.append(
                f"             from {self.first_segment} to {self.last_segment}; the tail is in "
                f"{self.tail_segment or 'none that is known'}"
            )
        for name in ("first", "tail", "appended", "committed", "flushed"):
            value = getattr(self, f"{name}_position")
            said.append(f"  {name:<10} {'unknown' if value is None else value}")
        if self.last_sequence is not None:
            said.append(
                f"  sequences  {self.first_sequence} to {self.last_sequence}; the last record is "
                f"at {self.last_position}"
            )
        elif self.first_sequence is not None:
            said.append(f"  sequences  no record; the first will be {self.first_sequence}")
        said.append(f"  checkpoint {'none' if self.checkpoint is None else self.checkpoint}")
        said += [f"  held by    {writer}, slot {writer.slot}" for writer in self.holders]
        if self.open_for_writing and not self.holders:
            said.append("  held by    a process that is opening, recovering or repairing it")
        return said + [f"  wrong: {problem}" for problem in self.problems]
