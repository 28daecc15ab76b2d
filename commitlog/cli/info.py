"""`commitlog info`: what a log is, how far it goes, who has it open; and the same of an archive, or of one segment's file."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict

import click

from commitlog.cli import FAILURE
from commitlog.cli.archive_info import ArchiveInfo
from commitlog.cli.log_info import LogInfo
from commitlog.cli.segment_info import LoneSegmentInfo
from commitlog.retention.archived_directory import ArchivedDirectory
from commitlog.retention.detached import open_detached


@click.command()
@click.argument("log", metavar="LOG|ARCHIVE|FILE.seg", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(context: click.Context, *, log: str, as_json: bool) -> None:
    """Say what LOG is: identity, segments, watermarks, whether it was closed, and who has it open for writing. Changes nothing.

    Of an archive, named by its directory or its address: how many segments it has, how large they are there and unpacked, which positions
    and sequences they hold. Of a single segment's file: its base, when the log rolled into it and in which cycle, its seal, and what it
    holds.

    \b
    Examples:
      commitlog info orders
      commitlog info --json orders
      commitlog info s3://bucket/orders
      commitlog info 00000000000067108864.seg

    Exit status 1 when a part of it cannot be read; `commitlog verify` says more.
    """
    info = _of(log)
    click.echo(json.dumps(asdict(info), indent=2) if as_json else "\n".join(info.lines()))
    context.exit(FAILURE if info.problems else 0)


def _of(path: str) -> LogInfo | ArchiveInfo | LoneSegmentInfo:
    detached = open_detached(path)
    if detached is None:
        return LogInfo.of(path)
    with contextlib.closing(detached):
        return ArchiveInfo.of(detached) if isinstance(detached, ArchivedDirectory) else LoneSegmentInfo.of(detached)
