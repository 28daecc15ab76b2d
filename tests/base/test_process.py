"""Other processes: whether they live, and their names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from commitlog.base.process import process_name


def test_dead_process_has_no_name() -> None:
    assert process_name(1 << 30) == "unknown"
    assert process_name(os.getpid()) != "unknown"


def test_process_of_another_user_counts_as_living(tmp_path: Path) -> None:
    """Where /proc hides the processes of others (hidepid), only a signal finds them."""
    script = """
import os, sys
from commitlog.base.process import is_process
if os.getuid() == 0:
    os.setgid(54321), os.setuid(54321)
print(is_process(1), is_process(os.getppid()), is_process(int(sys.argv[1])))
"""
    gone = subprocess.Popen(["true"])
    gone.wait()
    done = subprocess.run(
        [sys.executable, "-c", script, str(gone.pid)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True", "False"]
