"""Acts that provoke the calls of the table in docs/durability.md."""

from __future__ import annotations

import os
import shutil
import time

import pytest

import commitlog
from commitlog import CommitLog, Retention, Store
from commitlog.keep import archive_segments, prune
from commitlog.log.parts import parts_of
from commitlog.segment.blocks import FIRST_BYTES
from commitlog.stage.joining import join
from tests.faults import image
from tests.faults.child import Child, Link
from tests.faults.failing_scene import GROWING, LIMIT_S, OPTIONS, TO_ROLL, VALUE, Scene
from tests.faults.writers import SEGMENT_SIZE, close_log, open_log
from tests.stage.making import batch_of, numbered, stage


def grow(scene: Scene, log: CommitLog) -> None:
    log.append_many([VALUE] * (FIRST_BYTES // len(VALUE)))


def create_another(scene: Scene, log: CommitLog) -> None:
    commitlog.open(scene.path.with_name("another"), segment_size=GROWING)


def roll(scene: Scene, log: CommitLog) -> None:
    log.append_many([VALUE] * TO_ROLL)


def make_next_segment(scene: Scene, log: CommitLog) -> None:
    """Leave a segment whose name is not durable, as a process killed at that point would."""
    parts_of(log).directory.create_segment(log.tail_position // SEGMENT_SIZE + 1)


def append_until_refused(scene: Scene, log: CommitLog) -> None:
    """The allocation service meets the failure, and the appends report it."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        log.append(b"small")


def append_durably(scene: Scene, log: CommitLog) -> None:
    log.append(VALUE, sync=True)


def append_durably_until_refused(scene: Scene, log: CommitLog) -> None:
    """The record is durable before the checkpoint is written, so only the next append is
    refused.
    """
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        scene.append(log)


def idle_until_failed(scene: Scene, log: CommitLog) -> None:
    """The record is durable; the checkpoint is written when the log is idle."""
    scene.append(log)
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        parts_of(log).engine.check_failed()


def commit(scene: Scene, log: CommitLog) -> None:
    log.append_many([VALUE] * 30)
    log.commit()


def fill(scene: Scene, log: CommitLog) -> None:
    """Make three sealed, durable segments."""
    for _ in range(3):
        scene.append(log, 3)
        log.roll()
    scene.append(log)
    log.flush()
    log.prune(Retention(max_bytes="1TiB"))


def fill_and_disown(scene: Scene, log: CommitLog) -> None:
    """Make three sealed segments of which only the last record must stay."""
    fill(scene, log)
    scene.acknowledged = scene.acknowledged[-1:]


def roll_and_seal(scene: Scene, log: CommitLog) -> None:
    roll(scene, log)
    log.flush()
    log.prune(Retention(max_bytes="1TiB"))


def close(scene: Scene, log: CommitLog) -> None:
    try:
        log.close()
    finally:
        assert log.closed


def delete_segments(scene: Scene, log: CommitLog) -> None:
    log.delete_before(log.tail_position)


def prune_outside(scene: Scene, log: CommitLog) -> None:
    prune(scene.path, Retention(max_bytes=0))


def archive(scene: Scene, log: CommitLog) -> None:
    pytest.importorskip("zstandard")
    target = scene.path.with_name("archive")
    before = len(image.segments(scene.path))
    try:
        archive_segments(scene.path, Store(target))
    finally:
        assert len(image.segments(scene.path)) == before


def name_tailer(scene: Scene, log: CommitLog) -> None:
    log.tailer(name="reader").close()


def require_tailer(scene: Scene, log: CommitLog) -> None:
    log.tailer(name="reader", required=True).close()


def delete_tailer(scene: Scene, log: CommitLog) -> None:
    log.delete_tailer("reader")


def remove(scene: Scene, log: CommitLog) -> None:
    """Remove the log, so that the case creates it."""
    shutil.rmtree(scene.path)
    scene.acknowledged = []


def reopen(scene: Scene, log: CommitLog) -> None:
    open_log(str(scene.path), None, OPTIONS)


def die(link: Link, path: str) -> None:
    """Leave a log that was not closed, a temporary file, and segments after its end."""
    log, _ = open_log(path, None, OPTIONS | {"allocate_ahead": 1})
    log.append_many([VALUE] * TO_ROLL)
    os._exit(0)


def tear(scene: Scene, log: CommitLog) -> None:
    """Let the log end in torn bytes of a dead process, as after a restart of the machine."""
    end = log.tail_position
    close_log(log, None)
    child = Child(die, str(scene.path))
    child.wait()
    child.end()
    image.forget_boot(scene.path)
    image.poke(image.segment_path(scene.path, end), end % SEGMENT_SIZE, bytes(8))
    (scene.path / f".{0:020d}.seg.{0:016x}.tmp").touch()


def join_staged(scene: Scene, log: CommitLog) -> None:
    join(scene.path, stage(scene.path / ".staged", batch_of(numbered(900))))


def join_prepared(scene: Scene, log: CommitLog) -> None:
    """Arm the faults after the staging, so that the join itself fails."""
    faults = scene.heal()
    staged = stage(scene.path / ".staged", batch_of(numbered(900)))
    scene.arm(*faults)
    join(scene.path, staged)
