"""`commitlog spark JOB`: work on whole logs, with Spark."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from commitlog.cli import FAILURE, parameters
from commitlog.cli import verify as verify_command
from commitlog.cli.progress import is_terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_master = click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs: local[*] by default, all cores of this machine.",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def command() -> None:
    """Export, compact or verify whole logs with Spark.

    It runs here or on a cluster.

    Needs the extra `spark`. Every job can be run again after it was ended: it goes on, or starts
    over, and nothing is there twice.
    """


@command.command()
@click.argument("log", type=click.Path())
@click.argument("destination", type=click.Path())
@click.option("--text", is_flag=True, help="Write values as text, and not as bytes.")
@click.option(
    "--step",
    type=parameters.size,
    metavar="SIZE",
    default="1GiB",
    show_default=True,
    help="How much of the log is done before it is noted.",
)
@_master
@_as_json
def export(
    log: str, destination: str, *, text: bool, step: int, master: str | None, as_json: bool
) -> None:
    """Write LOG to Parquet files below DESTINATION.

    There is a directory a date (UTC). Only what is durable is written. Run again, it adds what has
    come since; one that was ended goes on where it was.
    """
    with _session(master) as spark, _Shown("export") as shown:
        from commitlog.spark.jobs import export as run

        done = run(spark, log, destination, text=text, step=step, progress=shown)
    _say(
        dataclasses.asdict(done),
        f"{done.log}: exported up to position {done.position}: {done.records} records in "
        f"{done.files} files of {done.destination}",
        as_json,
    )


@command.command()
@click.argument("log", type=click.Path())
@click.argument("new_log", type=click.Path())
@click.option(
    "--segment-size", type=parameters.size, metavar="SIZE", help="Of the new log: 64MiB by default."
)
@_master
@_as_json
def compact(
    log: str, new_log: str, *, segment_size: int | None, master: str | None, as_json: bool
) -> None:
    """Write the latest record of each key to NEW_LOG.

    Deleted keys are left out. A key is deleted where its latest record has an empty value. Records
    without a key are kept. NEW_LOG gets all of it at once.
    """
    with _session(master) as spark, _Shown("compact") as shown:
        from commitlog.spark.jobs import compact as run

        done = run(spark, log, new_log, segment_size=segment_size, progress=shown)
    if done.repeated:
        said = (
            f"{done.destination}: has this compaction already, {done.kept} records; nothing "
            "was done"
        )
    else:
        said = (
            f"{done.log}: {done.read} records up to position {done.position}; {done.kept} kept in "
            f"{done.destination}, {done.superseded} "
            f"superseded, {done.tombstones} tombstones"
        )
    _say(dataclasses.asdict(done), said, as_json)


@command.command()
@click.argument(
    "logs", metavar="LOG|ARCHIVE|FILE.seg...", nargs=-1, required=True, type=click.Path()
)
@click.option(
    "--state",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Note there what was checked, and go on from there.",
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

    Each segment is a task of its own. Exit status 1 when something is damaged or missing.
    """
    with _session(master) as spark, _Shown("verify") as shown:
        from commitlog.spark.jobs import verify as run

        done = run(spark, logs, state=state, progress=shown)
    reports = [verify_command.as_object(report) for report in done.reports]
    said = [line for report in done.reports for line in verify_command.lines(report)]
    if done.resumed:
        said.append(f"{done.resumed} segments had been checked before")
    _say({"sound": done.sound, "resumed": done.resumed, "logs": reports}, "\n".join(said), as_json)
    context.exit(0 if done.sound else FAILURE)


def _say(content: dict[str, Any], text: str, as_json: bool) -> None:
    click.echo(json.dumps(content, indent=2) if as_json else text)


@contextlib.contextmanager
def _session(master: str | None) -> Iterator[SparkSession]:
    """A session of its own; what Spark raises is told in a line."""
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
        raise click.ClickException(_told(str(error))) from error
    finally:
        spark.stop()


def _told(text: str) -> str:
    """Of a traceback through two languages, the line that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("commitlog.errors.")]
    return ours[-1].partition(": ")[2] if ours else lines[0] if lines else text


class _Shown:
    """How far a job is, on standard error where that is a terminal."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._show: Callable[[int, int], None] | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> _Shown:
        if is_terminal(sys.stderr):
            with contextlib.suppress(ImportError):
                from rich.console import Console
                from rich.progress import Progress

                progress = self._stack.enter_context(
                    Progress(console=Console(stderr=True), transient=True)
                )
                task = progress.add_task(self._name, total=None)
                self._show = lambda done, total: progress.update(task, completed=done, total=total)
        return self

    def __call__(self, done: int, total: int) -> None:
        if self._show is not None:
            self._show(done, total)

    def __exit__(self, *exception: object) -> None:
        self._stack.close()
