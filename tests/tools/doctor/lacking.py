"""Runs the doctor in a child that preloads `faults.c` and so misses a feature."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.host import Hosted, host_of
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
    preloaded = (("LD_PRELOAD", str(library)),) if library is not None else ()
    with Hosted(
        host_of(("tests.preloaded", "commitlog.tools.doctor.checks"), (), preloaded),
        "tests.host:run_code",
        [_EXAMINE, str(place), *names],
        cwd=ROOT,
        env=os.environ | dict(preloaded) | {"COMMITLOG_LACKS": lacks},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return [Said(*each) for each in json.loads(output.splitlines()[-1])]
