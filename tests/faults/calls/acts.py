"""Acts: what a program does with a log while one of its calls fails, and what was there before."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from commitlog import CommitLog, Retention, Store, replication
from commitlog.keep import archive_segments, prune, restore
from commitlog.stage.joining import join
from tests.faults import image
from tests.faults.calls.scene import Scene, number_of, value_of
from tests.faults.writers import SEGMENT_SIZE
from tests.stage.making import batch_of, stage

TO_ROLL = SEGMENT_SIZE // 900 + 2
SHM: dict[str, Any] = {"backing": "shm"}
_LIMIT_S = 3.0
Do = Callable[[Scene], None]


def nothing(scene: Scene) -> None:
    """There was no log before."""


# --- a log that is opened -------------------------------------------------------------------------


def _use(scene: Scene, log: CommitLog | None) -> None:
    if log is not None:
        scene.append(log, 2, sync=True)
        scene.close(log)


def open_and_use(scene: Scene) -> None:
    with scene.armed():
        _use(scene, scene.open())


def open_again_and_use(scene: Scene) -> None:
    """The program tries again, in the same process, when it could not open the log."""
    with scene.armed():
        log = scene.open()
        if log is None:
            log = scene.open()
    if log is None:
        log = scene.open()
    _use(scene, log)


def leave_open(scene: Scene, pool: dict[str, Any] | None = None) -> None:
    """A process was killed with the log open: with records, a claim and the next segment."""
    reader, writer = os.pipe()

    def write() -> None:
        log = scene.open(pool, allocate_ahead=1)
        assert log is not None
        scene.append(log, 3, sync=True)
        scene.append(log, TO_ROLL)
        log.claim(100)
        kept, durable = scene.kept, scene.durable
        os.write(writer, repr((kept, durable, scene._next)).encode())
        os.kill(os.getpid(), signal.SIGKILL)

    scene.in_child(write)
    os.close(writer)
    with os.fdopen(reader) as said:
        scene.kept, scene.durable, scene._next = eval(said.read())


def leave_open_shm(scene: Scene) -> None:
    leave_open(scene, SHM)


def leave_torn(scene: Scene) -> None:
    """The machine crashed: the log ends in torn bytes, with segments and files behind them."""
    leave_open(scene)
    end = max(scene.durable) + 16 + len(value_of(0)) + 7 & ~7
    image.forget_boot(scene.path)
    image.poke(image.segment_path(scene.path, end), end % SEGMENT_SIZE, bytes(8))
    (scene.path / f".{0:020d}.seg.{0:016x}.tmp").touch()
    scene.kept = dict(scene.durable)


# --- a log that is written ------------------------------------------------------------------------


def _writing(scene: Scene, pool: dict[str, Any] | None, **options: Any) -> CommitLog:
    log = scene.open(pool, **options)
    assert log is not None, scene.raised
    scene.append(log, 2)
    return log


def append_async(scene: Scene) -> None:
    log = _writing(scene, None)
    with scene.armed():
        scene.append(log, 2 * TO_ROLL)
        scene.flush(log)
        scene.append(log, 2)
        scene.flush(log)
    scene.append(log, 1, sync=True)
    scene.close(log)


def append_sync(scene: Scene) -> None:
    log = _writing(scene, None)
    with scene.armed():
        scene.append(log, 4, sync=True)
        scene.append(log, TO_ROLL)
        scene.append(log, 4, sync=True)
    scene.append(log, 1, sync=True)
    scene.close(log)


def _append_pooled(scene: Scene, pool: dict[str, Any]) -> None:
    log = _writing(scene, pool)
    with scene.armed():
        scene.append(log, 20)
        scene.commit(log)
        scene.append(log, TO_ROLL)
        scene.append(log, 2, sync=True)
        scene.flush(log)
    scene.append(log, 1, sync=True)
    scene.close(log)


def append_pooled(scene: Scene) -> None:
    _append_pooled(scene, {})


def append_shm(scene: Scene) -> None:
    _append_pooled(scene, SHM)


def roll(scene: Scene) -> None:
    log = _writing(scene, None)
    with scene.armed():
        for _ in range(3):
            scene.attempt(log.roll)
            scene.append(log, 2, sync=True)
    scene.close(log)


def serve_appends(scene: Scene) -> None:
    """The threads of the log work: they flush, allocate ahead and write checkpoints."""
    options = {"allocate_ahead": 1, "checkpoint_interval": 0.001, "flush_interval": 0.001}
    log = _writing(scene, None, **options | {"flush": "async", "flush_least_pages": 1})
    with scene.armed():
        for _ in range(3):
            scene.append(log, TO_ROLL // 2)
            scene.attempt(lambda: log.flush(_LIMIT_S))
        scene.append(log, 2, sync=True)
    scene.append(log, 1, sync=True)
    scene.close(log)


def close(scene: Scene) -> None:
    log = _writing(scene, None)
    scene.append(log, TO_ROLL)
    with scene.armed():
        scene.close(log)


def close_pooled(scene: Scene) -> None:
    log = _writing(scene, SHM)
    scene.append(log, TO_ROLL)
    with scene.armed():
        scene.close(log)


# --- what is deleted, kept and read ---------------------------------------------------------------


def delete(scene: Scene) -> None:
    log = scene.open()
    assert log is not None, scene.raised
    scene.append(log, 2, sync=True)
    scene.disown(log.tail_position)
    with scene.armed():
        scene.attempt(lambda: log.delete_before(2 * SEGMENT_SIZE))
        scene.append(log, 2, sync=True)
        scene.attempt(lambda: log.prune(Retention(max_bytes=0)))
    scene.append(log, 1, sync=True)
    scene.close(log)


def prune_outside(scene: Scene) -> None:
    scene.disown(1 << 60)
    with scene.armed():
        scene.attempt(lambda: prune(scene.path, Retention(max_bytes=0)))


def use_tailers(scene: Scene) -> None:
    log = _writing(scene, None)
    scene.flush(log)

    def read() -> None:
        with log.tailer(name="reader", required=True) as tailer:
            record = tailer.read()
            assert record is None or number_of(record.value) >= 0

    with scene.armed():
        scene.attempt(read)
        scene.attempt(lambda: log.tailer(name="other").close())
        scene.attempt(lambda: log.delete_tailer("reader"))
        scene.append(log, 1, sync=True)
    scene.close(log)


def read(scene: Scene) -> None:
    """Read a closed log; every record is there, or the reader raises."""
    import commitlog

    def all_of() -> list[int]:
        with commitlog.open(scene.path, "r") as log, log.tailer() as tailer:
            return [number_of(record.value) for record in iter(tailer.read, None)]

    with scene.armed():
        found = scene.attempt(all_of)
    if found is not None and found != sorted(scene.kept.values()):
        scene.broken.append(f"a reader got {len(found)} of {len(scene.kept)} records, unwarned")


# --- stores, copies and stages --------------------------------------------------------------------


def store(scene: Scene) -> None:
    """Rounds of a store, and the last one when the log is closed."""
    with scene.armed():
        log = scene.open(store=Store(scene.store, every=0.01))
        if log is None:
            return
        scene.append(log, 2, sync=True)
        scene.attempt(log.roll)
        scene.append(log, 2, sync=True)
        scene.close(log)


def archive(scene: Scene) -> None:
    scene.disown(1 << 60)
    with scene.armed():
        scene.attempt(lambda: archive_segments(scene.path, Store(scene.folder / "archive")))


def fill_store(scene: Scene) -> None:
    scene.fill()
    log = scene.open(store=Store(scene.store, every=0.01))
    assert log is not None, scene.raised
    scene.append(log, 2, sync=True)
    scene.close(log)


def restore_log(scene: Scene) -> None:
    """Restore twice: the directory holds no log if it could not be restored."""
    target = scene.folder / "restored"
    with scene.armed():
        done = scene.attempt(lambda: restore(scene.store, target))
    if done is None:
        # What could not be removed forever has to be removed by hand.
        shutil.rmtree(target, ignore_errors=True)
        scene.attempt(lambda: restore(scene.store, target))
    if scene.numbers_in(target) != sorted(scene.kept.values()):
        scene.broken.append("a restored log is not the one that was stored")


@contextlib.contextmanager
def _served(scene: Scene, name: str) -> Iterator[str]:
    """Serve a log of the scene's folder from another process."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        scene.leave()
        with replication.serve(scene.folder / name) as server:
            os.write(writer, server.url(name).encode())
            signal.pause()
    os.close(writer)
    try:
        with os.fdopen(reader) as said:
            os.set_blocking(said.fileno(), True)
            yield os.read(said.fileno(), 200).decode()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _follow(scene: Scene, url: str, target: str, end: int) -> bool | None:
    def run() -> bool:
        with replication.follow(url, scene.folder / target, connect_timeout=1) as follower:
            return follower.wait(end, timeout=_LIMIT_S)

    return scene.attempt(run)


