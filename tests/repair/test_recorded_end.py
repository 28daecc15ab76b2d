"""After a repair, the recorded end of the log is checked against the segments, so that appends land
where readers find them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog.base import failpoint
from commitlog.errors import PositionError
from commitlog.flush import checkpoint as checkpoints
from commitlog.repair.repair import repair
from commitlog.repair.verification import verify
from tests.host import start_code
from tests.length import mixed
from tests.log_files import HEADER, SIZE, UUID, LogFiles, numbered
from tests.repair.test_repair import STEP
from tests.steps import killed_at

APPEND_AND_DIE = """
import os, signal, sys
import commitlog
log = commitlog.open(sys.argv[1])
for value in sys.stdin.buffer.read().split(b"\\n"):
    log.append(value)
os.kill(os.getpid(), signal.SIGKILL)
"""

OLD = [b"old %06d %s" % (number, b"x" * 40) for number in range(1400)]


def add(path: Path, values: list[bytes], *, pooled: bool, flush: str = "async") -> None:
    pool = commitlog.TransientStorePool(buffers=3, buffer_size=SIZE) if pooled else None
    try:
        with commitlog.open(path, segment_size=SIZE, pool=pool, flush=flush) as log:
            for value in values:
                log.append(value)
    finally:
        if pool is not None:
            pool.close()


def add_and_die(path: Path, values: list[bytes]) -> None:
    """Append in a process that has no thread of this one's libraries, and kill it."""
    with start_code(APPEND_AND_DIE, path, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        _, errors = process.communicate(b"\n".join(values), timeout=60)
    assert process.returncode == -signal.SIGKILL, errors.decode()


def values_of(path: Path) -> list[bytes]:
    with commitlog.open(path, mode="r") as log, log.tailer() as tailer:
        return [bytes(record.value) for record in tailer]


def zero(file: Path) -> None:
    file.write_bytes(bytes(SIZE))


def zero_frames(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:HEADER].ljust(SIZE, b"\0"))


def flip_id(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[35] ^= 1
    file.write_bytes(content)


HARM: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "cut short": lambda file: os.truncate(file, HEADER + 900),
    "without a header": lambda file: os.truncate(file, 10),
    "zeroed": zero,
    "without frames": zero_frames,
    "with one bit of its id flipped": flip_id,
}


@pytest.mark.parametrize(
    ("how", "harm", "ahead"),
    mixed([(False, "async"), (False, "sync"), (True, "sync")], HARM, [True, False], of=2),
)
def test_append_after_a_repair_is_read(
    tmp_path: Path, how: tuple[bool, str], harm: str, ahead: bool
) -> None:
    pooled, flush = how
    path = tmp_path / "log"
    add(path, OLD, pooled=pooled)
    report = verify(path)
    assert report.clean
    assert report.checkpoint is not None
    last = report.checkpoint // SIZE
    if not ahead:
        for file in path.glob("*.seg"):
            if int(file.name[:20]) > last * SIZE:
                file.unlink()
    HARM[harm](path / f"{last * SIZE:020d}.seg")
    assert repair(path).sound
    assert verify(path).sound
    kept = values_of(path)
    assert kept == OLD[: len(kept)]
    expected = list(kept)
    for values in (numbered(30), numbered(30, 30), numbered(30, 60)):
        if values == numbered(30, 30) and not pooled:
            add_and_die(path, values)
        else:
            add(path, values, pooled=pooled, flush=flush)
        expected += values
        assert values_of(path) == expected
        assert verify(path).sound


def hide_end(files: LogFiles, before: int = 0) -> int:
    """Build a closed log whose end lies in a SKIP, as an older release's repair left it; return the
    end of that SKIP.

    `before` is the number of records in front of the SKIP: 0 after such a repair.
    """
    files.full(0, numbered(100))
    files.create(1, opened=True)
    files.skip(1, files.records(1, numbered(before, 100)), 0)
    files.create(2)
    files.checkpoint(SIZE + HEADER + 50 * STEP, clean=True)
    (files.path / "lock").touch()
    return 2 * SIZE


