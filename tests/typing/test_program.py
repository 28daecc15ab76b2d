"""The program whose types `make lint` checks uses every public name, and runs."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import commitlog
import commitlog.polars
from commitlog import bus, errors, keep, metrics, outbox, replication, spark, topics, watching
from commitlog.spark import jobs

PROGRAM = Path(__file__).with_name("program.py")
# Only their names must be used: their methods are inherited, or their attributes are plain data.
DATA = (
    *(errors.CommitLogError, commitlog.Options, commitlog.Tuning, ModuleType),
    *(jobs.Compaction, jobs.Export, jobs.LogCheck, jobs.Verification),
)
MODULES = (
    *(commitlog, bus, keep, metrics, commitlog.polars, outbox, replication, spark, jobs, topics),
    watching,
)


def public_names() -> Iterator[str]:
    leaves = [
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value)
        and issubclass(value, errors.CommitLogError)
        and not name.startswith("_")
    ]
    for module, names in (
        {module: module.__all__ for module in MODULES} | {errors: leaves}
    ).items():
        for name in names:
            yield name
            value = getattr(module, name)
            if inspect.isclass(value) and not issubclass(value, DATA):
                yield from (member for member in dir(value) if not member.startswith("_"))


def used_names() -> set[str]:
    nodes = list(ast.walk(ast.parse(PROGRAM.read_text())))
    methods = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    keywords = {node.arg or "" for node in nodes if isinstance(node, ast.keyword)}
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)} | methods | keywords


def test_typed_program_uses_every_public_name() -> None:
    assert set(public_names()) - used_names() == set()


def test_typed_program_runs(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, PROGRAM, tmp_path], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
