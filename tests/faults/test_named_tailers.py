"""Named tailers on a failing or a full disk, and the durability of their positions."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import DiskFullError, IOFailureError
from commitlog.tail.tailer_file import Durable
from tests.faults import small_disk
from tests.faults.child import Child, Link
from tests.faults.shim import Shim
from tests.faults.test_full_disk import Disk

Start = Callable[..., Child]
READ, REFUSED, SAME = "R", "N", "S"
RECORDS = 8


def filled(path: str, count: int = RECORDS) -> CommitLog:
    """Return a log of durable records whose values are their sequence numbers."""
    log = commitlog.open(
        path,
        segment_size=65536,
        flush="none",
        tuning=commitlog.Tuning(checkpoint_interval=60, allocate_ahead=0),
    )
    log.append_many([b"%d" % index for index in range(count)])
    log.flush()
    return log


def read_all(link: Link, path: str, durable: Durable) -> None:
    with filled(path) as log, log.tailer("a", durable=durable) as tailer:
        link.say(READ)
        link.wait()
        for _ in range(RECORDS):
            tailer.read()
        link.say(READ)
        link.wait()


@pytest.mark.parametrize(("durable", "syncs"), [(True, RECORDS), ("1h", 1), (False, 0)])
def test_durable_option_syncs_the_position_as_declared(
    path: Path, start: Start, shim: Shim, durable: Durable, syncs: int
) -> None:
    child = start(read_all, str(path), durable, environment=shim.environment())
    child.hear(1)
    before = shim.count("msync")
    child.go_on()
    child.hear(1)
    assert shim.count("msync") - before == syncs
    child.go_on()
    assert child.wait() == 0


def read_on_a_failing_disk(link: Link, path: str) -> None:
    log = filled(path)
    tailer = log.tailer("a", durable=True)
    link.say(READ)
    link.wait()
    with pytest.raises(IOFailureError, match="could not be made durable: .*; check the disk") as at:
        tailer.read()
    assert at.value.path == f"{path}/tailers/a"
    link.say(REFUSED)
    link.wait()
    assert [record.value for record in tailer] == [b"%d" % index for index in range(1, RECORDS)]
    link.say(READ)


def test_position_that_cannot_be_synced_raises(path: Path, start: Start, shim: Shim) -> None:
    child = start(read_on_a_failing_disk, str(path), environment=shim.environment())
    child.hear(1)
    shim.fail("msync", errno.EIO)
    child.go_on()
    assert child.hear(1)[0].kind == REFUSED
    shim.fail("msync", 0)
    child.go_on()
    assert child.hear(1)[0].kind == READ
    child.wait()


def read_on_a_full_disk(link: Link, kind: str, point: str) -> None:
    """A tailer with a file keeps saving its position; a new tailer finds no room and leaves no
    file.
    """
    disk = Disk(link, kind, point)
    log = filled(str(disk.path / "log"))
    old = log.tailer("old")
    disk.fill()
    assert [record.value for record in old] == [b"%d" % index for index in range(RECORDS)]
    with pytest.raises(DiskFullError, match="free space"):
        log.tailer("new")
    assert [(state.name, state.damage) for state in log.tailers()] == [("old", None)]
    disk.free()
    assert log.tailer("new").read() is not None
    assert log.tailers()[1].position == log.tail_position
    link.say(SAME)
    log.close()


@pytest.mark.parametrize("kind", small_disk.kinds())
def test_full_disk_loses_no_position(tmp_path: Path, start: Start, shim: Shim, kind: str) -> None:
    environment = shim.environment() if kind == "shim" else {}
    launcher = [] if kind == "shim" else small_disk.launcher() or []
    child = start(
        read_on_a_full_disk,
        kind,
        str(tmp_path / "disk"),
        launcher=launcher,
        environment=environment,
    )
    while (report := child.hear(1)[0]).kind != SAME:
        shim.fail("fallocate", errno.ENOSPC if report.kind == "X" else 0)
        child.go_on()
    assert child.wait() == 0
