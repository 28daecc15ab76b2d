"""Long calls report their progress: it rises to its total, and what it raises does no harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import Retention, Store
from commitlog.base.progress import Progress
from commitlog.keep import archive_segments, prune, repair, restore, verify
from tests.faults.image import poke
from tests.setups import SEGMENT, Logs, values

pytest.importorskip("zstandard")
Call = Callable[[Progress], object]


@pytest.fixture
def path(logs: Logs) -> Path:
    log = logs.open()
    for number in range(300):
        log.append(b"%d" % number * 200)
    log.close()
    return logs.path / "log"


def calls(path: Path) -> dict[str, Call]:
    """Return the long calls on a log with damage, in an order in which each has work to do."""
    place = path.parent / "archive"
    return {
        "verify": lambda show: verify(path, progress=show),
        "repair": lambda show: repair(path, progress=show),
        "archive": lambda show: archive_segments(path, Store(place), keep=True, progress=show),
        "restore": lambda show: restore(place, path.parent / "again", progress=show),
        "prune": lambda show: prune(path, Retention(max_bytes=0), progress=show),
    }


def test_progress_rises_to_its_total(path: Path) -> None:
    poke(path / f"{0:020d}.seg", 9000, b"!!!!")
    for name, call in calls(path).items():
        seen: list[tuple[int, int]] = []
        call(lambda done, total, seen=seen: seen.append((done, total)))
        assert [done for done, _ in seen] == sorted(done for done, _ in seen), name
        assert seen[-1][0] == seen[-1][1] >= SEGMENT // 4, name


def test_progress_that_raises_damages_nothing(path: Path) -> None:
    poke(path / f"{0:020d}.seg", 9000, b"!!!!")

    def stop(done: int, total: int) -> None:
        if total:
            raise KeyboardInterrupt

    for call in calls(path).values():
        with pytest.raises(KeyboardInterrupt):
            call(stop)
        call(lambda done, total: None)
    assert verify(path).sound
    with commitlog.open(path, "r") as log:
        assert values(log)
