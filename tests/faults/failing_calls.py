"""Cases of failing system calls on the durability path: what provokes each call, and what a failure
does to the log.

The cases are the rows of the table in docs/durability.md. A worker process under the shim runs them
one after the other.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import commitlog
from commitlog import CommitLog, Retention, Store
from commitlog.errors import CommitLogError, DiskFullError, IOFailureError, LogFailedError
from commitlog.keep import archive_segments, prune
from commitlog.log.parts import parts_of
from commitlog.segment.blocks import FIRST_BYTES
from commitlog.stage.joining import join
from tests.faults import image, shim
from tests.faults.child import Child, Link
from tests.faults.writers import SEGMENT_SIZE, close_log, open_log
from tests.setups import tuned
from tests.stage.making import batch_of, numbered, stage

OPTIONS: dict[str, Any] = {
    "flush": "none",
    "checkpoint_interval": 60,
    "allocate_ahead": 0,
    "prefault": False,
    "commit_interval": 60,
    "commit_thorough_interval": 60,
}
VALUE = b"v" * 1000
TO_ROLL = SEGMENT_SIZE // len(VALUE) + 2  # records that do not fit one segment
GROWING = 8 << 20  # a segment that begins with fewer blocks
LIMIT_S = 20.0
SUCCEEDED, REFUSED = "S", "N"
# The effect of a failure.
FAILS, RAISES, IGNORED = "fails the log", "raises", "nothing"


class Fault(NamedTuple):
    """A failing call; see `Shim.fail`."""

    call: str
    name: str = ""
    cause: int = errno.EIO
    after: int = 0


class Scene:
    """A log, its acknowledged positions, and the shim of this process."""

    def __init__(self, path: Path, state: mmap.mmap) -> None:
        self.path = path
        self.acknowledged: list[int] = []
        self._state = state
        self._armed: list[tuple[Fault, int]] = []

    def arm(self, *faults: Fault) -> None:
        for fault in faults:
            self._armed.append((fault, shim.failures(self._state, fault.call)))
            shim.fail(self._state, fault.call, fault.cause, name=fault.name, after=fault.after)

    def heal(self) -> list[Fault]:
        """Let all calls succeed again; return the faults that were armed."""
        faults = [fault for fault, _ in self._armed]
        for fault in faults:
            shim.fail(self._state, fault.call, 0)
        return faults

    def check_met(self) -> None:
        """Check that each fault has occurred."""
        for fault, before in self._armed:
            assert shim.failures(self._state, fault.call) > before, (
                f"{fault.call} was not called on {fault.name!r}"
            )

    def append(self, log: CommitLog, count: int = 1) -> None:
        self.acknowledged += log.append_many([VALUE] * count, sync=True).tolist()


# An act provokes the calls. `log` is open in the cases of an open log, and closed otherwise.
Act = Callable[[Scene, CommitLog], object]


class Case(NamedTuple):
    """A row of the table.

    Attributes
    ----------
    call, where : str
        The first two cells of the row.
    effect : str
        The effect of a failure.
    faults : tuple of Fault
        The calls that fail.
    act : callable
        Provokes the calls.
    before : callable, optional
        Runs before the calls fail.
    closed : bool
        Whether `act` starts with the log closed, cleanly or not, as `before` left it.
    error : type
        The error that `act` raises.
    """

    call: str
    where: str
    effect: str
    faults: tuple[Fault, ...]
    act: Act
    before: Act | None = None
    closed: bool = False
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    pool: dict[str, Any] | None = None
    error: type[CommitLogError] = IOFailureError

    @property
    def name(self) -> str:
        return f"{self.call}, {self.where}, {errno.errorcode[self.faults[0].cause]}"


def run(case: Case, scene: Scene) -> None:
    """Let the calls fail during the act, then check what is acknowledged afterwards by this handle,
    by another process and by the next open.
    """
    log, made = open_log(str(scene.path), case.pool, OPTIONS | case.options)
    scene.append(log, 3)
    if case.before is not None:
        case.before(scene, log)
    if case.closed:
        close_log(log, made)
    scene.arm(*case.faults)
    try:
        error = _error_of(lambda: case.act(scene, log))
    finally:
        scene.heal()
    scene.check_met()
    _check_error(case, error)
    if not log.closed:
        (_check_failed if case.effect == FAILS else _check_going_on)(
            scene, log, beside=case.pool is None
        )
        if made is not None:
            made.close()
    _check_reopened(scene, case.options.get("segment_size", SEGMENT_SIZE))


def _error_of(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - a bare OSError fails the case
        return error
    return None


def _check_error(case: Case, error: BaseException | None) -> None:
    expected = {FAILS: LogFailedError, RAISES: case.error, IGNORED: type(None)}[case.effect]
    assert type(error) is expected, f"{error!r}"
    assert error is None or (isinstance(error, OSError) and error.errno == case.faults[0].cause)


def _check_failed(scene: Scene, log: CommitLog, *, beside: bool) -> None:
    """Check that nothing is acknowledged any more, although every call would succeed."""
    assert log.stats().failed is not None
    attempts: list[Callable[[], object]] = [
        lambda: log.append(VALUE),
        lambda: log.append(VALUE, sync=True),
        lambda: log.append_many([VALUE] * 3),
        lambda: log.claim(10),
        log.commit,
        log.flush,
    ]
    for attempt in [*attempts, *attempts]:
        with pytest.raises(LogFailedError):
            attempt()
    if beside:
        assert beside_outcome(scene.path) == REFUSED
    with pytest.raises(LogFailedError):
        log.close()
    assert log.closed


def _check_going_on(scene: Scene, log: CommitLog, *, beside: bool) -> None:
    assert log.stats().failed is None
    scene.append(log, TO_ROLL)
    if beside:
        assert beside_outcome(scene.path) == SUCCEEDED
    log.close()


def beside_outcome(path: Path) -> str:
    """Return the outcome of a synced append by another process."""
    child = Child(append_beside, str(path))
    kind = child.hear(1)[0].kind
    child.wait()
    child.end()
    return kind


def append_beside(link: Link, path: str) -> None:
    try:
        with commitlog.open(path, **tuned(OPTIONS)) as log:
            log.append(VALUE, sync=True)
    except LogFailedError:
        link.say(REFUSED)
    else:
        link.say(SUCCEEDED)


def _check_reopened(scene: Scene, segment_size: int) -> None:
    """Check that the next open finds every acknowledged record and appends."""
    log, _ = open_log(str(scene.path), None, OPTIONS | {"segment_size": segment_size})
    assert log.stats().failed is None
    scene.append(log, TO_ROLL)
    found = {record.position for record in log.tailer()}
    assert found.issuperset(scene.acknowledged)
    log.close()
    assert not image.temporaries(scene.path)


# --- acts -----------------------------------------------------------------------------------------


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


def _all_causes(
    call: str, fault: str, name: str, where: str, act: Act = roll, **options: Any
) -> list[Case]:
    """Return a case for each errno with which creating or growing a file can fail; a full disk
    raises its own error.
    """
    causes = [
        (errno.EIO, IOFailureError),
        (errno.ENOSPC, DiskFullError),
        (errno.EDQUOT, DiskFullError),
    ]
    return [
        Case(call, where, RAISES, (Fault(fault, name, cause),), act, error=error, options=options)
        for cause, error in causes
    ]


SEGMENT, INDEX = ".seg", ".idx"
SHM = {"backing": "shm"}
CASES = [
    # Growing.
    *_all_causes(
        "fallocate",
        "fallocate",
        SEGMENT,
        "more blocks of the first segment",
        grow,
        segment_size=GROWING,
    ),
    # Rolling.
    *_all_causes("fallocate", "fallocate", SEGMENT, "a new segment's blocks"),
    *_all_causes("ftruncate", "ftruncate", SEGMENT, "a log's first segment", create_another),
    *_all_causes("pwrite", "pwrite", SEGMENT, "a new segment's header"),
    *_all_causes("fsync", "fsync file", SEGMENT, "a new segment's file"),
    *_all_causes("rename", "rename", SEGMENT, "a new segment into its place"),
    Case(
        "unlink",
        "a segment that could not be made",
        RAISES,
        (Fault("rename", SEGMENT), Fault("unlink", ".tmp")),
        roll,
    ),
    Case("fsync", "the directory with a new segment", FAILS, (Fault("fsync directory"),), roll),
    Case(
        "fsync",
        "the directory with a new segment",
        FAILS,
        (Fault("fsync directory", cause=errno.ENOSPC),),
        roll,
    ),
    Case(
        "fsync",
        "the directory, with another process's segment",
        FAILS,
        (Fault("fsync directory"),),
        roll,
        make_next_segment,
    ),
    Case(
        "fsync",
        "the directory, ahead of need",
        FAILS,
        (Fault("fsync directory"),),
        append_until_refused,
        roll,
        options={"allocate_ahead": 1},
    ),
    Case(
        "pwrite",
        "the `lock` file: a shared-memory buffer's name",
        RAISES,
        (Fault("pwrite", "lock"),),
        roll,
        pool=SHM,
    ),
    # Committing and flushing.
    Case("pwrite", "a commit", FAILS, (Fault("pwrite", SEGMENT),), commit, pool={}),
    Case("msync", "a flush", FAILS, (Fault("msync"),), append_durably),
    Case(
        "pwrite",
        "the checkpoint, in a flush",
        FAILS,
        (Fault("pwrite", "checkpoint"),),
        append_durably_until_refused,
        options={"checkpoint_interval": 0.001},
    ),
    Case(
        "fdatasync",
        "the checkpoint of an idle log",
        FAILS,
        (Fault("fdatasync", "checkpoint"),),
        idle_until_failed,
        options={"checkpoint_interval": 0.001},
    ),
    # Sealing.
    Case(
        "rename",
        "a segment's index into its place",
        IGNORED,
        (Fault("rename", INDEX),),
        roll_and_seal,
    ),
    # Closing.
    Case(
        "msync",
        "the flush of `close()`",
        FAILS,
        (Fault("msync"),),
        close,
        lambda scene, log: log.append(VALUE),
    ),
    Case("pwrite", "the clean mark", RAISES, (Fault("pwrite", "checkpoint"),), close),
    Case("fdatasync", "the clean mark", RAISES, (Fault("fdatasync", "checkpoint"),), close),
    # Deleting.
    Case(
        "unlink",
        "a segment that is deleted",
        RAISES,
        (Fault("unlink", SEGMENT),),
        delete_segments,
        fill_and_disown,
    ),
    Case(
        "fdatasync",
        "the checkpoint, before a segment is deleted",
        FAILS,
        (Fault("fdatasync", "checkpoint"),),
        delete_segments,
        fill_and_disown,
    ),
    Case(
        "msync",
        "the seal behind a deleted segment",
        FAILS,
        (Fault("msync"),),
        delete_segments,
        fill_and_disown,
    ),
    Case(
        "fsync",
        "the directory without a deleted segment",
        FAILS,
        (Fault("fsync directory"),),
        delete_segments,
        fill_and_disown,
    ),
    # Named tailers.
    Case("fallocate", "a tailer's file", RAISES, (Fault("fallocate", "reader"),), name_tailer),
    Case("pwrite", "a tailer's file", RAISES, (Fault("pwrite", "reader"),), name_tailer),
    Case("fsync", "a tailer's file", RAISES, (Fault("fsync file", "reader"),), name_tailer),
    Case(
        "rename",
        "a tailer's file into its place",
        RAISES,
        (Fault("rename", "reader"),),
        name_tailer,
    ),
    Case(
        "fsync", "the folder `tailers`", RAISES, (Fault("fsync directory", "tailers"),), name_tailer
    ),
    Case("msync", "a tailer's terms", RAISES, (Fault("msync"),), require_tailer),
    Case(
        "unlink",
        "a tailer that is deleted",
        RAISES,
        (Fault("unlink", "reader"),),
        delete_tailer,
        name_tailer,
    ),
]
CLOSED_CASES = [
    # Opening.
    Case(
        "fsync",
        "the directory above a new log",
        RAISES,
        (Fault("fsync directory"),),
        reopen,
        remove,
    ),
    Case("fsync", "`log.json`", RAISES, (Fault("fsync file", "log.json"),), reopen, remove),
    Case(
        "rename",
        "`log.json` into its place",
        RAISES,
        (Fault("rename", "log.json"),),
        reopen,
        remove,
    ),
    Case(
        "fsync",
        "the directory with `log.json`",
        RAISES,
        (Fault("fsync directory", after=1),),
        reopen,
        remove,
    ),
    Case("fallocate", "`cursors`", RAISES, (Fault("fallocate", "cursors"),), reopen, remove),
    Case("fallocate", "`checkpoint`", RAISES, (Fault("fallocate", "checkpoint"),), reopen, remove),
    Case("fsync", "`checkpoint`", RAISES, (Fault("fsync file", "checkpoint"),), reopen, remove),
    Case(
        "pwrite", "the clean mark is taken away", RAISES, (Fault("pwrite", "checkpoint"),), reopen
    ),
    Case(
        "fdatasync",
        "the clean mark is taken away",
        RAISES,
        (Fault("fdatasync", "checkpoint"),),
        reopen,
    ),
    Case(
        "fallocate",
        "the blocks of the segment in use",
        RAISES,
        (Fault("fallocate", SEGMENT),),
        reopen,
    ),
    # Recovering.
    Case(
        "unlink",
        "what a killed process left half made",
        RAISES,
        (Fault("unlink", ".tmp"),),
        reopen,
        tear,
    ),
    Case("pwrite", "a copy of what is cut", RAISES, (Fault("pwrite", ".tmp"),), reopen, tear),
    Case("fsync", "a copy of what is cut", RAISES, (Fault("fsync file", ".tmp"),), reopen, tear),
    Case("rename", "a copy of what is cut", RAISES, (Fault("rename", ".cut"),), reopen, tear),
    Case(
        "unlink",
        "a segment behind the end",
        RAISES,
        (Fault("unlink", SEGMENT, after=1),),
        reopen,
        tear,
    ),
    Case("pwrite", "zeros behind the end", RAISES, (Fault("pwrite", "log/0"),), reopen, tear),
    Case("fsync", "zeros behind the end", RAISES, (Fault("fsync file", "log/0"),), reopen, tear),
    Case("msync", "what is kept", RAISES, (Fault("msync"),), reopen, tear),
    Case(
        "fsync", "the directory after a recovery", RAISES, (Fault("fsync directory"),), reopen, tear
    ),
    # Deleting and archiving beside the writers.
    Case(
        "fsync",
        "the seal behind a deleted segment, by `prune`",
        RAISES,
        (Fault("fsync file", SEGMENT),),
        prune_outside,
        fill_and_disown,
    ),
    Case(
        "unlink",
        "a segment that is deleted, by `prune`",
        RAISES,
        (Fault("unlink", SEGMENT),),
        prune_outside,
        fill_and_disown,
    ),
    Case(
        "fsync",
        "the directory without a deleted segment, by `prune`",
        RAISES,
        (Fault("fsync directory"),),
        prune_outside,
        fill_and_disown,
    ),
    Case("fsync", "an archived segment", RAISES, (Fault("fsync file", ".zst"),), archive, fill),
    Case(
        "rename",
        "an archived segment into its place",
        RAISES,
        (Fault("rename", ".zst"),),
        archive,
        fill,
    ),
    Case(
        "fsync",
        "the archive's folder",
        RAISES,
        (Fault("fsync directory", "archive", after=1),),
        archive,
        fill,
    ),
    # Staging and joining.
    Case("ftruncate", "a staged segment", RAISES, (Fault("ftruncate"),), join_staged),
    Case("pwrite", "a staged segment", RAISES, (Fault("pwrite", ".staged"),), join_staged),
    Case("fsync", "a staged segment", RAISES, (Fault("fsync file", ".staged"),), join_staged),
    Case("rename", "a staged segment", RAISES, (Fault("rename", ".staged"),), join_staged),
    Case(
        "fsync",
        "the folder of staged segments",
        RAISES,
        (Fault("fsync directory", ".staged"),),
        join_staged,
    ),
    Case("fsync", "a join's note", RAISES, (Fault("fsync file", "joining"),), join_prepared),
    Case(
        "rename",
        "a join's note into its place",
        RAISES,
        (Fault("rename", "joining"),),
        join_prepared,
    ),
    Case(
        "rename",
        "a joined segment into its place",
        RAISES,
        (Fault("rename", ".staged"),),
        join_prepared,
    ),
    Case("msync", "the end of the segment before a join", RAISES, (Fault("msync"),), join_prepared),
    Case(
        "pwrite",
        "the checkpoint, in a join",
        RAISES,
        (Fault("pwrite", "checkpoint", after=1),),
        join_prepared,
    ),
    Case(
        "fdatasync",
        "the checkpoint, in a join",
        RAISES,
        (Fault("fdatasync", "checkpoint", after=1),),
        join_prepared,
    ),
    Case("unlink", "a join's note", RAISES, (Fault("unlink", "joining"),), join_prepared),
]
CASES += [case._replace(closed=True) for case in CLOSED_CASES]
BY_NAME = {case.name: case for case in CASES}


# --- the worker -----------------------------------------------------------------------------------


def serve(link: Link, directory: str) -> None:
    """Run the case named by the file `wanted` each time the parent asks for it, and write its
    traceback to `outcome`.
    """
    state = shim.own_state()
    number = 0
    while True:
        link.wait()
        number += 1
        wanted, outcome = Path(directory, "wanted"), Path(directory, "outcome")
        path = Path(directory, str(number), "log")
        path.parent.mkdir()
        try:
            run(BY_NAME[wanted.read_text()], Scene(path, state))
        except BaseException:  # noqa: BLE001 - the parent raises it
            outcome.write_text(traceback.format_exc())
        else:
            outcome.write_text("")
        link.say("D")
