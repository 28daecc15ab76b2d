"""Commands and checks of installed packages are listed and run. If one cannot be imported, the
others work.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.cli.program import LIMIT_S, hosted

MODULE = """
import click

from commitlog.doctor import Check, ok

@click.command()
@click.argument("log")
def count(log):
    \"\"\"Count LOG.\"\"\"
    click.echo(f"{log} was counted")

check = Check("moon", "a log needs none", lambda workspace: ok("full"))
"""
Commitlog = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def commitlog(tmp_path: Path) -> Commitlog:
    """Return a function that runs the program beside an installed package with entry points."""
    installed = tmp_path / "site"
    information = installed / "acme_logs-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-logs\nVersion: 1.0\n")
    (installed / "acme_logs.py").write_text(MODULE)

    def run(entries: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        (information / "entry_points.txt").write_text(entries)
        given = [f"import sys; sys.path.insert(0, {str(installed)!r})", *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with hosted("run_program", given, **pipes) as process:
            output, errors = process.communicate(timeout=LIMIT_S)
        return subprocess.CompletedProcess(given, process.returncode, output, errors)

    return run


def test_registered_command_is_listed_and_run(commitlog: Commitlog) -> None:
    entries = "[commitlog.commands]\ncount = acme_logs:count\n"
    assert "\n  count           Count LOG.\n" in commitlog(entries, "--help").stdout
    assert commitlog(entries, "count", "orders").stdout == "orders was counted\n"
    assert "Did you mean 'count'?" in commitlog(entries, "cuont", "orders").stderr


def test_registered_command_replaces_none_of_commitlog(commitlog: Commitlog) -> None:
    done = commitlog("[commitlog.commands]\ninfo = acme_logs:count\n", "info", "orders")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no log here" in done.stderr


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("acme_missing:count", "ModuleNotFoundError: No module named 'acme_missing'"),
        ("acme_logs:nothing", "AttributeError: module 'acme_logs' has no attribute 'nothing'"),
        ("acme_logs:check", "acme_logs:check is not a click Command"),
    ],
)
def test_command_that_cannot_be_imported_is_refused(
    commitlog: Commitlog, value: str, why: str
) -> None:
    entries = f"[commitlog.commands]\ncount = {value}\n"
    listed = commitlog(entries, "--help")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "\n  count           Not available: " in listed.stdout
    assert "\n  append  " in listed.stdout
    done = commitlog(entries, "count", "--loud", "orders")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"commitlog: the command 'count' cannot be used: {why}: repair or uninstall the package "
        "acme-logs\n"
    )


def test_registered_check_is_run_before_those_that_need_it(
    commitlog: Commitlog, tmp_path: Path
) -> None:
    done = commitlog(
        "[commitlog.checks]\nmoon = acme_logs:check\nsun = acme_logs:count\n", "doctor", tmp_path
    )
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    (moon,) = (number for number, line in enumerate(lines) if "moon" in line)
    (last,) = (number for number, line in enumerate(lines) if "round" in line)
    assert lines[moon].split(maxsplit=2) == ["ok", "moon", "full; a log needs none"]
    assert moon < last
    assert "sun" in done.stdout
    assert "to do: acme_logs:count is not a commitlog Check: repair or uninstall" in done.stdout
