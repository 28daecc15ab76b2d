"""`commitlog verify`: what is wrong with a log, an archive or a segment."""

from __future__ import annotations

import dataclasses
import uuid

import click

from commitlog.cli.output import print_json
from commitlog.cli.quantities import size_text
from commitlog.cli.report import state_of
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
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_context
def command(context: click.Context, log: str, as_json: bool) -> None:
    """Check every frame of LOG and change nothing.

    LOG may be open or closed, an archive, or a single segment file. An archive is named by its
    directory or its address.

    \b
    Examples:
      commitlog verify orders
      commitlog verify s3://bucket/orders
      commitlog verify --json 00000000000067108864.seg

    The exit status is 1 if something is damaged or missing. A torn tail, which a crash leaves, is
    no damage: the next open for appending recovers it.
    """
    report = verify(log)
    if as_json:
        print_json(as_object(report))
    else:
        click.echo("\n".join(lines(report)))
    context.exit(0 if report.sound else 1)


def as_object(report: VerifyReport) -> dict[str, object]:
    """Return the report as `--json` prints it, sums included."""
    segments = [
        {
            **{
                key: content
                for key, content in dataclasses.asdict(segment).items()
                if key not in ("base", "end")
            },
            "base_position": segment.base,
            "end_position": segment.end,
        }
        for segment in report.segments
    ]
    return {
        "kind": report.kind,
        "path": report.path,
        "uuid": str(uuid.UUID(report.uuid)),
        "state": state_of(live=report.live, clean=report.clean),
        "sound": report.sound,
        "segment_size": report.segment_size,
        "records": report.records,
        "skipped_bytes": report.skipped_bytes,
        "end_position": report.end,
        "checkpoint_position": report.checkpoint,
        "joining": report.joining,
        "torn": None if report.torn is None else dataclasses.asdict(report.torn),
        "holes": [{"position": start, "end_position": stop} for start, stop in report.holes],
        "problems": report.problems,
        "notes": report.notes,
        "segments": segments,
    }


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
            f"  {size_text(report.skipped_bytes)} in SKIP frames (claims rolled back, ends of "
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
