"""The options that the examples share, and an end by Ctrl-C without a traceback."""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Iterator

SHARED_MEMORY = "/dev/shm"


def default_path(name: str) -> str:
    """Return a path of this user in shared memory, or in the temporary directory without it."""
    parent = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else tempfile.gettempdir()
    return os.path.join(parent, f"commitlog-example-{os.getuid()}-{name}")


def parser_of(description: str | None, name: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every example takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--path", default=default_path(name), help="the bus, a directory (default: %(default)s)"
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=None,
        help="end after this many messages (default: run until Ctrl-C)",
    )
    return parser


@contextlib.contextmanager
def until_ctrl_c() -> Iterator[None]:
    """End the block without a traceback on Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        yield
