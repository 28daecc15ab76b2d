"""Workspace: the temporary directory of the demo."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def temporary_workspace(parent: str, wanted_bytes: int) -> Iterator[str]:
    """Create a temporary directory, and remove it with its content at the end.

    Raises
    ------
    OSError
        It cannot be created in `parent`, or there is too little free space.
    """
    free = shutil.disk_usage(parent).free
    if free < wanted_bytes:
        raise OSError(
            f"{parent} has {free >> 20} MiB free and the demo needs {wanted_bytes >> 20} MiB: free "
            "some space, or choose another directory with --dir"
        )
    path = tempfile.mkdtemp(prefix="commitlog-demo-", dir=parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
