"""A primary, its copy, and what both must have in common."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import commitlog
from commitlog._kernel.segments import SEAL_AT, SEAL_SIZE
from commitlog.recovery.epochs import Epochs
from commitlog.repair.verification import verify
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory
from tests.copies import copy_log
from tests.host import start_code

# Runs a call, and kills the process at a step of it.
_KILLED = """
import sys
from commitlog import replication
from tests.steps import die_at, replace_hook
replace_hook(die_at(int(sys.argv[1])))
if sys.argv[2] == "promote":
    replication.promote(sys.argv[3], others=[sys.argv[4]])
else:
    replication.follow(sys.argv[4], sys.argv[3])
"""
SEGMENT = 64 << 10
LIMIT_S = 30.0


def fill(log: commitlog.CommitLog, count: int, name: str = "record") -> None:
    """Append records of several lengths, and flush."""
    for number in range(count):
        log.append(f"{name} {number} ".encode() * (1 + number % 90))
    log.flush()


def records(path: Path) -> list[tuple[int, int, bytes]]:
    """Return position, timestamp and value of all records."""
    with commitlog.open(path, "r") as log, log.tailer() as tailer:
        return [
            (record.position, record.timestamp_ns, bytes(record.value))
            for record in iter(tailer.read, None)
        ]


def settle(path: Path) -> None:
    """Have a copied directory pass for the one that it was copied from, as after a crash."""
    identity = identities.read_path(str(path))
    assert identity is not None
    directory = LogDirectory(str(path), identity)
    try:
        epochs = Epochs(directory)
        if epochs.exists():
            epochs.write(epochs.read())
    finally:
        directory.close()


def overwritten(path: Path, backup: Path) -> None:
    """Write the content of files over a log's files, as `rsync --inplace` does."""
    for each in backup.glob("[!.]*"):
        if each.is_file():
            with (path / each.name).open("r+b") as file:
                file.write(each.read_bytes())
                file.truncate()


def replaced(path: Path, backup: Path) -> None:
    """Replace a log's files in its directory, as `rsync` does."""
    for each in backup.glob("[!.]*"):
        if each.is_file():
            (path / each.name).unlink()
            shutil.copy2(each, path / each.name)


def moved(path: Path, backup: Path) -> None:
    """Replace the directory."""
    shutil.rmtree(path)
    copy_log(backup, path)


def check_same(primary: Path, copy: Path, end: int) -> None:
    """Check that both have the same bytes below `end`, seals apart, and that the copy is sound."""
    assert verify(copy).sound
    for segment in sorted(primary.glob("*.seg")):
        base = int(segment.stem)
        if base < end:
            mine, theirs = segment.read_bytes(), (copy / segment.name).read_bytes()
            assert mine[:SEAL_AT] == theirs[:SEAL_AT]
            stop = min(end - base, SEGMENT)
            begin = SEAL_AT + SEAL_SIZE
            assert mine[begin:stop] == theirs[begin:stop], segment.name


def copy_of(primary: Path, copy: Path) -> None:
    """Make a copy of all records of a log, and stop its follower."""
    from commitlog import replication  # tests of the core use the rest of this module

    with (
        commitlog.open(primary, segment_size=SEGMENT) as log,
        replication.serve(primary) as server,
        replication.follow(server.url(), copy) as follower,
    ):
        fill(log, 150)
        assert follower.wait(log.flushed_position, LIMIT_S)


def killed_process(step: int, act: str, path: Path, url: str) -> bool:
    """Run an act in a process that dies at that step of it; return False if it ended before."""
    imports = ("commitlog.replication", "tests.steps")
    status = start_code(_KILLED, step, act, path, url, imports=imports).wait(LIMIT_S)
    assert status in (0, -signal.SIGKILL)
    return status != 0
