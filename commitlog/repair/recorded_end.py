"""What the files beside a log's segments record of its end: `checkpoint`, and the `cursors` of this
boot.
"""

from __future__ import annotations

from commitlog._kernel.memory import MODE_MAPPED, STATE_NONE, STATE_READY, Cursors
from commitlog.errors import CorruptSegmentError, PositionError, UnsupportedVersionError
from commitlog.flush import checkpoint as checkpoints
from commitlog.recovery.location import AHEAD_LIMIT
from commitlog.segment import cursors_file
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity

_WATERMARKS = ("appended", "committed", "flushed")


class RecordedEnd:
    """The recorded end of a log that no process is changing.

    Parameters
    ----------
    directory : LogDirectory
        The log's.
    identity : Identity
        What it is.

    Attributes
    ----------
    checkpoint : Checkpoint or None
        The record in force.
    """

    def __init__(self, directory: LogDirectory, identity: Identity) -> None:
        self._directory = directory
        self.checkpoint = checkpoints.read(directory.fd, identity.uuid)
        found = cursors_file.find(directory.fd, identity)
        usable = found is not None and found.usable and found.cells["state"] != STATE_NONE
        self._cursors: Cursors | None = found.cells if found is not None and usable else None

    @property
    def clean(self) -> bool:
        """The log was closed, as far as the checkpoint says."""
        return self.checkpoint is not None and self.checkpoint.clean

    @property
    def known(self) -> int:
        """The position known to be durable; 0 where nothing is."""
        return 0 if self.checkpoint is None else self.checkpoint.position

    @property
    def last_number(self) -> int | None:
        """The last segment that the log can have, those ahead of need included. None: nothing says,
        since the log was not closed and what lived in memory is gone."""
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
        """The ends that lie inside a SKIP, where no reader comes to: by which file, the end, and
        the position behind the SKIP.
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
        """Take the clean mark away, durably, and the cursors that a closed log has left: the next
        open looks for the end itself. Only under the log's exclusive lock."""
        if self.checkpoint is None or not self.checkpoint.clean:
            return
        if self._cursors is not None:
            self._cursors["state"] = STATE_NONE
            self._cursors = None
        self._write(self.checkpoint.position)

    def move(self, name: str, position: int) -> None:
        """Have one of the files record another end. Only under the log's exclusive lock."""
        if name == checkpoints.NAME:
            self._write(position)
        elif self._cursors is not None:
            self._cursors.tail = divmod(position, self._directory.segment_size)
            for watermark in _WATERMARKS:
                self._cursors[watermark] = position

    def _write(self, position: int) -> None:
        # In both turns of the file: one lost sector must not bring the old record back.
        for _ in range(2):
            checkpoints.write(self._directory.fd, self._directory.log_uuid, position, clean=False)
        self.checkpoint = checkpoints.read(self._directory.fd, self._directory.log_uuid)
