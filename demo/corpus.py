"""The corpus: the lines of the Python standard library's sources, which every machine has."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

# Installed packages may be inside the directory of the standard library.
_FOREIGN = {"site-packages", "dist-packages"}
_LEAST_LINES = 1000


def gather(most_lines: int | None = None) -> list[bytes]:
    """Return the lines with their line ends, files in the order of their names, and at most this
    many.

    Raises
    ------
    LookupError
        The sources of the standard library are missing.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    # Split the joined text, so that `load` reads the same lines if a file lacks its last newline.
    lines = b"".join(_contents(folder)).splitlines(keepends=True)
    if len(lines) < _LEAST_LINES:
        raise LookupError(
            f"{folder} has only {len(lines)} lines of Python: use an interpreter with the sources "
            "of its standard library"
        )
    return lines[:most_lines]


def _contents(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.rglob("*.py")):
        if _FOREIGN.isdisjoint(path.relative_to(folder).parts):
            try:
                yield path.read_bytes()
            except OSError:
                continue  # this user may not read it


def load(path: str) -> list[bytes]:
    """Return the lines of a file that has the corpus."""
    return Path(path).read_bytes().splitlines(keepends=True)
