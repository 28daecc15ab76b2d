"""`commitlog bench`: measure commitlog on a disk."""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from commitlog.tools.bench import harness, machine
from commitlog.tools.bench.case import QUICK, SETUPS, Case, Settings
from commitlog.tools.bench.results import Results, json_text
from commitlog.tools.bench.workloads import BY_NAME, choose
from commitlog.tools.cli import INTERRUPTED, has_color, parameters
from commitlog.tools.cli.interrupt import Ending
from commitlog.tools.cli.progress import is_terminal

_SMALLEST_S = 0.05
_LIBRARIES = ("hdrh", "humanize", "jinja2", "rich", "vl_convert")
_ERASE = "\r\x1b[K"


@click.command(short_help="Measure commitlog on a disk, with and without a pool.")
@click.argument(
    "directory",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
)
@click.option(
    "-w",
    "--workload",
    "names",
    type=click.Choice(list(BY_NAME)),
    multiple=True,
    help="Run only this workload; may be repeated.",
)
@click.option(
    "--setup",
    "setups",
    type=click.Choice(list(SETUPS)),
    multiple=True,
    help="Measure only this setup; may be repeated.",
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
    directory: Path,
    names: tuple[str, ...],
    setups: tuple[str, ...],
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

    It works in a temporary directory in DIR, and removes it at the end. A full run takes about
    twelve minutes and 9 GiB of disk space. Ctrl-C ends the run and prints the results so far. Each
    figure is the median over all runs of its case.

    If DIR has too little free space for a case, the case is skipped and reported. The exit status
    is 1 if a case failed.
    """
    if not directory.is_dir():  # click lets a device pass
        raise click.BadParameter(f"{str(directory)!r} is not a directory", param_hint="DIR")
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
    given = {"paced_s": seconds, "rate": rate, "sustained_bytes": size}
    given |= dict.fromkeys(("turns", "paced_turns", "sustained_turns"), turns)
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    settings = dataclasses.replace(QUICK if quick else Settings(), **changed)

    def keep(results: Results) -> None:
        if json_file is not None and json_file.is_file():  # and not a pipe
            _replace(json_file, json_text(results.as_object()))

    with Ending() as ending:
        results = harness.run(
            directory, choose(names, setups), settings, functools.partial(_progress, ending), keep
        )
    if json_file is not None:
        _replace(json_file, json_text(results.as_object()))
    _show(results, html_file)
    context.exit(INTERRUPTED if results.interrupted else int(bool(results.failures)))


def _progress(ending: Ending, case: Case, done: int, total: int) -> None:
    """Show the turn. No thread redraws the line: it would take processor time from the
    measurement.
    """
    ending.check()
    line = f"{done + 1} of {total}: {case.name}"
    if is_terminal(sys.stderr):
        sys.stderr.write(_ERASE + line[: shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()
    elif done % 10 == 0:
        click.echo(line, err=True)


def _replace(file: Path, text: str) -> None:
    """Write a file, atomically unless it is a pipe."""
    if not file.is_file():
        file.write_text(text, encoding="utf-8")
        return
    file = file.resolve()
    written = file.with_name(f"{file.name}.{os.getpid()}")
    written.write_text(text, encoding="utf-8")
    written.replace(file)


def _show(results: Results, html_file: Path | None) -> None:
    from commitlog.tools.bench import page, table

    if is_terminal(sys.stderr):
        sys.stderr.write(_ERASE)
    if html_file is not None:
        html_file.write_text(page.page(results), encoding="utf-8")
    terminal = is_terminal(sys.stdout)
    width = shutil.get_terminal_size().columns if terminal else None
    click.echo(table.render(results, width, colour=has_color()), nl=False)
