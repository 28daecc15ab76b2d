"""Libraries that the tests preload into a process (LD_PRELOAD), and the children that it forks."""

from __future__ import annotations

import contextlib
import os
import subprocess
import traceback
from collections.abc import Iterator
from pathlib import Path

_FLAGS = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")


def compiled(source: Path, directory: Path) -> Path:
    """Compile a library from one C file."""
    library = directory / f"{source.stem}.so"
    subprocess.run(["gcc", *_FLAGS, "-o", library, source, "-ldl", "-pthread"], check=True)
    return library


@contextlib.contextmanager
def ending_the_process() -> Iterator[None]:
    """Run the block as all that a forked child does: end the process behind it, with status 0, or
    with 1 and a traceback if the block raised.
    """
    status = 1
    try:
        yield
        status = 0
    except BaseException:  # noqa: BLE001 - nothing may get back into the loop that forked
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)
