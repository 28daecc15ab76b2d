"""`commitlog repair`: mends what `commitlog verify` finds."""

from __future__ import annotations

import dataclasses
import json

import click

from commitlog.repair import RepairReport, repair


@click.command()
@click.argument("log", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Say what would be done, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(context: click.Context, log: str, dry_run: bool, as_json: bool) -> None:
    """Mend LOG, which nobody may have open for writing.

    A segment is copied to NAME.broken before it is changed. Damage is marked so that readers pass over it, and what follows is kept;
    damaged headers, a lost log.json, missing and shortened segments are rebuilt. Records that are damaged stay lost.

    Exit status 1 when something is still wrong afterwards, or, with --dry-run, when there is something to mend.
    """
    report = repair(log, dry_run=dry_run)
    if as_json:
        click.echo(json.dumps({"sound": report.sound, **dataclasses.asdict(report)}, indent=2))
    else:
        click.echo("\n".join(lines(report)))
    context.exit(0 if report.sound else 1)


def lines(report: RepairReport) -> list[str]:
    """The report for people."""
    said = []
    for action in report.actions:
        where = "" if action.position is None else f", position {action.position}"
        where += "" if action.resume_position is None else f" to {action.resume_position}"
        said.append(f"{'would be' if report.dry_run else 'done'}: {action.file}{where}: {action.what}")
    said += [f"copy: {copy}" for copy in report.copies]
    said += [f"still wrong: {problem}" for problem in report.remaining]
    if not report.actions and not report.remaining:
        said.append("nothing is wrong, nothing was written")
    return said