def copy_twice(scene: Scene) -> None:
    """A primary, which is killed later, with two copies."""
    scene.path = scene.folder / "primary"
    scene.fill()
    end = max(scene.kept) + 1
    with _served(scene, "primary") as url:
        assert _follow(scene, url, "log", end), scene.raised
        assert _follow(scene, url, "other", end), scene.raised
    scene.path = scene.folder / "log"


def follow(scene: Scene) -> None:
    """Follow; then again, without faults, until the copy has everything."""
    end = max(scene.kept) + 1
    with _served(scene, "log") as url:
        with scene.armed():
            _follow(scene, url, "copy", end)
        if not _follow(scene, url, "copy", end):
            scene.broken.append("a copy does not catch up when the faults have ended")
    if scene.numbers_in(scene.folder / "copy") != sorted(scene.kept.values()):
        scene.broken.append("a copy is not its primary")


def promote(scene: Scene) -> None:
    with _served(scene, "other") as url:

        def run() -> object:
            return replication.promote(scene.path, others=[url], require=1, timeout=1)

        with scene.armed():
            done = scene.attempt(run)
        if done is None:
            scene.attempt(run)
    _use(scene, scene.open())


def promote_in_store(scene: Scene) -> None:
    def run() -> object:
        return replication.promote(scene.path, store=Store(scene.store))

    with scene.armed():
        done = scene.attempt(run)
    if done is None:
        scene.attempt(run)
    _use(scene, scene.open())


