"""`commitlog doctor`: check whether a machine and a file system have what a log needs."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import click

from commitlog.errors.printable import printable
from commitlog.tools.cli import FAILURE
from commitlog.tools.cli.interrupt import Ending
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.doctor.checks import examine
from commitlog.tools.doctor.finding import Verdict, Workspace

_COLORS = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILED: "red"}


@click.command()
@click.argument(
    "directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_context
def command(context: click.Context, directory: Path, as_json: bool) -> None:
    """Check that this machine and DIR have what a log needs.

    It takes a few seconds and prints a line for each check: the verdict, what was found, and why a
    log needs it.

    \b
    Examples:
      commitlog doctor /var/lib/orders
      commitlog doctor --json /dev/shm

    It creates small files in DIR and removes them, even after Ctrl-C. If a check prints a warning,
    a log works but is slower or less safe. The exit status is 1 if a check that every log needs
    failed.
    """
    findings = []
    with ExitStack() as stack:
        try:
            workspace = stack.enter_context(Workspace.within(directory))
        except OSError as error:
            raise click.BadParameter(
                f"cannot create files in {str(directory)!r}: {error.strerror}", param_hint="DIR"
            ) from error
        ending = stack.enter_context(Ending())
        for check, finding in examine(workspace):
            ending.check()
            verdict, found, advice = finding.verdict.value, finding.found, finding.advice
            findings.append(
                {
                    "name": check.name,
                    "verdict": verdict.lower(),
                    "found": found,
                    "means": check.means,
                    "advice": advice,
                }
            )
            if not as_json:
                colored = click.style(f"{verdict:8}", fg=_COLORS[finding.verdict])
                why = click.style(check.means, dim=True)
                click.echo(f"{colored}{check.name:15} {printable(found)}; {why}")
                if advice:
                    echo(f"{'':23} to do: {advice}")
    counts = Counter(finding["verdict"] for finding in findings)
    if as_json:
        print_json({"path": str(directory), "fine": not counts["failed"], "findings": findings})
    else:
        echo(f"{counts['ok']} ok, {counts['warning']} warnings, {counts['failed']} FAILED")
    context.exit(FAILURE if counts["failed"] else 0)
