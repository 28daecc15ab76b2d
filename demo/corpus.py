"""The corpus: the lines of the Python standard library's sources, which every machine has."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterable, Iterator

# Installed packages may be inside the directory of the standard library.
_FOREIGN = {"site-packages", "dist-packages"}
_LEAST_LINES = 1000


def gather(most_lines: int | None = None) -> list[bytes]:
    """Read the corpus.

    Parameters
    ----------
    most_lines : int, optional
        Read at most this many lines. None reads all.

    Returns
    -------
    list of bytes
        The lines with their line ends, files in the order of their names.

    Raises
    ------
    LookupError
        The sources of the standard library are missing.
    """
    folder = sysconfig.get_path("stdlib")
    # Split the joined text, so that `load` reads the same lines if a file lacks its last newline.
    lines = b"".join(_contents(folder)).splitlines(keepends=True)
    if len(lines) < _LEAST_LINES:
        raise LookupError(
            f"{folder} has only {len(lines)} lines of Python: use an interpreter with the sources "
            "of its standard library"
        )
    return lines[:most_lines]


def _contents(folder: str) -> Iterator[bytes]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _FOREIGN)
        for name in sorted(files):
            if name.endswith(".py"):
                try:
                    with open(os.path.join(place, name), "rb") as source:
                        yield source.read()
                except OSError:
                    continue  # this user may not read it


def save(lines: Iterable[bytes], path: str) -> None:
    """Write the corpus to one file, for the other processes."""
    with open(path, "wb") as file:
        file.writelines(lines)


def load(path: str) -> list[bytes]:
    """Read what `save` wrote."""
    with open(path, "rb") as file:
        return file.read().splitlines(keepends=True)


class RunningHash:
    """Hash lines with their lengths by SHA-256, so that other line boundaries give another hash."""

    def __init__(self, lines: Iterable[bytes] = ()) -> None:
        self._hash = hashlib.sha256()
        for line in lines:
            self.add(line)

    def add(self, line: bytes) -> None:
        """Add a line."""
        self._hash.update(len(line).to_bytes(4, "little") + line)

    def hexdigest(self) -> str:
        """Return the hash of the lines so far."""
        return self._hash.hexdigest()