def join_staged(scene: Scene) -> None:
    values = [value_of(number) for number in range(1000, 1090)]

    def run() -> None:
        join(scene.path, stage(scene.folder / "log" / ".staged", batch_of(values)))

    with scene.armed():
        scene.attempt(run)
    log = scene.open()
    assert log is not None, scene.raised
    scene.close(log)


class Act(NamedTuple):
    """What was there before, and what a program does."""

    before: Do
    do: Do


def _filled(scene: Scene) -> None:
    scene.fill()


ACTS: dict[str, Act] = {
    "create": Act(nothing, open_and_use),
    "create again": Act(nothing, open_again_and_use),
    "open": Act(_filled, open_and_use),
    "open again": Act(_filled, open_again_and_use),
    "recover": Act(leave_open, open_and_use),
    "recover again": Act(leave_open, open_again_and_use),
    "recover shm": Act(leave_open_shm, open_again_and_use),
    "recover torn": Act(leave_torn, open_again_and_use),
    "append async": Act(nothing, append_async),
    "append sync": Act(nothing, append_sync),
    "append pooled": Act(nothing, append_pooled),
    "append shm": Act(nothing, append_shm),
    "roll": Act(nothing, roll),
    "services": Act(nothing, serve_appends),
    "close": Act(nothing, close),
    "close pooled": Act(nothing, close_pooled),
    "delete": Act(_filled, delete),
    "prune": Act(_filled, prune_outside),
    "tailers": Act(nothing, use_tailers),
    "read": Act(_filled, read),
    "store": Act(_filled, store),
    "archive": Act(_filled, archive),
    "restore": Act(fill_store, restore_log),
    "follow": Act(_filled, follow),
    "promote": Act(copy_twice, promote),
    "promote in store": Act(fill_store, promote_in_store),
    "join": Act(_filled, join_staged),
}
