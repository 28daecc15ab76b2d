"""Logs that cannot be written: read-only directories, missing permissions, network file systems,
full disks.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import Options, Retention
from commitlog.base import file_system
from commitlog.errors import (
    CommitLogError,
    DiskFullError,
    IOFailureError,
    PoolExhaustedError,
    ReadOnlyError,
    UnsupportedError,
)
from commitlog.keep import prune
from commitlog.repair.repair import repair
from tests.setups import Logs

OTHER_USER = 65534


@pytest.fixture
def forbidden() -> Iterator[Path]:
    """A directory that another user may enter and read, but not write."""
    path = Path(tempfile.mkdtemp(prefix="commitlog-test-"))
    yield path
    for folder in (path, *path.rglob("*")):
        with contextlib.suppress(OSError):
            folder.chmod(0o755)
    shutil.rmtree(path)


@pytest.fixture
def powerless(in_child: Callable[..., Any]) -> Callable[[Callable[[], Any]], Any]:
    """Run a function in a child that is subject to permissions: a child of root drops its
    privileges.
    """

    def run(function: Callable[[], Any]) -> Any:
        def act() -> Any:
            if os.geteuid() == 0:
                os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
                os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
            return function()

        return in_child(act)

    return run


def test_read_only_directory_is_readable_and_not_writable(
    forbidden: Path, powerless: Callable[..., Any]
) -> None:
    logs = Logs(forbidden)
    log = logs.open(allocate_ahead=0, flush_interval="1h")
    log.append_many([b"one", b"two"])
    log.flush()
    # A reader that waits for it cannot request a flush.
    log.append(b"not durable")
    for path in (forbidden / "log", forbidden):
        path.chmod(0o555)
    for file in (forbidden / "log").iterdir():
        file.chmod(0o444)

    def use() -> list[bytes]:
        for path, mode in (
            (forbidden / "log", "a"),
            (forbidden / "log", "x"),
            (forbidden / "new", "a"),
        ):
            with pytest.raises(ReadOnlyError) as caught:
                commitlog.open(path, mode, Options())
            assert isinstance(caught.value, PermissionError)
        with commitlog.open(forbidden / "log", "r", Options()) as reader:
            tailer = reader.tailer(visibility="flushed")
            found = list(tailer.values())
            assert tailer.read(timeout=0.01, idle="block") is None
            return found

    before = sorted(path.name for path in (forbidden / "log").iterdir())
    assert powerless(use) == [b"one", b"two"]
    assert sorted(path.name for path in (forbidden / "log").iterdir()) == before
    log.append(b"three")
    logs.close()


@pytest.mark.parametrize(
    "closed_to_all", ["", "log.json", "cursors", f"{0:020d}.seg", "lock", "checkpoint"]
)
def test_file_without_permission_raises_for_the_writer(
    forbidden: Path, powerless: Callable[..., Any], closed_to_all: str
) -> None:
    with Logs(forbidden).open() as log:
        log.append(b"x")
    forbidden.chmod(0o755)
    for path in (forbidden / "log", *(forbidden / "log").iterdir()):
        path.chmod(0o777)
    (forbidden / "log" / closed_to_all).chmod(0o000)

    def use() -> tuple[str, str]:
        outcomes = []
        for mode in ("a", "r"):
            try:
                with commitlog.open(forbidden / "log", mode, Options()) as log:
                    outcomes.append(repr(list(log.tailer().values())))
            except CommitLogError as error:
                outcomes.append(type(error).__name__)
        return outcomes[0], outcomes[1]

    writing, reading = powerless(use)
    assert writing in ("ReadOnlyError", "IOFailureError")
    assert reading in ("ReadOnlyError", "IOFailureError", "[b'x']")


def test_unlistable_tailers_fail_writers_and_the_tailer_list(
    forbidden: Path, powerless: Callable[..., Any]
) -> None:
    with Logs(forbidden).open() as log, log.tailer("mail", required=True):
        log.append(b"x")
    forbidden.chmod(0o755)
    for path in (forbidden / "log", *(forbidden / "log").rglob("*")):
        path.chmod(0o777)
    (forbidden / "log" / "tailers").chmod(0o000)

    def use() -> list[bytes]:
        with pytest.raises(IOFailureError, match="tailers cannot be listed"):
            commitlog.open(forbidden / "log", "a", Options())
        with commitlog.open(forbidden / "log", "r", Options()) as log:
            with pytest.raises(IOFailureError, match="tailers cannot be listed"):
                log.tailers()
            return list(log.tailer().values())

    assert powerless(use) == [b"x"]


def test_dry_run_needs_the_permissions_of_the_run(
    forbidden: Path, powerless: Callable[..., Any]
) -> None:
    log = Logs(forbidden).open()
    log.append(b"x")
    log.roll()
    log.append(b"y")
    log.roll()
    log.close()
    path = forbidden / "log"
    (path / f"{0:020d}.seg").chmod(0o644)
    for folder in (forbidden, path):
        folder.chmod(0o555)

    def use() -> None:
        for dry_run in (True, False):
            with pytest.raises(ReadOnlyError):
                prune(path, Retention(max_bytes=0), dry_run=dry_run)
            with pytest.raises(ReadOnlyError):
                repair(path, dry_run=dry_run)

    powerless(use)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(0x6969, "NFS"), (0x65735546, "FUSE"), (0xFF534D42, "CIFS"), (0x01021997, "9P")],
)
def test_network_and_fuse_file_systems_are_read_only(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, kind: int, name: str
) -> None:
    with logs.open() as log:
        log.append(b"there")
    monkeypatch.setattr(file_system, "file_system_type", lambda path: kind)
    for mode in ("a", "x"):
        with pytest.raises(UnsupportedError, match=name):
            logs.open(mode=mode)
    with pytest.raises(UnsupportedError):
        logs.open("new")
    assert list(logs.open(mode="r").tailer().values()) == [b"there"]


def test_open_on_full_disk_raises(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refuse)
        with pytest.raises(DiskFullError, match="free space"):
            logs.open()
    assert not list((tmp_path / "log").glob("*.tmp"))
    logs.open().append(b"now it goes")


def test_failed_open_releases_all_resources(logs: Logs) -> None:
    pool = logs.pool(buffers=1, on_exhausted="raise")
    # No thread has a segment open meanwhile.
    first = logs.open("first", pool=pool, allocate_ahead=0)
    gc.collect()
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        with pytest.raises(PoolExhaustedError):
            logs.open("second", pool=pool)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    first.close()
    logs.open("second", pool=pool).append(b"x")


CREATE = """
import sys
import commitlog
for name in ("new", "empty", "log"):
    try:
        commitlog.open(sys.argv[1] + "/" + name)
    except commitlog.CommitLogError as error:
        print(name, type(error).__name__, error)
"""


def test_read_only_mount_raises_read_only_error(
    tmp_path: Path, run_python: Callable[..., Any]
) -> None:
    """A real read-only mount in a separate namespace: a new path, an empty directory, and a log."""
    for name in ("empty", "log"):
        (tmp_path / name).mkdir()
    commitlog.open(tmp_path / "log", "a", Options(segment_size=65536)).close()
    unshare = (
        ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    )
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    launcher = (*unshare, "sh", "-c", mount, str(tmp_path))
    if subprocess.run([*launcher, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no mount can be made here")
    done = run_python(CREATE, tmp_path, launcher=launcher)
    said = done.stdout.splitlines()
    assert [line.split()[:2] for line in said] == [
        [name, "ReadOnlyError"] for name in ("new", "empty", "log")
    ], done.stderr
    assert all("Read-only file system" in line for line in said)
