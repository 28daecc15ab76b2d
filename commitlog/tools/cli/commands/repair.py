"""`commitlog repair`: repair what `commitlog verify` finds."""

from __future__ import annotations

import dataclasses

import click

from commitlog.keep import RepairReport, repair
from commitlog.tools.cli.commands import UnsuggestedCommand
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.parameters import roll_cycle_of, roll_options
from commitlog.tools.cli.progress import byte_progress


@click.command(cls=UnsuggestedCommand)
@click.argument("log", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Print what would be done, and write nothing.")
@roll_options("If log.json is lost:")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
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
    """Repair LOG, which no process may have open for writing.

    It copies each segment to NAME.broken before it changes it. It marks damage, so that readers
    skip it and reach the records after it. It rebuilds damaged headers, a lost log.json, and
    missing or shortened segments. Damaged records stay lost. If log.json is lost, pass
    --roll-cycle, unless the log used a named cycle in UTC.

    \b
    Examples:
      commitlog repair --dry-run orders
      commitlog repair --roll-cycle DAILY --time-zone Europe/Berlin orders

    The exit status is 1 if problems remain; with --dry-run, if there is something to repair.
    """
    cycle = roll_cycle_of(roll_cycle, roll_epoch, time_zone)
    with byte_progress("repair", as_json=as_json) as show:
        report = repair(log, dry_run=dry_run, roll_cycle=cycle, progress=show)
    if as_json:
        print_json({"sound": report.sound, **dataclasses.asdict(report)})
    else:
        echo(*lines(report))
    context.exit(0 if report.sound else 1)


def lines(report: RepairReport) -> list[str]:
    text = []
    for action in report.actions:
        where = "" if action.position is None else f", position {action.position}"
        where += "" if action.resume_position is None else f" to {action.resume_position}"
        text.append(
            f"{'would be' if report.dry_run else 'done'}: {action.file}{where}: {action.what}"
        )
    text += [f"copy: {copy}" for copy in report.copies]
    text += [f"still wrong: {problem}" for problem in report.remaining]
    if not report.actions and not report.remaining:
        text.append("nothing is wrong, nothing was written")
    return text
