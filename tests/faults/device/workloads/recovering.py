"""Recoveries after restarts of the machine, so that a cut may come within one or behind it."""

from __future__ import annotations

import os
import random
from pathlib import Path
from uuid import UUID

from tests.faults import image
from tests.faults.account import check_prefixes
from tests.faults.device import system
from tests.faults.device.checks import AFTER, FLUSHED, Found, check_log, even_value, found_in
from tests.faults.device.diary import Diary, Story
from tests.faults.device.workload import Place, Workload
from tests.faults.device.workloads.appending import POOLS, QUICK
from tests.faults.writers import APPENDED, OPENED, SEGMENT_SIZE, Mark, open_log
from tests.preloaded import ending_the_process

KEPT, WRITTEN = "K", "W"
_RESTARTS, _RECORDS, _SECTOR = 12, 120, 512


def _write(diary: Diary, place: Place, number: int) -> None:
    """Open the log after one restart after the other; each but the first recovers it."""
    numbers = random.Random(number)
    for turn in range(_RESTARTS):
        pid = os.fork()
        if pid == 0:
            with ending_the_process():
                system.end_with_parent()
                system.enter_namespace()
                system.pretend_boot(place.beside / f"boot-{turn}", str(UUID(int=turn)))
                _recover_and_append(diary, place, turn)
        assert os.waitpid(pid, 0)[1] == 0
        _lose_sector(diary, place.disk / "log", turn, numbers)


def _recover_and_append(diary: Diary, place: Place, turn: int) -> None:
    """Note the last record that the recovery exposes; then append, and flush only a part."""
    options = QUICK | {"flush": "none"}
    log, _ = open_log(str(place.disk / "log"), list(POOLS.values())[turn % 3], options)
    kept = found_in(log)
    diary.say(OPENED, turn, turn, log.tail_position)
    if kept:
        diary.say(KEPT, *kept[-1].mark, kept[-1].position)
    for index in range(_RECORDS):
        diary.say(APPENDED, turn, index, log.append(even_value(turn, index)))
        if index == turn * 7 % 60:
            diary.say(FLUSHED, turn, index, log.flush())
    log.commit()


def _lose_sector(diary: Diary, folder: Path, turn: int, numbers: random.Random) -> None:
    """Write back what is not flushed, and lose a sector of it, so that the next recovery cuts the
    log there. What is behind it may come back, if that recovery lets it.
    """
    flushed, end = image.cell(folder, "flushed"), image.cell(folder, "committed")
    first = -(-flushed // _SECTOR)
    sector = numbers.randint(first, first + max(0, end // _SECTOR - first) // 3) * _SECTOR
    path = image.segment_path(folder, sector)
    if sector % SEGMENT_SIZE < image.HEADER_SIZE or not path.exists():
        return
    with path.open("rb") as file:
        system.write_back(file.fileno(), 0, SEGMENT_SIZE, wait=True)
    diary.say(WRITTEN, turn, turn)
    image.poke(path, sector % SEGMENT_SIZE, bytes(_SECTOR))


def _compare(found: list[Found], story: Story) -> int:
    """Check that all is there that was flushed, or that a recovery has exposed, and that each
    session is a prefix. A record that a recovery cut never comes back behind a later session.
    """
    marks = {each.position: each.mark for each in found}
    reported: dict[int, set[Mark]] = {}
    for report in story.whole:
        if report.kind == APPENDED:
            reported.setdefault(report.position, set()).add(Mark(report.session, report.index))
    for position, mark in marks.items():
        assert mark in reported.get(position, {mark}), f"{mark} was never appended at {position}"
    check_prefixes(marks, set())
    sessions = [mark.session for mark in marks.values()]
    assert sessions == sorted(sessions), "records of an earlier session are behind a later one"
    flushed = {report.session: report.position for report in story.kinds(FLUSHED)}
    promised = {
        report.position: Mark(report.session, report.index)
        for report in story.told
        if report.kind == KEPT
        or (report.kind == APPENDED and report.position < flushed.get(report.session, 0))
    }
    for position, mark in promised.items():
        assert marks.get(position) == mark, (
            f"{mark} at {position} was flushed, or exposed by a recovery; the log has "
            f"{marks.get(position)} there, and ends at {max(marks, default=0)}"
        )
    assert AFTER not in sessions
    return len(promised)


def _check(place: Place, story: Story) -> int:
    return check_log(place.disk / "log", story, _compare)


WORKLOADS = (Workload("recovery", (_write,), _check),)
