"""What the compiled modules import: the contracts of import-linter see Python files only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

KERNEL = Path(__file__).resolve().parents[2] / "commitlog" / "_kernel" / "c"
IMPORT = re.compile(r"^\s*(?:from|c?import) (commitlog[\w.]*)", re.MULTILINE)


@pytest.mark.parametrize("path", sorted(KERNEL.glob("*.p[yx][xd]")), ids=lambda path: path.name)
def test_compiled_module_imports_only_kernel_and_errors(path: Path) -> None:
    for name in IMPORT.findall(path.read_text(encoding="utf-8")):
        assert name == "commitlog.errors" or name.startswith("commitlog._kernel"), name
