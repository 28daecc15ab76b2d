"""Back up a log to one file, which `tar` unpacks to a log, and which `open` reads as it is."""

from __future__ import annotations

import os
from collections.abc import Iterator

from commitlog.backup.source_log import SourceLog
from commitlog.backup.tar_file import TarFile
from commitlog.backup.verifying import check
from commitlog.backup.workplace import Workplace
from commitlog.backup.writing import Writing, Written
from commitlog.base.failpoint import failpoint
from commitlog.base.path import translate_errors
from commitlog.base.progress import Meter
from commitlog.errors import InvalidOptionError
from commitlog.extension import LockedLog, LogCopy, LogFiles, SegmentHeader
from commitlog.stores.archived import archived_name
from commitlog.stores.stored_tail import StoredTail
from commitlog.stores.storing import StoreEnd, Storing
from commitlog.stores.tar_target import TarTarget
from commitlog.types import BackupContent, Identity

LEVEL = 3  # of zstd


def back_up(
    source: SourceLog,
    path: str,
    wanted: frozenset[BackupContent],
    meter: Meter,
    *,
    incremental: bool,
    verify: bool,
) -> Written:
    """Write the file beside its place, and put it there when it is whole and verified."""
    if incremental:
        raise InvalidOptionError(
            f"{path}: a backup in one file is written whole: make a new one, or use a directory or "
            "an address for incremental backups"
        )
    place = Workplace(path)
    place.check_outside(source.folder)
    place.check_absent()
    folder = os.path.join(place.work, "log")
    file = os.path.join(place.work, place.name)
    with translate_errors(place.path, "write the backup"), place.prepared():
        try:
            with LockedLog.restore(folder, source.identity, again=True) as copy:
                place.clear(file)
                tar = TarFile(file, LEVEL)
                is_whole = False
                try:
                    segments = _Packed(source, copy, folder, tar)
                    writing = Writing(
                        source, copy, folder, segments, meter, rounds=2 if verify else 1
                    )
                    written = writing.run(wanted)
                    for name in _files(folder):
                        size = os.stat(os.path.join(folder, name)).st_size
                        with open(os.path.join(folder, name), "rb") as member:
                            tar.begin(name, size)
                            tar.content(name, member, size)
                    is_whole = True
                finally:
                    tar.close(index=is_whole)
                failpoint("backup packed")
                if verify:
                    _check(file, written, meter)
                meter.end()
                place.place(file)
        finally:
            place.clear(folder, file)
    return written


class _Packed:
    """Segments that go into the file as soon as they are in the copy, and are removed from it."""

    def __init__(self, source: SourceLog, copy: LogCopy, folder: str, tar: TarFile) -> None:
        self._identity = source.identity
        self._copy = copy
        self._folder = folder
        self._tar = tar
        self._begun: dict[int, int] = {}  # frames before each segment
        self._parted: int | None = None  # the first segment that is in parts

    def take(self, number: int, stop: int) -> None:
        tar, size = self._tar, self._identity.segment_size
        with LogFiles(self._folder, self._identity) as files:
            self._begun[number] = tar.frames
            tar.begin(os.path.basename(files.location(number)), size)
            page = files.header(number)
            assert page is not None
            if SegmentHeader(page).seal_of(self._identity, number) is None and self._parted is None:
                self._parted = number  # and all later ones: a whole one would cover its parts
            if self._parted is None:
                with files.opened_file(number) as fd, open(fd, "rb", closefd=False) as content:
                    tar.content(archived_name(number * size), content, size)
            else:
                tail, at, end = StoredTail(tar, files, LEVEL), number * size, number * size + stop
                while at < end:
                    storing = Storing(size)
                    tail.store(StoreEnd(at, end), storing)
                    at = storing.stored
        self._copy.remove_segment(number)

    def drop(self, numbers: list[int]) -> None:
        self._tar.cut(self._begun[min(numbers)])
        if self._parted is not None and self._parted >= min(numbers):
            self._parted = None


def _files(folder: str) -> Iterator[str]:
    """Yield the files of a log without segments, its identity last."""
    for where, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(where, name), folder)
            if path != Identity.FILE_NAME:
                yield path
    yield Identity.FILE_NAME


def _check(path: str, written: Written, meter: Meter) -> None:
    """Read all of the file again."""
    check(path, written, meter)
    target = TarTarget(path)
    for name in target.files():
        for _ in target.pieces(name):
            pass
