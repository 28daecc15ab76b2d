"""Back up a log to a directory, which is a log then."""

from __future__ import annotations

from commitlog.backup.source_log import SourceLog
from commitlog.backup.verifying import check
from commitlog.backup.workplace import Workplace
from commitlog.backup.writing import InPlace, Writing, Written
from commitlog.base.path import translate_errors
from commitlog.base.progress import Meter
from commitlog.extension import LockedLog
from commitlog.types import BackupContent


def back_up(
    source: SourceLog,
    path: str,
    wanted: frozenset[BackupContent],
    meter: Meter,
    *,
    incremental: bool,
    verify: bool,
) -> Written:
    """Write the directory beside its place, and put it there when it is whole and verified."""
    place = Workplace(path)
    place.check_outside(source.folder)
    if not incremental:
        place.check_free()
    with (
        translate_errors(place.path, "write the backup"),
        place.prepared(),
        LockedLog.restore(place.work, source.identity, again=True) as copy,
    ):
        writing = Writing(source, copy, place.work, InPlace(copy), meter, rounds=2 if verify else 1)
        written = writing.run(wanted, place.path if incremental else None)
        if verify:
            check(place.work, written, meter)
        meter.end()
        if incremental:
            place.replace()
        else:
            place.place(place.work)
    return written
