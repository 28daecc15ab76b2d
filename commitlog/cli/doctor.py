"""`commitlog doctor`: check whether a machine and a file system have what a log needs."""

from __future__ import annotations

from pathlib import Path

import click

from commitlog.cli import FAILURE
from commitlog.cli.ending import Ending
from commitlog.cli.output import print_json
from commitlog.doctor.checks import examine
from commitlog.doctor.finding import Finding, Verdict
from commitlog.doctor.workspace import Workspace

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
    try:
        workspace = Workspace(directory)
    except OSError as error:
        raise click.BadParameter(
            f"cannot create files in {str(directory)!r}: {error.strerror}", param_hint="DIR"
        ) from error
    findings = []
    with workspace, Ending() as ending:
        for finding in examine(workspace):
            ending.check()
            findings.append(finding)
            if not as_json:
                _print(finding)
    counts = {
        verdict: sum(finding.verdict is verdict for finding in findings) for verdict in Verdict
    }
    if as_json:
        fields = [_fields(finding) for finding in findings]
        print_json({"path": str(directory), "fine": not counts[Verdict.FAILED], "findings": fields})
    else:
        click.echo(
            f"{counts[Verdict.OK]} ok, {counts[Verdict.WARNING]} warnings, "
            f"{counts[Verdict.FAILED]} FAILED"
        )
    context.exit(FAILURE if counts[Verdict.FAILED] else 0)


def _print(finding: Finding) -> None:
    """Print a finding, in color if the terminal has colors."""
    verdict = click.style(f"{finding.verdict.value:8}", fg=_COLORS[finding.verdict])
    click.echo(
        f"{verdict}{finding.name:15} {finding.found}; {click.style(finding.means, dim=True)}"
    )
    if finding.advice:
        click.echo(f"{'':8}{'':15} to do: {finding.advice}")


def _fields(finding: Finding) -> dict[str, str]:
    return {
        "name": finding.name,
        "verdict": finding.verdict.value.lower(),
        "found": finding.found,
        "means": finding.means,
        "advice": finding.advice,
    }
