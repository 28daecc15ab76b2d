"""Notes: the small files of an extension in a log's directory."""

from __future__ import annotations

import os
from typing import Any

from commitlog.segment import checked_json
from commitlog.segment.directory import LogDirectory
from commitlog.segment.new_file import put_new_file


class Notes:
    """Write small files into a log's directory, whole and durably; JSON files have a CRC.

    Parameters
    ----------
    directory : LogDirectory
        Of the log.
    """

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory

    def path_of(self, name: str) -> str:
        """Return where a file is, for messages."""
        return os.path.join(self._directory.path, name)

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the content of a file; None if there is none.

        Raises
        ------
        CorruptSegmentError
            The file is damaged, or another log's.
        UnsupportedVersionError
            A newer release has written it.
        """
        return checked_json.read(self._directory, name)

    def add_file(self, folder: str, name: str, content: bytes) -> bool:
        """Put a new file durably into a folder of the log's directory; return False if there is one
        of that name already. A kill leaves the whole file or none.
        """
        path = os.path.join(self._directory.path, folder)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            placed = put_new_file(fd, name, content)
            os.fsync(fd)
        finally:
            os.close(fd)
        return placed

    def write(self, name: str, content: dict[str, Any]) -> None:
        """Replace a file durably; a kill leaves the old content or the new one."""
        with self._directory.translate_errors(f"write `{name}`"):
            checked_json.write(self._directory, name, content)
