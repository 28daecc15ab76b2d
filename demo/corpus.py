"""The corpus: the sources of the Python standard library, line by line, as every machine that runs
this has them.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterable, Iterator

# Installed packages are not the standard library, though they may lie inside its
# folder.
_FOREIGN = {"site-packages", "dist-packages"}
_LEAST_LINES = 1000


def gather(most_lines: int | None = None) -> list[bytes]:
    """Read the corpus.

    Parameters
    ----------
    most_lines : int, optional
        Stop after that many lines; all of them by default.

    Returns
    -------
    list of bytes
        The lines, line ends included, files in the order of their names.

    Raises
    ------
    LookupError
        This Python came without the sources of its library.
    """
    folder = sysconfig.get_path("stdlib")
    # Split the joined text, so that a file without a last line end gives the same lines here and in
    # `load`.
    lines = b"".join(_contents(folder)).splitlines(keepends=True)
    if len(lines) < _LEAST_LINES:
        raise LookupError(
            f"{folder} has only {len(lines)} lines of Python: use an interpreter that came with "
            "its library's sources"
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
                    continue  # A source that this user may not read is not part of their corpus.


def save(lines: Iterable[bytes], path: str) -> None:
    """Write the corpus to one file, for the demo's other processes."""
    with open(path, "wb") as file:
        file.writelines(lines)


def load(path: str) -> list[bytes]:
    """Read what `save` wrote."""
    with open(path, "rb") as file:
        return file.read().splitlines(keepends=True)


class RunningHash:
    """SHA-256 over lines with their lengths, so that lines cut in other places give another
    hash.
    """

    def __init__(self, lines: Iterable[bytes] = ()) -> None:
        self._hash = hashlib.sha256()
        for line in lines:
            self.add(line)

    def add(self, line: bytes) -> None:
        """Go on by one line."""
        self._hash.update(len(line).to_bytes(4, "little") + line)

    def hexdigest(self) -> str:
        """The hash so far."""
        return self._hash.hexdigest()
