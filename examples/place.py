"""What the examples share: where their bus is, their options, and a quiet end on Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Iterator

SHARED_MEMORY = "/dev/shm"


def default_path(name: str) -> str:
    """In shared memory where there is some, else among the temporary files; one for each user."""
    parent = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else tempfile.gettempdir()
    return os.path.join(parent, f"commitlog-example-{os.getuid()}-{name}")


def options(description: str | None, name: str) -> argparse.ArgumentParser:
    """The options that every example takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--path", default=default_path(name), help="the bus, a directory (default: %(default)s)"
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=None,
        help="end after so many messages (default: go on until Ctrl-C)",
    )
    return parser


@contextlib.contextmanager
def until_ctrl_c() -> Iterator[None]:
    """Ctrl-C is how the examples are meant to end."""
    with contextlib.suppress(KeyboardInterrupt):
        yield
