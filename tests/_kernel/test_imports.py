"""Imports of the compiled modules, which import-linter does not see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "commitlog"
COMPILED = sorted(PACKAGE.rglob("*.p[yx][xd]"))
# The lowest floor without the options, which import the kernel.
FLOOR = (
    "commitlog._kernel",
    "commitlog.base",
    "commitlog.errors",
    "commitlog.capi",  # the public header
)
IMPORT = re.compile(r"^\s*(?:from|c?import) (commitlog[\w.]*)", re.MULTILINE)


@pytest.mark.parametrize("path", COMPILED, ids=lambda path: path.name)
def test_compiled_module_imports_only_the_kernel_and_errors(path: Path) -> None:
    for name in IMPORT.findall(path.read_text(encoding="utf-8")):
        assert name.startswith(FLOOR), name
