"""docs/shell.md: every command prints what the page shows."""

from __future__ import annotations

import itertools
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
    """Return what a command prints in the current folder. The program runs in a process of a host,
    which starts faster than its interpreter; what shells do otherwise, a shell does.
    """
    lexer = shlex.shlex(command.replace(" 2>&1", ""), posix=True, punctuation_chars="|<>")
    lexer.whitespace_split = True
    words = list(lexer)
    parts = [list(part) for is_bar, part in itertools.groupby(words, "|".__eq__) if not is_bar]
    if not any(part[0] == "commitlog" for part in parts) or set(words) & {">", ">>", "<"}:
        parts = [["bash", "-c", command]]
    output = errors = b""
    for name, *arguments in parts:
        if "2>&1" in command:
            output, errors = output + errors, b""
        if name == "commitlog":
            done = run(*arguments, feed=output)
        else:
            done = subprocess.run(
                [name, *arguments],
                input=output,
                env=environment,
                capture_output=True,
                timeout=60,
                check=False,
            )
        output, errors = done.stdout, errors + done.stderr
    return (output + errors).decode()


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
        "mirror",
        "outbox",
        "queue",
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
