"""The disk monitor on a small disk: appends stop while other programs still have room, and resume
after segments are deleted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import Retention
from commitlog.errors import DiskFullError
from commitlog.keep import prune
from tests.faults import small_disk
from tests.faults.child import Child, Link

SEGMENT = 64 << 10
LEAST = 200 << 10


def free_bytes(path: Path) -> int:
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def fill_and_prune(link: Link, kind: str, point: str) -> None:
    disk = Path(point)
    small_disk.mount(kind, disk)
    with commitlog.open(disk / "log", segment_size=SEGMENT, min_free_bytes=LEAST) as log:
        written = 0
        for _ in range(3):
            with pytest.raises(DiskFullError):  # noqa: PT012 - whichever append it is
                while True:
                    log.append(b"%06d" % written + b"." * 1000)
                    written += 1
            assert free_bytes(disk) >= LEAST
            assert log.stats().disk == "full"
            (disk / "others").write_bytes(bytes(LEAST // 2))  # another program still has room
            (disk / "others").unlink()
            log.flush()
            first = log.first_position
            log.prune(Retention(max_bytes="1TiB"))  # seals
            assert len(prune(log.path, Retention(max_bytes=3 * SEGMENT)).segments) > 0
            assert log.first_position > first
            log.append(b"%06d" % written)
            written += 1
        seen = [int(value[:6]) for value in log.tailer().values()]
        assert seen == list(range(seen[0], written))
    link.say("E")


@pytest.mark.parametrize("kind", [kind for kind in small_disk.kinds() if kind != "shim"])
def test_low_disk_space_stops_appends_until_segments_are_deleted(
    kind: str, tmp_path: Path, start: Callable[..., Child]
) -> None:
    child = start(fill_and_prune, kind, str(tmp_path / "disk"), launcher=small_disk.launcher())
    assert [report.kind for report in child.join()] == ["E"]
