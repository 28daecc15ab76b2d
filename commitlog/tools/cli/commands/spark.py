"""`commitlog spark JOB`: work on whole logs, with Spark."""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from commitlog.tools.cli import FAILURE, parameters
from commitlog.tools.cli.commands import verify as verify_command
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.progress import step_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from commitlog.spark.jobs.compaction import Compaction
    from commitlog.spark.jobs.exporting import Export

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_master = click.option(
    "--master",
    metavar="URL",
    help="Run on this Spark master.  [default: local[*], all cores of this machine]",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")


@click.group()
def command() -> None:
    """Export, compact or verify whole logs with Spark.

    It runs on this machine or on a cluster, and needs the extra `spark`. An interrupted job can be
    run again: it resumes or starts over, and writes nothing twice.
    """


@command.command()
@click.argument("log", type=click.Path())
@click.argument("destination", type=click.Path())
@click.option("--text", is_flag=True, help="Write values as text instead of bytes.")
@click.option("--headers", is_flag=True, help="Add a column of headers.")
@click.option(
    "--step",
    type=parameters.size,
    metavar="SIZE",
    default="1GiB",
    show_default=True,
    help="Write a checkpoint each time this much of the log is exported.",
)
@_master
@_as_json
def export(
    log: str,
    destination: str,
    *,
    text: bool,
    headers: bool,
    step: int,
    master: str | None,
    as_json: bool,
) -> None:
    """Write LOG to Parquet files below DESTINATION.

    Each date (UTC) has a directory. Only durable records are written. The next run adds the records
    appended since.
    """
    with _session(master) as spark, step_progress("export") as shown:
        from commitlog.spark.jobs import export as run

        done = run(spark, log, destination, text=text, headers=headers, step=step, progress=shown)
    _print(
        as_object(done),
        f"{done.log}: exported up to position {done.position}: {done.records} records in "
        f"{done.files} files of {done.destination}",
        as_json=as_json,
    )


@command.command()
@click.argument("log", type=click.Path())
@click.argument("new_log", type=click.Path())
@click.option(
    "--segment-size",
    type=parameters.segment_size,
    metavar="SIZE",
    help="Give NEW_LOG segments of this size.  [default: 64MiB]",
)
@_master
@_as_json
def compact(
    log: str, new_log: str, *, segment_size: int | None, master: str | None, as_json: bool
) -> None:
    """Write the latest record of each key to NEW_LOG.

    A key whose latest record is a tombstone (has an empty value) is left out. Records without a key
    are kept. All records become visible in NEW_LOG atomically.
    """
    with _session(master) as spark, step_progress("compact") as shown:
        from commitlog.spark.jobs import compact as run

        done = run(spark, log, new_log, segment_size=segment_size, progress=shown)
    if done.repeated:
        text = (
            f"{done.destination}: already has this compaction, {done.kept} records; nothing was "
            "written"
        )
    else:
        text = (
            f"{done.log}: {done.read} records up to position {done.position}; {done.kept} kept in "
            f"{done.destination}, {done.superseded} "
            f"superseded, {done.tombstones} tombstones"
        )
    _print(as_object(done), text, as_json=as_json)


@command.command()
@click.argument(
    "logs", metavar="LOG|ARCHIVE|FILE.seg...", nargs=-1, required=True, type=click.Path()
)
@click.option(
    "--state",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Record in FILE what was checked, and resume from there.",
)
@_master
@_as_json
@click.pass_context
def verify(
    context: click.Context,
    logs: tuple[str, ...],
    *,
    state: str | None,
    master: str | None,
    as_json: bool,
) -> None:
    """Check every frame of LOGs or ARCHIVEs and change nothing.

    Each segment is a Spark task. The exit status is 1 if something is damaged or missing.
    """
    with _session(master) as spark, step_progress("verify") as shown:
        from commitlog.spark.jobs import verify as run

        done = run(spark, logs, state=state, progress=shown)
    reports = [verify_command.as_object(report) for report in done.reports]
    text = [line for report in done.reports for line in verify_command.lines(report)]
    if done.resumed:
        text.append(f"{done.resumed} segments were checked by an earlier run")
    _print({"sound": done.sound, "resumed": done.resumed, "logs": reports}, *text, as_json=as_json)
    context.exit(0 if done.sound else FAILURE)


def as_object(done: Export | Compaction) -> dict[str, Any]:
    """Return a result as `--json` prints it, with the keys of the other commands."""
    content = dataclasses.asdict(done)
    content = {"path": content.pop("log"), "end_position": content.pop("position"), **content}
    content.pop("pending", None)
    if "uuid" in content:
        content["uuid"] = str(uuid.UUID(hex=content["uuid"])) if content["uuid"] else None
    return content


def _print(content: dict[str, Any], *lines: str, as_json: bool) -> None:
    if as_json:
        print_json(content)
    else:
        echo(*lines)


@contextlib.contextmanager
def _session(master: str | None) -> Iterator[SparkSession]:
    """Start a Spark session, and turn an exception of Spark into one line."""
    try:
        from commitlog.spark import session

        spark = session("commitlog", master=master, config=_SETTINGS)
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from error
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        raise click.ClickException(_cause(str(error))) from error
    finally:
        spark.stop()


def _cause(text: str) -> str:
    """Return the line with the cause from a traceback through Java and Python."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("commitlog.errors.")]
    return ours[-1].partition(": ")[2] if ours else lines[0] if lines else text
