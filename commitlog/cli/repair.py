"""`commitlog repair`: mends what `commitlog verify` finds."""

from __future__ import annotations

import dataclasses
import json

import click

from commitlog.cli.roll_options import roll_cycle_of, roll_options
from commitlog.options import Options
from commitlog.repair.repair import repair
from commitlog.repair.repair_report import RepairReport


@click.command()
@click.argument("log", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Say what would be done, and write nothing.")
@roll_options("Where log.json is lost")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(
    context: click.Context,
    *,
    log: str,
    dry_run: bool,
    roll_cycle: str | None,
    roll_epoch: float | None,
    time_zone: str | None,
    as_json: bool,
) -> None:
    """Mend LOG, which nobody may have open for writing.

    A segment is copied to NAME.broken before it is changed. Damage is marked so that readers pass
    over it, and what follows is kept; damaged headers, a lost log.json, missing and shortened
    segments are rebuilt. Records that are damaged stay lost. How a log rolls is found again for the
    named cycles in UTC; for others say it, and it is held against the segments.

    \b
    Examples:
      commitlog repair --dry-run orders
      commitlog repair --roll-cycle DAILY --time-zone Europe/Berlin orders

    Exit status 1 when something is still wrong afterwards, or, with --dry-run, when there is
    something to mend.
    """
    cycle = Options.of(None, **roll_cycle_of(roll_cycle, roll_epoch, time_zone)).new_roll_cycle
    report = repair(log, dry_run=dry_run, roll_cycle=cycle)
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
        said.append(
            f"{'would be' if report.dry_run else 'done'}: {action.file}{where}: {action.what}"
        )
    said += [f"copy: {copy}" for copy in report.copies]
    said += [f"still wrong: {problem}" for problem in report.remaining]
    if not report.actions and not report.remaining:
        said.append("nothing is wrong, nothing was written")
    return said
