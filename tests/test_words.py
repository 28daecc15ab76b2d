"""Prose says who does what: words that hide the actor, or that only sound well, are not used."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# What is written instead stands beside it.
HABITS = {
    r"who(so)?ever": "the actor: the appender, the reader, the caller",
    r"(some|any)body": "the actor, or the passive voice",
    r"nobody": "no process, no thread, no reader",
    r"whatever": "any, or the thing itself",
    r"(is|are|was|were) (told|said)( that)?": "is notified, is reported, or who reports it",
    r"a look (finds|at|for|from)": "a check, a poll",
    r"lets? go of": "release, close",
    r"for ever": "forever, or without a bound",
    r"(can|could|may) be had": "is available",
    r"that is to say": "the plain sentence alone",
}
PRAGMA = re.compile(r"  # (type|noqa): .*")
# Decisions and changes are records of their day.
EXEMPT = ("CHANGELOG.md", "docs/decisions/", "LICENSE", "tests/test_words.py")


@functools.cache
def texts() -> dict[str, list[str]]:
    """Return the lines of each tracked file with prose in it."""
    patterns = ("*.py", "*.py[xi]", "*.pxi", "*.pxd", "*.[ch]", "*.md", "*.pml", "Makefile")
    found = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not found:
        pytest.skip("not a git checkout")
    return {
        name: (ROOT / name).read_text(encoding="utf-8").splitlines()
        for name in found
        if not name.startswith(EXEMPT)
    }


@pytest.mark.parametrize("habit", HABITS)
def test_prose_names_the_actor(habit: str) -> None:
    pattern = re.compile(rf"\b{habit}\b", re.IGNORECASE)
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, lines in texts().items()
        if pattern.search("\n".join(lines))  # a file at once: faster than its lines
        for number, line in enumerate(lines, 1)
        if pattern.search(line)
    ]
    assert found == [], f"write {HABITS[habit]}"


def test_no_line_of_code_is_wider_than_100_columns() -> None:
    wide = [
        f"{name}:{number}"
        for name, lines in texts().items()
        if not name.endswith(".md")  # tables
        for number, line in enumerate(lines, 1)
        if len(PRAGMA.sub("", line)) > 100
    ]
    assert wide == []


def test_names_of_tests_have_at_most_60_characters() -> None:
    long = [
        f"{name}:{number}"
        for name, lines in texts().items()
        if name.startswith("tests/")
        for number, line in enumerate(lines, 1)
        if (match := re.match(r"\s*(?:async )?def (test_\w+)", line)) and len(match[1]) > 60
    ]
    assert long == []
