"""A PostgreSQL server of the tests' own, in a temporary folder."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

_USER = "postgres" if os.getuid() == 0 else None  # the server refuses to run as root
_SETTINGS = "-c listen_addresses= -c fsync=off -c max_connections=40 -c unix_socket_directories="


def programs() -> str:
    """Return the folder of the server's programs; fail with what to install without them."""
    found = [os.path.dirname(shutil.which("pg_ctl") or "")]
    found += sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    for folder in found:
        if folder and os.path.exists(os.path.join(folder, "initdb")):
            return folder
    pytest.fail("PostgreSQL is missing: apt-get install postgresql, or make outbox", pytrace=False)


class Server:
    """A server that runs until `stop`; clients reach it by a socket in its folder."""

    def __init__(self) -> None:
        self._programs = programs()
        self.folder = Path(tempfile.mkdtemp(prefix="commitlog-pg-", dir="/tmp"))
        if _USER is not None:
            shutil.chown(self.folder, _USER)
        self.folder.chmod(0o755)
        self._run("initdb", "--no-sync", "--auth=trust", "--username=postgres")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://postgres@/postgres?host={self.folder}"

    def start(self) -> None:
        options = f"{_SETTINGS}{self.folder}"
        self._run("pg_ctl", "-w", "-o", options, "-l", str(self.folder / "server.txt"), "start")

    def crash(self) -> None:
        """End the server without a shutdown, and start it: it recovers."""
        self._run("pg_ctl", "-m", "immediate", "stop")
        self.start()

    def stop(self) -> None:
        self._run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        options: dict[str, Any] = {} if _USER is None else {"user": _USER, "group": _USER}
        done = subprocess.run(
            [f"{self._programs}/{program}", "-D", str(self.folder / "data"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            check=False,
            **options,
        )
        assert done.returncode == 0, done.stderr.decode()
