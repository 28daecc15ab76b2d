"""EarlierBackup: a backup that an incremental one continues."""

from __future__ import annotations

import os
from typing import Any

from commitlog.backup.source_log import SourceLog
from commitlog.errors import CorruptSegmentError, LogExistsError, LogNotFoundError, PositionError
from commitlog.extension import HEADER_SIZE, Epochs, LogFiles, SegmentHeader

NOTE = "backup"  # the file in a backup's directory that says what it is


class EarlierBackup:
    """Check that a directory is a backup of a log and of its history, and find what it has.

    Attributes
    ----------
    end : int
        Where its records end.
    numbers : list of int
        Its segments.

    Raises
    ------
    LogNotFoundError, LogExistsError
        The directory is no backup, or not one of this log; it was appended to since; or the log
        has other records.
    PositionError
        The log deleted what lies between the end of the backup and its own first record.
    """

    def __init__(self, path: str, source: SourceLog, end: int) -> None:
        self._path = path
        self._source = source
        self._size = source.size
        self._files = files = _opened(path, source)
        try:
            self.end = self._read_end()
            self.numbers = [
                each for each in files.segment_numbers() if each * self._size < self.end
            ]
            self._check_history(end)
        except BaseException:
            files.close()
            raise

    def close(self) -> None:
        self._files.close()

    def path_of(self, number: int) -> str:
        """Return where a segment is."""
        return self._files.location(number)

    def has_whole(self, end: int, number: int) -> bool:
        """Return whether the backup has a segment as it is to be in the next one, which ends at
        `end`, so that its file can be used. A segment that the log has deleted since is kept.
        """
        if not self.numbers[0] <= number < self.end // self._size:
            return False
        page = self._files.header(number)
        if os.path.getsize(self.path_of(number)) != self._size:
            return False
        try:
            return page is not None and page == self._source.page(number, end)
        except PositionError:
            return True

    # --- checks -----------------------------------------------------------------------------------

    def _read_end(self) -> int:
        note = self._files.notes.read(NOTE)
        if note is None:
            raise LogExistsError(
                "this is a log, and not a backup that an incremental one can continue: give the "
                "directory of a backup, or a new one",
                path=self._path,
            )
        end = note.get("position")
        checkpoint = self._files.checkpoint()
        is_unchanged = checkpoint is not None and checkpoint.clean and checkpoint.position == end
        if self._files.live or not is_unchanged or type(end) is not int:
            raise self._refused(
                "this backup was opened for writing since, so it is a log of its own now", None
            )
        return end

    def _check_history(self, end: int) -> None:
        source, size = self._source, self._size
        first = source.view.first_position
        if first > self.end:
            raise PositionError(
                f"the log has deleted what was before position {first}, and the backup ends at "
                f"{self.end}: make a new backup in another directory",
                path=self._path,
                position=self.end,
                first_position=first,
            )
        if self.end > end:
            raise self._refused(
                f"the backup has records up to position {self.end}, and the log ends at {end}: the "
                "log was restored from an older state or cut since",
                end,
            )
        known = Epochs.at(self._path)
        parted = None
        if known is not None and source.folder is not None:
            parted = known[1].parted(source.lineage.reached(self.end))
        if parted is not None and parted < self.end:
            raise self._refused(
                f"the backup and the log are of different promotions from position {parted} on",
                parted,
            )
        there = set(source.view.segment_numbers())
        for number in self.numbers:
            if number in there:
                self._check_segment(number, is_last=(number + 1) * size >= self.end)

    def _check_segment(self, number: int, *, is_last: bool) -> None:
        """Refuse a segment that is another one in the log. Logs that once differ never become equal
        again, so the frames of the last one are compared, and the seals of those before it.
        """
        own, theirs = self._files.header(number), self._source.view.header(number)
        if theirs is None and not self._source.has(number):
            return  # deleted just now
        if own is None or theirs is None:
            raise CorruptSegmentError(
                "the header of this segment is damaged: run `commitlog verify` on backup and log",
                path=self.path_of(number),
                position=number * self._size,
            )
        identity = self._source.identity
        seals = [SegmentHeader(each).seal_of(identity, number) for each in (own, theirs)]
        is_other = SegmentHeader(own).segment_id != SegmentHeader(theirs).segment_id
        is_other = is_other or (None not in seals and seals[0] != seals[1])
        if not is_other and is_last:
            stop = self._source.stop_of(number, self.end)
            with self._files.opened_segment(number) as segment:
                mine = int(segment.digest(HEADER_SIZE, stop, 0)[1])
            is_other = mine != self._source.digest(number, stop)
        if is_other:
            raise self._refused(
                "the backup and the log have different records in this segment: one of them went "
                "on after a restore, a cut or a copy of the directory",
                number * self._size,
            )

    def _refused(self, why: str, position: int | None) -> LogExistsError:
        return LogExistsError(
            f"{why}; nothing was changed. Make a new backup in another directory",
            path=self._path,
            position=position,
        )


def _opened(path: str, source: SourceLog) -> LogFiles:
    identity = LogFiles.identity_at(path)
    if identity is None:
        raise LogNotFoundError(
            "there is no backup here that an incremental one can continue: leave `--incremental` "
            "out for the first one",
            path=path,
        )
    if identity.uuid != source.identity.uuid:
        raise LogExistsError(
            "this is the backup of another log: give the directory of a backup of this one",
            path=path,
        )
    return LogFiles(path, identity)


def note_of(end: int, taken_ns: int, contents: list[str]) -> dict[str, Any]:
    """Return the content of the file that says what a backup is."""
    return {"position": end, "taken_ns": taken_ns, "contents": contents}
