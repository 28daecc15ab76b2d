"""`commitlog verify`: check every frame of a log, an archive or a segment file."""

from __future__ import annotations

import dataclasses
import uuid

import click

import commitlog
from commitlog.keep import VerifyReport, verify
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.progress import byte_progress
from commitlog.tools.cli.quantities import counted, size_text
from commitlog.tools.cli.report import state_of
from commitlog.topics.authentication import Authentication
from commitlog.topics.key_ring import KeyRing

_STATES: dict[tuple[str, bool], str] = {
    ("log", True): "closed",
    ("log", False): "not closed",
    ("archive", True): "an archive",
    ("archive", False): "a store whose last segment is not sealed",
    ("segment", True): "finished",
    ("segment", False): "not finished",
}
_RECOVERED = "the next open for appending recovers it"
_REMEDY = "use another copy"
_REMEDIES: dict[str, str] = {
    "log": "`commitlog repair` repairs what can be repaired",
    "archive": "restore the named files from another copy of the archive",
    "remote": "run this on its machine",
    "segment": "copy it from its log again, and repair that log with `commitlog repair`",
}


@click.command()
@click.argument("log", metavar="LOG|ARCHIVE|FILE.seg", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_context
def command(context: click.Context, log: str, as_json: bool) -> None:
    """Check every frame of LOG and change nothing.

    LOG may be open or closed. ARCHIVE is a directory or a URL. FILE.seg is a segment file;
    the rest of its log is not needed. With keys in COMMITLOG_KEYS, messages of sealed topics are
    authenticated, too.

    \b
    Examples:
      commitlog verify orders
      commitlog verify s3://bucket/orders
      commitlog verify --json 00000000000067108864.seg

    The exit status is 1 if something is damaged or missing. A torn tail left by a crash is
    not damage: the next open for appending recovers it.
    """
    with byte_progress("verify", as_json=as_json) as show:
        report = verify(log, progress=show)
    keys = KeyRing.of_environment()
    if keys.key_ids and report.sound:
        with commitlog.open(log, "r") as opened:
            found = Authentication(opened, keys)
        report.problems += found.problems
        report.notes += found.notes()
    if as_json:
        print_json(as_object(report))
    else:
        echo(*lines(report))
    context.exit(0 if report.sound else 1)


def as_object(report: VerifyReport) -> dict[str, object]:
    """Return the report as `--json` prints it, sums included."""
    segments = [dataclasses.asdict(segment) for segment in report.segments]
    for segment in segments:
        segment |= {"base_position": segment.pop("base"), "end_position": segment.pop("end")}
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
    state = (
        "open for writing" if report.live else _STATES.get((report.kind, report.clean), report.kind)
    )
    text = [
        (
            f"{report.path}: {counted(report.records, 'record')} in "
            f"{counted(len(report.segments), 'segment')}, ends at position {report.end}, {state}"
        ),
    ]
    if report.skipped_bytes:
        text.append(f"  {size_text(report.skipped_bytes)} in SKIP frames, which hold no record")
    text += [f"  wrong: {problem}" for problem in report.problems]
    text += [
        f"  wrong: segments from position {start} to {stop} are missing"
        for start, stop in report.holes
    ]
    for segment in report.segments:
        text += [f"  wrong: {segment.name}: {problem}" for problem in segment.problems]
        text += [
            f"  damage: {segment.name}: position {damage.position} to {damage.resume_position}: "
            f"{damage.reason}"
            for damage in segment.damage
        ]
    text += [
        f"  note: {segment.name}: {note}" for segment in report.segments for note in segment.notes
    ]
    text += [f"  note: {note}" for note in report.notes]
    if report.joining:
        text.append(
            "  joining: a join of segments is not finished; the next open for appending finishes it"
        )
    if report.torn is not None:
        text.append(
            f"  torn tail: position {report.torn.position} to {report.torn.end_position}, "
            f"{report.torn.records} valid records in it; "
            + (
                "the file was copied before a claim in it was published"
                if report.kind == "segment"
                else _RECOVERED
            )
        )
    text.append("sound" if report.sound else f"NOT sound: {_REMEDIES.get(report.kind, _REMEDY)}")
    return text
