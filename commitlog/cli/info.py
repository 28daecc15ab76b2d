"""`commitlog info`: what a log is, how far it goes, who has it open."""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import asdict, dataclass, field

import click

import commitlog
from commitlog import CommitLog
from commitlog._kernel.core import Core
from commitlog._kernel.segment_file import FORMAT
from commitlog.cli import FAILURE
from commitlog.cli.holders import Writer, writers
from commitlog.errors import CommitLogError
from commitlog.flush import checkpoint as checkpoints
from commitlog.flush.checkpoint import Checkpoint
from commitlog.segment.directory import LogDirectory, segment_name
from commitlog.shared.identity import Identity
from commitlog.shared.lock_file import is_live
from commitlog.verification import open_directory, read_identity
from commitlog.watching import disk_bytes


@dataclass
class _Info:
    """What is printed, in this order."""

    path: str
    uuid: str
    format: str
    segment_size: int
    timestamps: str
    roll_cycle: str | None
    created_ns: int
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


@click.command()
@click.argument("log", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(context: click.Context, *, log: str, as_json: bool) -> None:
    """Say what LOG is: identity, segments, watermarks, whether it was closed, and who has it open for writing. Changes nothing.

    \b
    Examples:
      commitlog info orders
      commitlog info --json orders

    Exit status 1 when a part of it cannot be read; `commitlog verify` says more.
    """
    info = _gather(log)
    click.echo(json.dumps(asdict(info), indent=2) if as_json else "\n".join(_lines(info)))
    context.exit(FAILURE if info.problems else 0)


def _gather(path: str) -> _Info:
    fd = open_directory(path)
    try:
        identity, fault = read_identity(fd, path)
        directory = LogDirectory(path, identity.segment_size, identity.uuid, identity.roll_cycle)
    finally:
        os.close(fd)
    try:
        info = _describe(directory, identity, checkpoints.read(directory.fd, identity.uuid))
        if fault is not None:
            info.problems.append(fault)
    finally:
        directory.close()
    try:
        with commitlog.open(path, "r") as opened:
            _add_watermarks(info, opened, opened.first_position)
            _add_sequences(info, opened)
    except CommitLogError as error:
        info.problems.append(str(error))
    return info


def _describe(directory: LogDirectory, identity: Identity, checkpoint: Checkpoint | None) -> _Info:
    numbers = directory.segment_numbers()
    held = is_live(directory.fd)
    return _Info(
        path=directory.path,
        uuid=str(uuid.UUID(bytes=identity.uuid)),
        format=".".join(map(str, FORMAT)),
        segment_size=identity.segment_size,
        timestamps=identity.timestamps,
        roll_cycle=None if identity.roll_cycle is None else str(identity.roll_cycle),
        created_ns=identity.created_ns,
        open_for_writing=held,
        clean=not held and checkpoint is not None and checkpoint.clean,
        holders=writers(directory, identity) if held else [],
        segments=len(numbers),
        first_segment=numbers[0] * identity.segment_size if numbers else None,
        last_segment=numbers[-1] * identity.segment_size if numbers else None,
        disk_bytes=disk_bytes(directory),
        checkpoint=None if checkpoint is None else checkpoint.position,
    )


def _add_watermarks(info: _Info, opened: Core, first_position: int) -> None:
    info.first_position = first_position
    info.tail_position = opened.tail_position
    info.appended_position = opened.appended_position
    info.committed_position = opened.committed_position
    info.flushed_position = opened.flushed_position
    if info.segments:
        info.tail_segment = segment_name(info.tail_position // info.segment_size * info.segment_size)


def _add_sequences(info: _Info, opened: CommitLog) -> None:
    """Which records there are. Damage in the segments that are not sealed does not keep the rest from being said."""
    try:
        info.first_sequence = opened.first_sequence
        info.last_position, info.last_sequence = opened.last_position, opened.last_sequence
    except CommitLogError as error:
        info.problems.append(str(error))


def _lines(info: _Info) -> list[str]:
    """For people."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(info.created_ns // 10**9))
    state = "open for writing" if info.open_for_writing else ("closed" if info.clean else "not closed; the next open recovers it")
    said = [
        f"{info.path}: {state}",
        f"  uuid       {info.uuid}, format {info.format}, created {created}, {info.timestamps} timestamps",
        f"  segments   {info.segments} of {info.segment_size} bytes, {info.disk_bytes} bytes on disk",
    ]
    if info.roll_cycle is not None:
        said.append(f"  cycle      {info.roll_cycle}")
    if info.segments:
        said.append(
            f"             from {info.first_segment} to {info.last_segment}; the tail is in {info.tail_segment or 'none that is known'}"
        )
    for name in ("first", "tail", "appended", "committed", "flushed"):
        value = getattr(info, f"{name}_position")
        said.append(f"  {name:<10} {'unknown' if value is None else value}")
    if info.last_sequence is not None:
        said.append(f"  sequences  {info.first_sequence} to {info.last_sequence}; the last record is at {info.last_position}")
    elif info.first_sequence is not None:
        said.append(f"  sequences  no record; the first will be {info.first_sequence}")
    said.append(f"  checkpoint {'none' if info.checkpoint is None else info.checkpoint}")
    said += [f"  held by    {writer}, slot {writer.slot}" for writer in info.holders]
    if info.open_for_writing and not info.holders:
        said.append("  held by    a process that is opening, recovering or repairing it")
    return said + [f"  wrong: {problem}" for problem in info.problems]
