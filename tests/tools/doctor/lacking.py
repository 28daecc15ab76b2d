"""Runs the doctor in a child that preloads `faults.c` and so misses a feature."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.preloaded import compiled

ROOT = Path(__file__).resolve().parents[2]
_EXAMINE = """
import json, os, sys
from pathlib import Path

from tests.preloaded import compiled
from commitlog.tools.doctor import checks
from commitlog.tools.doctor.finding import Workspace
wanted = sys.argv[2:]
with Workspace.within(Path(sys.argv[1])) as workspace:
    found = [checks.run_check(check, workspace) for check in checks.CHECKS if check.name in wanted]
print(json.dumps([(outcome.verdict.value, outcome.found, outcome.advice) for outcome in found]))
"""


@dataclass(frozen=True)
class Said:
    """The outcome of one check."""

    verdict: str
    found: str
    advice: str


def build(directory: Path) -> Path:
    """Compile the library."""
    return compiled(Path(__file__).with_name("faults.c"), directory)


def examined(
    place: Path,
    *names: str,
    library: Path | None = None,
    lacks: str = "",
) -> list[Said]:
    """Return the outcomes of these checks for a directory, run in a process that misses a
    feature.
    """
    environment = dict(os.environ)
    if library is not None:
        environment |= {"LD_PRELOAD": str(library), "COMMITLOG_LACKS": lacks}
    command = [sys.executable, "-c", _EXAMINE, str(place), *names]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return [Said(*each) for each in json.loads(done.stdout.splitlines()[-1])]
