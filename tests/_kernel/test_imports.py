"""What the compiled modules import: the contracts of import-linter see Python files only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

KERNEL = Path(__file__).resolve().parents[2] / "commitlog" / "_kernel"
FLOOR = (
    "commitlog._kernel",
    "commitlog.base",
    "commitlog.errors",
    "commitlog.capi",  # the public header
)  # the lowest one, but for the options, which import the kernel
IMPORT = re.compile(r"^\s*(?:from|c?import) (commitlog[\w.]*)", re.MULTILINE)


@pytest.mark.parametrize("path", sorted(KERNEL.glob("*.p[yx][xd]")), ids=lambda path: path.name)
def test_compiled_module_imports_only_its_own_floor(path: Path) -> None:
    for name in IMPORT.findall(path.read_text(encoding="utf-8")):
        assert name.startswith(FLOOR), name
