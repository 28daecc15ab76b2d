"""Machines that share neither network nor files: namespaces of Linux, joined by a bridge."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_NETWORK = "10.231.77"
_UNSHARE = ("unshare", "--net", "--mount")
_LIMIT_S = 20.0


class Machine:
    """A machine: `launcher` is the command in front of what runs on it."""

    def __init__(self, number: int) -> None:
        self.host = f"{_NETWORK}.{number}"
        self._holder = subprocess.Popen([*_UNSHARE, "sleep", "infinity"])
        own = os.readlink("/proc/self/ns/mnt")
        deadline = time.monotonic() + _LIMIT_S
        while self._namespace("mnt") == own:  # the last one to be left
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self.launcher = ["nsenter", "--target", str(self.pid), "--net", "--mount", "--"]
        self.run("ip", "link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        return self._holder.pid

    def _namespace(self, kind: str) -> str:
        return os.readlink(f"/proc/{self.pid}/ns/{kind}")

    def run(self, *command: str) -> None:
        subprocess.run([*self.launcher, *command], check=True)

    def hide(self, folder: Path) -> None:
        """Let the machine see an empty folder there."""
        self.run("mount", "-t", "tmpfs", "none", str(folder))

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()


@contextlib.contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    """Yield so many machines, which reach each other; skip the test if that is not permitted."""
    found = subprocess.run([*_UNSHARE, "ip", "link"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"network namespaces are refused here: {found.stderr.strip()}")
    made: list[Machine] = []
    try:
        made.extend(Machine(number) for number in range(1, count + 1))
        first, *others = made
        first.run("ip", "link", "add", "hub", "type", "bridge")
        first.run("ip", "address", "add", f"{first.host}/24", "dev", "hub")
        first.run("ip", "link", "set", "hub", "up")
        for number, other in enumerate(others):
            port = f"port{number}"
            first.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0",
                      "netns", str(other.pid))  # fmt: skip
            first.run("ip", "link", "set", port, "master", "hub", "up")
            other.run("ip", "address", "add", f"{other.host}/24", "dev", "eth0")
            other.run("ip", "link", "set", "eth0", "up")
        yield made
    finally:
        for machine in made:
            machine.close()
