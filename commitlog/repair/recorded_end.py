"""The recorded end of a log: what its `checkpoint`, and its `cursors` if they are of this boot,
say.
"""

from __future__ import annotations

from commitlog._kernel.memory import MODE_MAPPED, STATE_NONE, STATE_READY, Cursors
from commitlog.base.failpoint import failpoint
from commitlog.errors import CorruptSegmentError, PositionError, UnsupportedVersionError
from commitlog.flush import checkpoint as checkpoints
from commitlog.recovery.location import AHEAD_LIMIT
from commitlog.segment import cursors_file
from commitlog.segment.directory import LogDirectory

_WATERMARKS = ("appended", "committed", "flushed")


class RecordedEnd:
    """The recorded end of a log that is not open; `checkpoint` is the latest valid one."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self.checkpoint = checkpoints.read(directory.fd, directory.log_uuid)
        found = cursors_file.find(directory.fd, directory.identity)
        usable = found is not None and found.usable and found.cells["state"] != STATE_NONE
        self._cursors: Cursors | None = found.cells if found is not None and usable else None

    @property
    def clean(self) -> bool:
        """Return whether the checkpoint has the clean mark."""
        return self.checkpoint is not None and self.checkpoint.clean

    @property
    def known(self) -> int:
        """Return the position known to be durable; 0 if there is no checkpoint."""
        return 0 if self.checkpoint is None else self.checkpoint.position

    @property
    def last_number(self) -> int | None:
        """Return the number of the last segment that the log can have, those created ahead of need
        included. None if it is unknown: the log was not closed, and its `cursors` are lost.
        """
        size = self._directory.segment_size
        if self.clean:
            return self.known // size + AHEAD_LIMIT
        if (
            self._cursors is not None
            and self._cursors["state"] == STATE_READY
            and self._cursors.mode == MODE_MAPPED
        ):
            return max(self.known, self._tail(self._cursors)) // size + AHEAD_LIMIT
        return None

    def _tail(self, cursors: Cursors) -> int:
        (number, offset), size = cursors.tail, self._directory.segment_size
        return number * size + min(offset, size)

    def hidden(self) -> list[tuple[str, int, int]]:
        """Return the recorded ends that are inside a SKIP, where no reader comes: the file that
        records the end, the end, and the position behind the SKIP.
        """
        ends = [(checkpoints.NAME, self.known)]
        if self._cursors is not None and not self.clean:
            mapped = self._cursors.mode == MODE_MAPPED
            ends.append(
                (
                    cursors_file.NAME,
                    self._tail(self._cursors) if mapped else self._cursors["committed"],
                )
            )
        found = []
        for name, position in ends:
            try:
                landing = self._directory.landing(position)
            except (CorruptSegmentError, PositionError, UnsupportedVersionError):
                continue  # its segment is damaged or gone
            if landing != position:
                found.append((name, position, landing))
        return found

    def distrust(self) -> None:
        """Remove the clean mark, durably, and invalidate the cursors of a closed log, before a
        segment changes: the next open then searches the end itself. The caller holds the exclusive
        lock of the log.
        """
        if self.checkpoint is not None and self.checkpoint.clean:
            if self._cursors is not None:
                self._cursors["state"] = STATE_NONE
                self._cursors = None
            self._write(self.checkpoint.position)
        failpoint("distrusted")

    def move(self, name: str, position: int) -> None:
        """Record another end in one of the files. The caller holds the log's exclusive lock."""
        if name == checkpoints.NAME:
            self._write(position)
        elif self._cursors is not None:
            self._cursors.tail = divmod(position, self._directory.segment_size)
            for watermark in _WATERMARKS:
                self._cursors[watermark] = position

    def _write(self, position: int) -> None:
        # In both records of the file: if one sector is lost, the old end must not come back.
        for _ in range(2):
            checkpoints.write(self._directory.fd, self._directory.log_uuid, position, clean=False)
        self.checkpoint = checkpoints.read(self._directory.fd, self._directory.log_uuid)
