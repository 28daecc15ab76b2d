"""Queues whose leases are lost, whose log was cut, or that were copied; kills at each step."""

from __future__ import annotations

import os
import random
import shutil
import traceback
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import DiskFullError, IOFailureError
from commitlog.queues import Queue
from tests.steps import die_at, replace_hook

QUEUE = "jobs"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def fill(path: Path, *numbers: int) -> None:
    with commitlog.open(path, segment_size="64KiB") as log:
        log.append_many([b"%d" % number for number in numbers])


def rest(path: Path) -> list[int]:
    """Take and accept what is left."""
    with commitlog.queue(path, QUEUE) as queue:
        return [int(job.value) for job in queue.taking(batch=10, timeout=0)]


def accept(path: Path, count: int) -> None:
    with commitlog.queue(path, QUEUE) as queue:
        queue.accept(queue.take_many(count, 0))


def test_copied_directory_goes_on_where_it_was(path: Path, tmp_path: Path) -> None:
    fill(path, *range(100))
    accept(path, 40)
    shutil.copytree(path, tmp_path / "copy")
    assert rest(path) == list(range(40, 100))
    assert rest(tmp_path / "copy") == list(range(40, 100))


def test_state_that_is_newer_than_its_log_loses_no_job(path: Path, tmp_path: Path) -> None:
    """The log of a backup has fewer records than its state knows; others are appended then."""
    fill(path, *range(50))
    accept(path, 30)
    shutil.copytree(path, tmp_path / "old")
    fill(path, *range(50, 100))
    accept(path, 60)
    queues = tmp_path / "old" / "queues"
    shutil.rmtree(queues)
    shutil.copytree(path / "queues", queues)
    fill(tmp_path / "old", *range(1000, 1100))
    left = rest(tmp_path / "old")
    # What was accepted before the backup need not come again, and nothing that it lacks is missed.
    assert set(left) >= {*range(1000, 1100)}
    assert left == sorted(left)
    assert rest(tmp_path / "old") == []


def test_lost_end_of_the_log_voids_its_acceptances(path: Path, tmp_path: Path) -> None:
    """As a power cut: the state is on the disk, and the last records of the log are not."""
    fill(path, *range(10))
    accept(path, 5)
    shutil.copytree(path, tmp_path / "cut")
    fill(path, *range(10, 20))
    accept(path, 5)  # 5 to 9
    accept(path, 5)  # 10 to 14, which the cut log does not have
    shutil.rmtree(tmp_path / "cut" / "queues")
    shutil.copytree(path / "queues", tmp_path / "cut" / "queues")
    fill(tmp_path / "cut", *range(100, 120))
    assert rest(tmp_path / "cut") == [*range(100, 120)]


def test_new_queue_notes_no_first_attempt(path: Path) -> None:
    """Nothing of it was handed out before, so no job is suspected, and no hand-out waits."""
    fill(path, *range(30))
    with commitlog.queue(path, QUEUE) as queue:
        before = queue._parts.state.end
        jobs = queue.take_many(30, 0)
        assert queue._parts.state.end == before
        assert [job.flags for job in jobs] == [0] * 30


def test_state_is_compacted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("commitlog.queues.state_log._COMPACT_BYTES", 2000)
    monkeypatch.setattr("commitlog.queues.upkeep._EVERY_NS", 0)
    fill(path, *range(150))
    with commitlog.queue(path, QUEUE, lease="1h") as queue:
        held = queue.take_many(3, 0)
        held[1].release("1h", reason="later")
        for job in queue.taking(timeout=0):
            assert int(job.value) > 2
        assert queue._parts.table.base > 10_000
    (path / "queues" / QUEUE / "leases").unlink()
    with commitlog.queue(path, QUEUE) as queue:
        assert [int(job.value) for job in queue.taking(timeout=0)] == [0, 2]
        stats = queue.stats()
        assert (stats.waiting, stats.depth) == (1, 1)


def test_retention_keeps_what_is_not_finished(path: Path) -> None:
    fill(path, *range(10_000))
    with commitlog.open(path) as log:
        with commitlog.queue(log, QUEUE):
            pass
        assert log.delete_before(log.tail_position) == []
        with commitlog.queue(log, QUEUE) as queue:
            queue.accept(queue.take_many(4000, 0))
        assert log.delete_before(log.tail_position) != []
        with commitlog.queue(log, QUEUE) as queue:
            assert int(queue.take(0).value) == 4000


