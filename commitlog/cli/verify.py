"""`commitlog verify`: what is wrong with a log, an archive or a segment."""

from __future__ import annotations

import dataclasses
import json

import click

from commitlog.repair.verification import verify
from commitlog.repair.verify_report import VerifyReport
from commitlog.segment.directory import Kind

_STATES: dict[tuple[Kind, bool], str] = {
    ("log", True): "closed",
    ("log", False): "not closed",
    ("archive", True): "an archive",
    ("segment", True): "finished",
    ("segment", False): "not finished",
}
_RECOVERED = "the next open for appending recovers what can be kept"
_REMEDIES: dict[Kind, str] = {
    "log": "`commitlog repair` mends what can be mended",
    "archive": "restore what is named from another copy of the archive",
    "segment": "copy it anew; in its log `commitlog repair` mends what can be mended",
}


@click.command()
@click.argument("log", metavar="LOG|ARCHIVE|FILE.seg", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(context: click.Context, log: str, as_json: bool) -> None:
    """Check every frame of LOG and change nothing.

    LOG may be open or closed, an archive, or a single segment's file.

    An archive is named by its directory or its address, and unpacked one segment after the other in
    a folder for temporary files.

    \b
    Examples:
      commitlog verify orders
      commitlog verify s3://bucket/orders
      commitlog verify --json 00000000000067108864.seg

    Exit status 1 when something is damaged or missing. What a crash left unfinished at the end is
    no damage: the next program that opens the log for appending recovers it.
    """
    report = verify(log)
    click.echo(json.dumps(as_object(report), indent=2) if as_json else "\n".join(lines(report)))
    context.exit(0 if report.sound else 1)


def as_object(report: VerifyReport) -> dict[str, object]:
    """The report for JSON, sums included."""
    sums = {name: getattr(report, name) for name in ("sound", "records", "skipped_bytes", "end")}
    return {**sums, **dataclasses.asdict(report)}


def lines(report: VerifyReport) -> list[str]:
    """The report for people."""
    state = "open for writing" if report.live else _STATES[report.kind, report.clean]
    said = [
        (
            f"{report.path}: {report.records} records in {len(report.segments)} segments, ends at "
            f"position {report.end}, {state}"
        ),
    ]
    if report.skipped_bytes:
        said.append(
            f"  {report.skipped_bytes} bytes in SKIP frames (claims rolled back, ends of "
            "segments, repaired damage)"
        )
    said += [f"  wrong: {problem}" for problem in report.problems]
    said += [
        f"  wrong: segments from position {start} to {stop} are missing"
        for start, stop in report.holes
    ]
    for segment in report.segments:
        said += [f"  wrong: {segment.name}: {problem}" for problem in segment.problems]
        said += [
            f"  damage: {segment.name}: position {damage.position} to {damage.resume_position}: "
            f"{damage.reason}"
            for damage in segment.damage
        ]
    said += [
        f"  note: {segment.name}: {note}" for segment in report.segments for note in segment.notes
    ]
    said += [f"  note: {note}" for note in report.notes]
    if report.joining:
        said.append(
            "  joining: segments were being joined to the log; the next open for appending "
            "finishes that"
        )
    if report.torn is not None:
        said.append(
            f"  torn tail: position {report.torn.position} to {report.torn.end_position}, "
            f"{report.torn.records} whole records in it; "
            + (
                "it was copied before that was published"
                if report.kind == "segment"
                else _RECOVERED
            )
        )
    said.append("sound" if report.sound else f"NOT sound: {_REMEDIES[report.kind]}")
    return said
