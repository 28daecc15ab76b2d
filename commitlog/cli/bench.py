"""`commitlog bench`: measure commitlog on a disk."""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import click

from commitlog.bench import harness, machine, workloads
from commitlog.bench.case import Case
from commitlog.bench.harness import Chosen, Progress
from commitlog.bench.results import Results, json_text
from commitlog.bench.settings import QUICK, Settings
from commitlog.bench.workloads import ALL_FLUSHES, ALL_SETUPS, Workload, choose
from commitlog.cli import INTERRUPTED, parameters
from commitlog.cli.ending import Ending
from commitlog.cli.progress import is_terminal
from commitlog.errors import InvalidOptionError

_SMALLEST_S = 0.05
_LIBRARIES = ("hdrh", "humanize", "jinja2", "rich", "vl_convert")
_ERASE = "\r\x1b[K"


@click.command(short_help="Measure commitlog on a disk, with and without a pool.")
@click.argument(
    "directory",
    metavar="[DIR]",
    required=False,
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
)
@click.option(
    "-w",
    "--workload",
    "names",
    multiple=True,
    metavar="NAME",
    help="Run only this workload; may be repeated.",
)
@click.option(
    "--setup",
    "setups",
    multiple=True,
    metavar="NAME",
    help=f"Measure only this setup: {', '.join(ALL_SETUPS)}.",
)
@click.option(
    "--flush",
    "flushes",
    multiple=True,
    metavar="NAME",
    help=f"Measure only this flush option: {', '.join(ALL_FLUSHES)}.",
)
@click.option(
    "--list",
    "as_list",
    is_flag=True,
    help="Print the workloads and their cases, and measure nothing.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Run for a few seconds to check that everything works; the figures mean nothing.",
)
@click.option(
    "--seconds",
    type=parameters.duration_from(_SMALLEST_S),
    metavar="TIME",
    help="Append at the constant rate for this long in each run.  [default: 15s]",
)
@click.option(
    "--rate",
    type=parameters.size_from(1024),
    metavar="SIZE",
    help="Append this many bytes a second at the constant rate.  [default: 200MB]",
)
@click.option(
    "--size",
    type=parameters.size_from(1 << 20),
    metavar="SIZE",
    help="Append this much in the sustained workload.  [default: 8GiB]",
)
@click.option(
    "--turns",
    type=parameters.whole(1, 100),
    help="Measure each case this many times.  [default: 5; 2 or 3 for the long ones]",
    metavar="N",
)
@click.option(
    "--memory", is_flag=True, help="Measure even if DIR is on a memory file system (tmpfs)."
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the results to this file as JSON.",
)
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write an HTML page with charts to this file.",
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
    """Measure commitlog on the disk of DIR, with and without a pool.

    It works in a temporary directory in DIR, and removes it at the end. A full run takes some
    twelve minutes and 9 GiB of disk space; the expected time is printed at the start. Ctrl-C ends
    the run and prints the results so far. Each figure is the median over all runs of its case.

    If DIR has too little free space for a case, the case is skipped and reported. The exit status
    is 1 if a case failed.
    """
    try:
        chosen = choose(names, setups, flushes)
    except InvalidOptionError as error:
        raise click.UsageError(error.message, context) from error
    if as_list:
        click.echo("\n".join(_listing(names)))
        return
    if directory is None or not directory.is_dir():  # click lets a device pass
        raise click.UsageError("give the directory to measure in: commitlog bench DIR", context)
    if not all(map(find_spec, _LIBRARIES)):
        needed = "bench needs more libraries: pip install 'commitlog-engine[bench]'"
        raise click.UsageError(needed, context)
    files = [file for file in (json_file, html_file) if file is not None]
    for file in files:
        if not file.absolute().parent.is_dir():
            raise click.UsageError(
                f"the directory of {file} does not exist: create it, or choose another file",
                context,
            )
    machine.check_disk(directory, memory)
    for file in files:
        file.open("a").close()  # refuse an unwritable file now, not after minutes
    settings = _settings(quick, seconds, rate, size, turns)
    takes = _time_text(harness.expected_s(chosen, settings))
    click.echo(f"about {takes}; Ctrl-C ends the run and prints the results so far", err=True)
    with Ending() as ending:
        keep = None
        if json_file is not None and json_file.is_file():
            keep = functools.partial(_keep, json_file=json_file)
        progress = _progress(ending, chosen, settings)
        results = harness.run(directory, chosen, settings, progress, keep)
    if json_file is not None:
        _keep(results, json_file)
    _show(results, html_file)
    context.exit(INTERRUPTED if results.interrupted else int(bool(results.failures)))


def _settings(
    quick: bool, seconds: float | None, rate: int | None, size: int | None, turns: int | None
) -> Settings:
    given = {"paced_s": seconds, "rate": rate, "sustained_bytes": size}
    given |= dict.fromkeys(("turns", "paced_turns", "sustained_turns"), turns)
    changed = {name: value for name, value in given.items() if value is not None}
    return dataclasses.replace(QUICK if quick else Settings(), **changed)  # type: ignore[arg-type]


def _listing(names: tuple[str, ...]) -> list[str]:
    listed = []
    for workload in workloads.WORKLOADS:
        if not names or workload.name in names:
            listed.append(f"{workload.name}: {workload.title}")
            listed += [f"  {case.name}" for case in workload.cases()]
    return listed


def _progress(ending: Ending, chosen: Chosen, settings: Settings) -> Progress:
    """Return a function that shows the turn: on a terminal in one line, else a line a workload.

    No thread redraws the line: it would take processor time from the measurement.
    """
    total_s, done_s, began = harness.expected_s(chosen, settings), 0.0, time.monotonic()
    seen: list[str] = []

    def show(workload: Workload, case: Case) -> None:
        nonlocal done_s
        ending.check()
        # The more is done, the more the measured pace counts against the expected one.
        share, elapsed_s = done_s / total_s, time.monotonic() - began
        left_s = (total_s - done_s) * (1 - share + (elapsed_s / total_s if share else 0))
        done_s += workload.turn_s(settings)
        left = f"{100 * share:.0f} %, about {_time_text(left_s)} left: "
        if is_terminal(sys.stderr):
            columns = shutil.get_terminal_size().columns - 1
            sys.stderr.write(_ERASE + (left + case.name)[:columns])
            sys.stderr.flush()
        elif workload.name not in seen:
            seen.append(workload.name)
            click.echo(left + workload.name, err=True)

    return show


def _time_text(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(1, round(seconds))} s"


def _keep(results: Results, json_file: Path) -> None:
    """Replace the file with the results, atomically."""
    text = json_text(results.as_object())
    if not json_file.is_file():  # a pipe
        json_file.write_text(text, encoding="utf-8")
        return
    file = json_file.resolve()
    written = file.with_name(f"{file.name}.{os.getpid()}")
    written.write_text(text, encoding="utf-8")
    written.replace(file)


def _show(results: Results, html_file: Path | None) -> None:
    from commitlog.bench import page, table

    if is_terminal(sys.stderr):
        sys.stderr.write(_ERASE)
    if html_file is not None:
        html_file.write_text(page.page(results), encoding="utf-8")
    terminal = is_terminal(sys.stdout)
    width = shutil.get_terminal_size().columns if terminal else None
    click.echo(table.render(results, width, colour=terminal), nl=False)
