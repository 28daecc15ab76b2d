"""Libraries that the tests preload into a process (LD_PRELOAD)."""

from __future__ import annotations

import subprocess
from pathlib import Path

_FLAGS = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")


def compiled(source: Path, directory: Path) -> Path:
    """Compile a library from one C file."""
    library = directory / f"{source.stem}.so"
    subprocess.run(["gcc", *_FLAGS, "-o", library, source, "-ldl", "-pthread"], check=True)
    return library
