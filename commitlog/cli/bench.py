"""`commitlog bench`: what commitlog does on a disk of the user's."""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import click

from commitlog.bench import harness, machine, report_page, report_table, workloads
from commitlog.bench.harness import Step
from commitlog.bench.results import Results, json_text
from commitlog.bench.settings import QUICK, Settings
from commitlog.bench.workloads import ALL_FLUSHES, ALL_SETUPS, choose
from commitlog.cli import INTERRUPTED, parameters
from commitlog.cli.ending import Ending
from commitlog.cli.progress import is_terminal
from commitlog.errors import InvalidOptionError

_SMALLEST_S = 0.05


@click.command()
@click.argument(
    "directory",
    metavar="DIR",
    required=False,
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
)
@click.option(
    "-w",
    "--workload",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this workload; may be given several times.",
)
@click.option(
    "--setup",
    "setups",
    multiple=True,
    metavar="NAME",
    help=f"Only this setup: {', '.join(ALL_SETUPS)}.",
)
@click.option(
    "--flush",
    "flushes",
    multiple=True,
    metavar="NAME",
    help=f"Only this flush option: {', '.join(ALL_FLUSHES)}.",
)
@click.option(
    "--list",
    "as_list",
    is_flag=True,
    help="Print the names of all workloads and cases, and measure nothing.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Everything at a size that takes seconds: to see that it works, not for the figures.",
)
@click.option(
    "--seconds",
    type=parameters.duration_from(_SMALLEST_S),
    metavar="TIME",
    help="How long a constant-rate turn takes (15 s).",
)
@click.option(
    "--rate",
    type=parameters.size_from(1024),
    metavar="SIZE",
    help="Bytes a second of the constant rate (200MB).",
)
@click.option(
    "--size",
    type=parameters.size_from(1 << 20),
    metavar="SIZE",
    help="How much the sustained workload appends (8GiB).",
)
@click.option(
    "--turns",
    type=parameters.whole(1, 100),
    help="How often each case is measured (5, and 2 or 3 for the long ones).",
)
@click.option("--memory", is_flag=True, help="Measure on a file system in memory too.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write everything to this file as JSON.",
)
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page with charts to this file.",
)
@click.pass_context
def command(
    context: click.Context,
    *,
    directory: Path | None,
    names: tuple[str, ...],
    setups: tuple[str, ...],
    flushes: tuple[str, ...],
    as_list: bool,
    quick: bool,
    seconds: float | None,
    rate: int | None,
    size: int | None,
    turns: int | None,
    memory: bool,
    json_file: Path | None,
    html_file: Path | None,
) -> None:
    """Measure commitlog on the disk of DIR.

    It appends, reads and reopens, with the pool and without it.

    Makes a directory of its own in DIR, and removes it at the end. A full run takes some eighteen
    minutes and 9 GiB of room; it says at the start how long it expects to take. Ctrl-C ends it and
    shows what there is; --json has kept it already. The cases of a workload take turns; figures are
    medians.

    Exit status 1 when a case failed. One without room is skipped, and said to be.
    """
    try:
        chosen = choose(names, setups, flushes)
    except InvalidOptionError as error:
        raise click.UsageError(error.message, context) from error
    settings = _settings(quick, seconds, rate, size, turns)
    if as_list:
        click.echo("\n".join(_listing(names)))
        return
    if directory is None or not directory.is_dir():  # click lets a device pass
        raise click.UsageError("name the directory to measure in: commitlog bench DIR", context)
    _check_histograms(context)
    for file in (json_file, html_file):
        if file is not None and not file.absolute().parent.is_dir():
            raise click.UsageError(f"there is no directory for {file}", context)
    machine.check_disk(directory, memory)
    for file in (json_file, html_file):
        if file is not None:
            file.open("a").close()  # better now than after a run of minutes
    click.echo(
        f"about {_say_time(harness.expected_s(chosen, settings))}; Ctrl-C ends it, and what was "
        "measured until then is shown",
        err=True,
    )
    with Ending() as ending:
        keep = (
            functools.partial(_keep, json_file=json_file)
            if json_file is not None and json_file.is_file()
            else None
        )
        results = harness.run(directory, chosen, settings, _progress(ending), keep)
    if json_file is not None:
        _keep(results, json_file)
    _show(results, html_file)
    context.exit(INTERRUPTED if results.interrupted else int(bool(results.failures)))


def _settings(
    quick: bool, seconds: float | None, rate: int | None, size: int | None, turns: int | None
) -> Settings:
    """The usual settings, or the quick ones, with what was asked for."""
    settings = QUICK if quick else Settings()
    if seconds is not None:
        settings = dataclasses.replace(settings, paced_s=seconds)
    if rate is not None:
        settings = dataclasses.replace(settings, rate=rate)
    if size is not None:
        settings = dataclasses.replace(settings, sustained_bytes=size)
    if turns is not None:
        settings = dataclasses.replace(
            settings, turns=turns, paced_turns=turns, sustained_turns=turns
        )
    return settings


def _check_histograms(context: click.Context) -> None:
    if find_spec("hdrh") is None:
        raise click.UsageError(
            "the benchmark needs hdrhistogram: pip install 'commitlog-engine[bench]'", context
        )


def _listing(names: tuple[str, ...]) -> list[str]:
    said = []
    for workload in workloads.WORKLOADS:
        if not names or workload.name in names:
            said.append(f"{workload.name}: {workload.title}")
            said += [f"  {case.name}" for case in workload.cases()]
    return said


def _progress(ending: Ending) -> Callable[[Step], None]:
    """On a terminal, a line that is written over and over; elsewhere a line a workload."""
    seen: list[str] = []

    def tell(step: Step) -> None:
        ending.look()
        said = f"{step.done}/{step.total}, about {_say_time(step.left_s)} left: "
        if is_terminal(sys.stderr):
            columns = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r\x1b[K" + (said + step.case)[:columns])
            sys.stderr.flush()
        elif step.workload not in seen:
            seen.append(step.workload)
            click.echo(said + step.workload, err=True)

    return tell


def _say_time(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(1, round(seconds))} s"


def _keep(results: Results, json_file: Path) -> None:
    """Write the JSON, whole, in place of what was there."""
    text = json_text(results.as_object())
    if not json_file.is_file():  # a pipe
        json_file.write_text(text, encoding="utf-8")
        return
    file = json_file.resolve()
    written = file.with_name(f"{file.name}.{os.getpid()}")
    written.write_text(text, encoding="utf-8")
    written.replace(file)


def _show(results: Results, html_file: Path | None) -> None:
    if is_terminal(sys.stderr):
        sys.stderr.write("\r\x1b[K")
    if html_file is not None:
        html_file.write_text(report_page.page(results), encoding="utf-8")
    terminal = is_terminal(sys.stdout)
    width = shutil.get_terminal_size().columns if terminal else None
    click.echo(report_table.render(results, width, colour=terminal), nl=False)
