"""Ctrl-C at each line of a check ends it as Ctrl-C, and as nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from commitlog.tools.doctor import finding, machine, storage
from commitlog.tools.doctor.checks import CHECKS, Check, run_check

FILES = (machine.__file__, storage.__file__, finding.__file__)
OWN = [
    check for check in CHECKS if check.examine.__module__ in (machine.__name__, storage.__name__)
]


def interrupt_at(check: Check, folder: Path, line: int) -> None:
    """Run a check, and interrupt it at that one of its lines, if it has so many."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            lines += 1
            if lines == line:
                raise KeyboardInterrupt
        return trace

    workspace = finding.Workspace(folder, folder)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run_check(check, workspace)
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("check", OWN, ids=[check.name for check in OWN])
def test_interrupt_ends_a_check_as_one(check: Check, tmp_path: Path) -> None:
    for line in range(1, 400):
        try:
            interrupt_at(check, tmp_path, line)
            break
        except KeyboardInterrupt:
            continue
    else:
        pytest.fail("the check has no end")
    assert line > 1
