"""Forked children that stay until the test has looked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def forked_child() -> Iterator[None]:
    """Have a child that does nothing, and has what this process had open, until the end."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        os.read(ready, 1)  # until the parent closes its end
        os._exit(0)
    try:
        yield
    finally:
        os.close(told)
        os.waitpid(child, 0)
        os.close(ready)
