"""Serving processes as forks of a host: a new interpreter takes longer than most tests of
replication. `tests/network/replication/test_serving_process.py` starts new ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from commitlog.network.replication import serving_child, serving_program
from tests.host import Hosted, host_of

start_interpreter = serving_child._start_program


def fork_starter() -> Callable[[], subprocess.Popen[bytes]]:
    """Return a function that starts what `start_interpreter` starts. In a process forked from the
    one that calls this, a host has no children of it, so it starts an interpreter there.
    """
    owner = os.getpid()  # not at import: each worker is a fork of the process that imports

    def start_fork() -> subprocess.Popen[bytes]:
        if os.getpid() != owner:
            return start_interpreter()
        return Hosted(
            host_of((serving_program.__name__,)),
            "tests.serving:run_program",
            [],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )

    return start_fork


def run_program() -> None:
    """Serve as the started program does; a target for a host."""
    sys.stdin.readline()  # where to import from: the host has imported
    serving_program.main()
