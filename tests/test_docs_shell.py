"""docs/shell.md: every command prints what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from commitlog.tools.cli import group
from tests.tools.cli.program import run

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "shell.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def steps() -> list[tuple[str, str]]:
    """Each command, and the output that the page shows for it."""
    text = "".join(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    parted = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    assert parted[0] == "", "a block begins with a command"
    return list(zip(parted[1::2], parted[2::2], strict=True))


def is_as_said(said: str, printed: str) -> bool:
    """Compare output with the page: dots match anything within a line, and blanks at line ends are
    ignored.
    """
    pattern = ".*".join(map(re.escape, said.split("...")))
    return re.fullmatch(pattern, re.sub(" +$", "", printed, flags=re.MULTILINE)) is not None


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Put the program on the path, as an installation does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "commitlog"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m commitlog.tools.cli "$@"\n')
    program.chmod(0o755)
    return os.environ | {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "80",
        "LC_ALL": "C.UTF-8",
    }


def printed_by(command: str, environment: dict[str, str]) -> str:
    """Return what a command prints in the current folder. A bare call of the program runs without a
    shell, which is faster.
    """
    if command.startswith("commitlog ") and not set(command) & set("|<>"):
        done = run(*shlex.split(command)[1:])
        return (done.stdout + done.stderr).decode()
    shell = ["bash", "-c", command]
    both = subprocess.run(
        shell,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    return both.stdout.decode()


def test_tour_commands_print_the_output_of_the_page(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tour").mkdir()
    monkeypatch.chdir(tmp_path / "tour")
    for command, said in steps():
        printed = printed_by(command, environment)
        assert is_as_said(said, printed), f"$ {command}\n{printed}"


def test_tour_contains_every_command_about_a_log() -> None:
    named = set(re.findall(r"\bcommitlog ([a-z][a-z-]+)", PAGE.read_text(encoding="utf-8")))
    # Commands about machines, Spark and topics are on other pages.
    elsewhere = {
        "doctor",
        "bench",
        "spark",
        "serve",
        "follow",
        "promote",
        "topics",
        "call",
        "history",
    }
    assert set(group.own_commands()) - elsewhere <= named <= set(group.own_commands())


def test_dots_match_anything_within_a_line() -> None:
    assert is_as_said("a ... c\nd\n", "a b c\nd\n")
    assert not is_as_said("a ... c\n", "a\nc\n")
    assert not is_as_said("a.c\n", "abc\n")
