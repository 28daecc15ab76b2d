"""Copies of a log's directory, as a backup program makes them while the log is open."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_log(source: Path | str, target: Path | str, *skipped: str) -> Path:
    """Copy a directory without its temporary files, which vanish while they are copied.

    Parameters
    ----------
    source, target : Path or str
        The directory, and the one to create.
    *skipped : str
        Patterns of further names that are not copied.

    Returns
    -------
    Path
        The directory that was created.
    """
    skip = shutil.ignore_patterns(".*.tmp", *skipped)
    return Path(shutil.copytree(source, target, symlinks=True, ignore=skip))