def test_full_disk_at_accept_keeps_the_job(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(path, 1)
    with commitlog.queue(path, QUEUE) as queue:
        job = queue.take(0)

        class Full:
            tail_position = queue._finishing._state.tail_position

            def append(self, *_: object, **__: object) -> None:
                raise DiskFullError("no room", path=str(path))

        state = queue._finishing._state
        queue._finishing._state = Full()  # type: ignore[assignment]
        with pytest.raises(DiskFullError):
            job.accept()
        queue._finishing._state = state
        job.accept()
    assert rest(path) == []


# --- kills at each step ---------------------------------------------------------------------------


def work(queue: Queue) -> None:
    """Do all that changes the state of a queue, once."""
    queue.take(0).accept()
    queue.take(0).release(0, reason="again")
    queue.take(0).accept()
    queue.take(0).reject("no")
    queue.requeue()
    queue.take(0).accept()
    queue.change(lease="10s")


def run_killed(path: Path, step: int) -> bool:
    """Work in a child that is killed at a step; return whether it came so far."""
    pid = os.fork()
    if pid == 0:
        try:
            replace_hook(die_at(step))
            with commitlog.queue(path, QUEUE, backoff=0, sync=True) as queue:
                work(queue)
            os._exit(0)
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -9)
    return status == -9


@pytest.mark.parametrize(
    ("lose_leases", "stride"),
    [(True, 7), *(pytest.param(each, 1, marks=pytest.mark.long) for each in (False, True))],
)
def test_kill_at_a_step_loses_no_job(tmp_path: Path, *, lose_leases: bool, stride: int) -> None:
    step = 4 - stride
    is_killed = True
    while is_killed:
        step += stride
        path = tmp_path / f"log{step}"
        fill(path, *range(6))
        is_killed = run_killed(path, step)
        if lose_leases:
            (path / "queues" / QUEUE / "leases").unlink(missing_ok=True)
        with commitlog.queue(path, QUEUE) as queue:
            left = [int(job.value) for job in queue.taking(timeout=0)]
            dead = [int(letter.value or b"") for letter in queue.dead()]
            assert queue.stats().depth == 0
        assert len(dead) <= 1
        assert set(left) >= {3, 4, 5} - set(dead), f"step {step}"
        assert len(left) == len(set(left))
        assert not set(left) & set(dead)
        shutil.rmtree(path)
    assert step > 15


def restore_but(path: Path, backup: Path, kept: Path) -> None:
    """Restore a backup in place, except one file, which keeps its inode and its content."""
    content = kept.read_bytes()
    for file in [each for each in path.rglob("*") if each.is_file() and each != kept]:
        file.unlink()
    shutil.copytree(backup, path, dirs_exist_ok=True)
    with kept.open("r+b") as leases:
        leases.write(content)


@pytest.mark.parametrize("more", [0, 100])
def test_backup_below_newer_leases_loses_no_job(path: Path, tmp_path: Path, more: int) -> None:
    fill(path, *range(50))
    accept(path, 30)
    shutil.copytree(path, tmp_path / "backup")
    if more:
        fill(path, *range(50, 50 + more))
    assert rest(path) == [*range(30, 50), *range(50, 50 + more)]
    restore_but(path, tmp_path / "backup", path / "queues" / QUEUE / "leases")
    fill(path, *range(1000, 1010))
    assert rest(path) == [*range(30, 50), *range(1000, 1010)]


# --- leases that are overwritten while they are mapped --------------------------------------------


def overwrite(path: Path, content: bytes) -> None:
    with (path / "queues" / QUEUE / "leases").open("r+b") as leases:
        leases.write(content)


@pytest.mark.parametrize("what", ["backup", "zeros", "noise"])
def test_overwritten_leases_are_one_error(path: Path, what: str) -> None:
    fill(path, *range(60))
    leases = path / "queues" / QUEUE / "leases"
    first, second = commitlog.queue(path, QUEUE), commitlog.queue(path, QUEUE)
    first.accept(first.take_many(10, 0))
    backup = leases.read_bytes()
    held = first.take_many(10, 0)
    first.accept(held[:5])
    second.accept(second.take_many(10, 0))
    noise = random.Random(1).randbytes(len(backup))
    overwrite(path, {"backup": backup, "zeros": bytes(len(backup)), "noise": noise}[what])
    for call in (lambda: first.accept(held[5:]), lambda: second.take(0), lambda: first.take(0)):
        with pytest.raises(IOFailureError, match="`leases` was overwritten"):
            call()
    first.close()
    second.close()
    # What was accepted before is done, and nothing else.
    assert rest(path) == [*range(15, 20), *range(30, 60)]


def test_base_is_not_written_of_overwritten_leases(path: Path) -> None:
    """The last worker, which is closed, would note all of its table."""
    fill(path, *range(20))
    queue = commitlog.queue(path, QUEUE)
    queue.accept(queue.take_many(5, 0))
    backup = (path / "queues" / QUEUE / "leases").read_bytes()
    queue.accept(queue.take_many(5, 0))
    overwrite(path, backup)
    queue.close()
    assert rest(path) == [*range(10, 20)]