def test_end_inside_a_skip_is_reported(files: LogFiles) -> None:
    behind = hide_end(files)
    report = verify(files.path)
    assert not report.sound
    assert report.problems[0].startswith(
        f"`checkpoint` records the end of the log at position {SIZE + HEADER + 50 * STEP}, inside"
    )
    assert str(behind) in report.problems[0]


@pytest.mark.parametrize("unclean", [False, True])
def test_append_continues_after_a_skip_that_covers_the_end(files: LogFiles, unclean: bool) -> None:
    before = 10 if unclean else 0
    hide_end(files, before)
    if unclean:
        files.checkpoint(SIZE + HEADER + 50 * STEP)
    with commitlog.open(files.path) as log:
        assert log.append(b"new") == 2 * SIZE + HEADER
    assert values_of(files.path) == [*numbered(100 + before), b"new"]
    assert verify(files.path).sound


def test_end_inside_a_skip_is_moved_by_repair(files: LogFiles) -> None:
    behind = hide_end(files)
    report = repair(files.path)
    assert report.sound
    assert [(action.file, action.resume_position) for action in report.actions] == [
        ("checkpoint", behind)
    ]
    assert repair(files.path).actions == []
    found = checkpoints.read(files.directory.fd, UUID)
    assert found is not None
    assert (found.position, found.clean) == (behind, False)


def test_tailer_inside_a_skip_continues_after_it(files: LogFiles) -> None:
    files.full(0, numbered(100))
    files.create(1, opened=True)
    end = SIZE + files.records(1, numbered(10, 100))
    files.checkpoint(end, clean=True)
    with commitlog.open(files.path) as log, log.tailer("reader") as tailer:
        assert len(list(tailer)) == 110
    (files.file(1)).unlink()
    files.create(2)
    assert repair(files.path).sound
    with commitlog.open(files.path) as log:
        log.append(b"new")
        with log.tailer("reader") as tailer:
            assert [bytes(record.value) for record in tailer] == [b"new"]


def test_tail_inside_a_skip_is_not_used_for_appends(files: LogFiles) -> None:
    """The cursors of a log that was not closed survive a repair, and are checked."""
    add(files.path, OLD[:100], pooled=False)
    add_and_die(files.path, OLD[100:1400])
    with commitlog.open(files.path, mode="r") as log:
        last = log.appended_position // SIZE
    files.file(last).unlink()
    assert repair(files.path).sound
    kept = values_of(files.path)
    add(files.path, [b"new"], pooled=False)
    assert values_of(files.path) == [*kept, b"new"]
    assert verify(files.path).sound


def test_repair_removes_the_clean_mark_before_it_writes(
    files: LogFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_end(files)
    files.file(0).unlink()
    files.create(0)

    def stop(step: str) -> None:
        if step == "distrusted":
            raise RuntimeError

    monkeypatch.setattr(failpoint, "hook", stop)
    before = files.get(0)
    with pytest.raises(RuntimeError):
        repair(files.path)
    assert files.get(0) == before
    assert not verify(files.path).clean


def test_impossible_checkpoint_is_ignored(files: LogFiles) -> None:
    files.full(0, numbered(10))
    files.create(1)
    files.checkpoint(2**62, clean=True)
    report = repair(files.path)
    assert not report.sound
    assert files.numbers() == [0, 1]
    with commitlog.open(files.path) as log:
        log.append(b"new")
    assert values_of(files.path) == [*numbered(10), b"new"]


def closed_without_its_last(path: Path) -> Callable[[], object]:
    """Build a closed log without its last segment; return a function that repairs it."""
    files = LogFiles(path)
    hide_end(files)
    files.file(1).unlink()
    return functools.partial(repair, path)


def test_append_after_a_killed_repair_is_read(tmp_path: Path) -> None:
    step, done = 1, False
    while not done:
        path = tmp_path / str(step)
        done = not killed_at(step, functools.partial(closed_without_its_last, path))
        with commitlog.open(path) as log:
            log.append(b"new")
        with contextlib.suppress(PositionError):  # a reader cannot pass the gap
            assert values_of(path) == [*numbered(100), b"new"], step
        assert repair(path).sound, step
        assert values_of(path) == [*numbered(100), b"new"], step
        step += 1
    assert step > 4
