"""Notes: the small files of an extension in a log's directory."""

from __future__ import annotations

from typing import Any

from commitlog.segment import checked_json
from commitlog.segment.directory import LogDirectory


class Notes:
    """Read and replace small JSON files in a log's directory, whole, durably and with a CRC.

    Parameters
    ----------
    directory : LogDirectory
        Of the log.
    """

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory

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

    def write(self, name: str, content: dict[str, Any]) -> None:
        """Replace a file durably; a kill leaves the old content or the new one."""
        with self._directory.translate_errors(f"write `{name}`"):
            checked_json.write(self._directory, name, content)
