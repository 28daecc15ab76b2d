"""`commitlog remove`: deleted files, files left in place, and refusals."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from tests.log_files import LogFiles, numbered
from tests.tools.cli.program import LIMIT_S, SEGMENT, on_terminal, read_rest, read_until, run

Until = Callable[..., None]
OTHER_USER = 65534


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as opened:
        opened.append_many(numbered(5_000))
    return tmp_path / "log"


def test_log_is_deleted_with_its_directory(log: Path) -> None:
    names = {path.name for path in log.iterdir()}
    done = run("remove", "--yes", "--json", log)
    said = json.loads(done.stdout)
    assert (done.returncode, done.stderr, set(said["files"]), said["left"]) == (0, b"", names, [])
    assert said["directory_removed"] is True
    assert not log.exists()


def test_every_file_of_the_log_is_deleted(log: Path) -> None:
    segment = next(log.glob("*.seg")).name
    for name in (
        f"{segment}.cut",
        f"{segment}.cut.1",
        f"{segment}.broken",
        "log.json.broken",
        "sessions",
        "stored",
        segment.replace("seg", "idx"),
    ):
        (log / name).write_bytes(b"")
    (log / f".{segment}.0123456789abcdef.tmp").write_bytes(b"")
    (log / f".{segment}.cut.0123456789abcdef.tmp").write_bytes(b"")
    (log / ".stored.0123456789abcdef.tmp").write_bytes(b"")
    (log / "tailers").mkdir()
    (log / "tailers" / "billing").write_bytes(b"")
    (log / "queues" / "mailer" / "state").mkdir(parents=True)
    (log / "queues" / "mailer" / "leases").write_bytes(b"")
    done = run("remove", "-y", log)
    assert (done.returncode, done.stderr) == (0, b"")
    assert not log.exists()


def test_foreign_files_are_left_and_listed(log: Path) -> None:
    (log / "notes.txt").write_bytes(b"mine")
    (log / "sub").mkdir()
    (log / "sub" / "00000000000000000000.seg").write_bytes(b"mine too")
    done = run("remove", "--yes", log)
    assert done.returncode == 1
    assert b"left: notes.txt" in done.stdout
    assert b"left: sub" in done.stdout
    assert {path.name for path in log.iterdir()} == {"notes.txt", "sub", "lock"}
    assert (log / "sub" / "00000000000000000000.seg").read_bytes() == b"mine too"


@pytest.mark.parametrize("is_pooled", [False, True], ids=["mapped", "pooled"])
def test_held_log_is_refused_naming_its_holder(tmp_path: Path, is_pooled: bool) -> None:
    path = tmp_path / "log"
    with (
        commitlog.TransientStorePool(buffers=1, buffer_size=SEGMENT) as pool,
        commitlog.open(path, segment_size=SEGMENT, pool=pool if is_pooled else None) as log,
    ):
        log.append(b"one")
        log.commit()
        done = run("remove", "--yes", path)
        assert (done.returncode, done.stdout) == (1, b"")
        assert f"is open for writing in process {os.getpid()} (".encode() in done.stderr
        assert _values(path) == [b"one"]
    assert run("remove", "--yes", path).returncode == 0


def _values(path: Path) -> list[bytes]:
    with commitlog.open(path, "r") as log:
        return list(log.tailer().values())


def test_log_with_a_reader_is_deleted_and_stays_readable(log: Path) -> None:
    with commitlog.open(log, "r") as opened:
        tailer = opened.tailer()
        first = tailer.read()
        assert run("remove", "--yes", log).returncode == 0
        assert first is not None
        assert first.value == numbered(1)[0]


def test_shared_memory_of_a_killed_writer_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    pid = os.fork()
    if pid == 0:
        pool = commitlog.TransientStorePool(
            buffers=2, buffer_size=SEGMENT, backing="shm", lock_memory="off", low_water=0
        )
        commitlog.open(path, pool=pool).append(b"one")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    names = json.loads((path / "lock").read_bytes())["pool_names"]
    assert all(Path(f"/dev/shm{name}").exists() for name in names)
    done = run("remove", "--yes", "--json", path)
    assert done.returncode == 0
    assert sorted(json.loads(done.stdout)["buffers"]) == sorted(names)
    assert not any(Path(f"/dev/shm{name}").exists() for name in names)


def test_log_without_identity_is_recognized_by_its_segments(files: LogFiles) -> None:
    files.create(0)
    (files.path / "log.json").unlink()
    assert run("remove", "--yes", files.path).returncode == 0
    assert not files.path.exists()


# --- confirmation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "status"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1), (b"\x03", 130)]
)
def test_confirmation_is_asked_on_a_terminal(log: Path, answer: bytes, status: int) -> None:
    with on_terminal("remove", log) as (process, terminal):
        read_until(terminal, b"[y/N]:")
        os.write(terminal, answer)
        read_rest(terminal)
        assert process.wait(LIMIT_S) == status
    assert log.exists() == (status != 0)
    if status:
        assert len(_values(log)) == 5_000


def test_remove_without_a_terminal_needs_yes(log: Path) -> None:
    done = run("remove", log, feed=b"y\n")
    assert done.returncode == 2
    assert b"standard input is not a terminal to confirm on: add --yes" in done.stderr
    assert len(_values(log)) == 5_000


# --- paths without a log --------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give files away")
@pytest.mark.parametrize("closed", [".", "tailers"])
def test_unwritable_directory_keeps_every_file(
    closed: str, in_child: Callable[[Callable[[], Any]], Any]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "log")
        with commitlog.open(path, segment_size=SEGMENT) as opened:
            opened.append_many(numbered(10))
            opened.tailer("billing").close()
        os.chmod(place, 0o755)
        for part in (path, *path.rglob("*")):
            os.chown(part, OTHER_USER, OTHER_USER)
        before = sorted(path.rglob("*"))
        (path / closed).chmod(0o555)

        def remove() -> tuple[int, bytes]:
            os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
            done = run("remove", "--yes", path, forked=True)
            return done.returncode, done.stderr

        status, said = in_child(remove)
        assert (status, said.startswith(b"commitlog: no permission to delete the files")) == (
            1,
            True,
        )
        assert sorted(path.rglob("*")) == before


def test_path_without_a_log_is_refused_and_unchanged(tmp_path: Path, log: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_bytes(b"mine")
    (tmp_path / "link").symlink_to(log)
    for name, what in (
        ("file", b"this path is a file"),
        (
            "folder",
            b"log.json is missing, and no segment has a valid header: this is not a log",
        ),
        ("link", b"this is a symbolic link: give the log itself"),
        ("link/", b"this is a symbolic link"),
        ("absent", b"there is no log here"),
    ):
        done = run("remove", "--yes", f"{tmp_path}/{name}")
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.startswith(b"commitlog: " + what), done.stderr
    assert (tmp_path / "folder" / "notes.txt").read_bytes() == b"mine"
    assert not (tmp_path / "folder" / "lock").exists()
    assert len(_values(log)) == 5_000
