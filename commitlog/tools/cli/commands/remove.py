"""`commitlog remove`: delete a log and no other file."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict

import click

from commitlog.errors.printable import printable
from commitlog.extension import LogRemoval
from commitlog.tools.cli import FAILURE
from commitlog.tools.cli.commands import UnsuggestedCommand
from commitlog.tools.cli.interrupt import Stop
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.quantities import size_text


@click.command(cls=UnsuggestedCommand)
@click.argument("log", type=click.Path())
@click.option("-y", "--yes", is_flag=True, help="Delete without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_context
def command(context: click.Context, *, log: str, yes: bool, as_json: bool) -> None:
    """Delete LOG with all its records.

    It fails if a process has LOG open for writing. On a terminal it asks for confirmation;
    elsewhere it needs --yes. It deletes only the files of a log: if the directory has other files,
    they stay, and so does the directory.

    \b
    Examples:
      commitlog remove orders
      commitlog remove --yes --json orders
    """
    with LogRemoval(log) as removal:
        if not yes and not _confirm(log, removal.segments):
            echo("nothing was deleted", err=True)
            context.exit(FAILURE)
        removal.run()
    if as_json:
        print_json(asdict(removal.removed))
    else:
        echo(*_lines(removal))
    context.exit(0 if removal.removed.directory_removed else FAILURE)


def _confirm(path: str, segments: int) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(
            "standard input is not a terminal to confirm on: add --yes to delete the log"
        )
    with Stop() as stop:
        # Not `input`: it acts on a Ctrl-C between prompt and read only after the next key.
        click.echo(
            f"Delete {printable(path)} with all its records ({segments} segments)? [y/N]: ",
            nl=False,
            err=True,
        )
        if not stop.wait_for(sys.stdin.fileno()):
            raise KeyboardInterrupt
        answer = os.read(sys.stdin.fileno(), 1024)
    return answer.strip().lower() in (b"y", b"yes")


def _lines(removal: LogRemoval) -> list[str]:
    removed = removal.removed
    text = [f"{removed.path}: deleted {len(removed.files)} files, {size_text(removed.bytes)}"]
    if removed.buffers:
        text.append(f"  and {len(removed.buffers)} shared-memory buffers of a killed process")
    text += [f"  left: {name}, which is not part of a log" for name in removed.left]
    if removed.left:
        text.append("  the directory is kept with them")
    return text
