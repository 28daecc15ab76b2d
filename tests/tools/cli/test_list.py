"""`commitlog list`: the logs below a folder."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
import commitlog.tools.cli.commands.list  # before a test becomes a user who cannot import it
from tests.tools.cli.program import SEGMENT, run

OTHER_USER = 65534


def test_logs_below_a_folder_are_listed(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "a" / "orders", segment_size=SEGMENT) as log:
        log.append(b"one", timestamp_ns=1_700_000_000_000_000_000)
        log.append(b"two", timestamp_ns=1_700_003_600_000_000_000)
    with commitlog.open(tmp_path / "b", segment_size=SEGMENT):
        done = run("list", tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    heading, first, second = (line.split() for line in done.stdout.decode().splitlines())
    assert heading == ["log", "size", "records", "from", "to", "health"]
    assert first == [
        str(tmp_path / "a" / "orders"),
        *first[1:3],
        "2",
        "2023-11-14T22:13:20Z",
        "2023-11-14T23:13:20Z",
        "closed",
    ]
    assert first[2] == "KiB"
    assert second[3:] == ["0", "-", "-", "open"]


def test_damaged_log_is_listed_with_its_problem(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "good", segment_size=SEGMENT).close()
    commitlog.open(tmp_path / "bad", segment_size=SEGMENT).close()
    (tmp_path / "bad" / "log.json").write_text("{}")
    done = run("list", "--json", tmp_path)
    bad, good = json.loads(done.stdout)["logs"]
    assert (done.returncode, good["problems"], bool(bad["problems"])) == (1, [], True)


def test_folder_without_logs_is_reported(tmp_path: Path) -> None:
    done = run("list", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        b"",
        f"there is no log below {tmp_path}\n".encode(),
    )


def test_unreadable_directory_is_reported_with_status_1(
    tmp_path: Path, in_child: Callable[[Callable[[], Any]], Any]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # pytest's own directories are closed to others
    try:
        folder.chmod(0o755)
        commitlog.open(folder / "closed", segment_size=SEGMENT).close()
        (folder / "closed").chmod(0o700)

        def listed() -> tuple[int, str]:
            run("list", folder, forked=True)
            os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
            done = run("list", folder, forked=True)
            return done.returncode, done.stderr.decode()

        status, printed = in_child(listed)
    finally:
        shutil.rmtree(folder)
    assert (status, printed.splitlines()[-1]) == (
        1,
        f"commitlog: cannot read {folder}/closed: Permission denied",
    )


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may read; pytest's own directories are closed to them."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def _listed_by_another_user(
    folder: Path, in_child: Callable[[Callable[[], Any]], Any]
) -> tuple[int, str]:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")

    def listed() -> tuple[int, str]:
        run("list", folder, forked=True)  # the other user may not be able to import anything
        os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
        done = run("list", folder, forked=True)
        return done.returncode, (done.stdout + done.stderr).decode()

    status, printed = in_child(listed)
    return status, printed


@pytest.mark.parametrize(
    "name", ["log.json", "checkpoint", "cursors", "tailers", f"{0:020d}.seg", "epoch"]
)
def test_unreadable_file_of_one_log_hides_no_other(
    open_folder: Path, in_child: Callable[[Callable[[], Any]], Any], name: str
) -> None:
    for log in "abc":
        with commitlog.open(open_folder / log, segment_size=SEGMENT) as opened:
            opened.append(b"hi")
            opened.tailer("reader").close()
    for path in open_folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    closed = open_folder / "b" / name
    closed.touch()
    closed.chmod(0)
    status, printed = _listed_by_another_user(open_folder, in_child)
    a, b, c = (line for line in printed.splitlines() if line.startswith(f"{open_folder}/"))
    assert (a.split()[0], c.split()[0]) == (f"{open_folder}/a", f"{open_folder}/c")
    assert (a.split()[-1], c.split()[-1]) == ("closed", "closed")
    assert b.startswith(f"{open_folder}/b")
    if name == "log.json":
        assert status == 1
        assert "Permission denied" in b
        assert f"{closed}" in b


def _make_fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    "make",
    [
        _make_fifo,
        lambda path: path.symlink_to("nowhere"),
        lambda path: path.symlink_to("log.json"),
        lambda path: path.write_bytes(b"\xff" * 100),
        lambda path: path.write_bytes(b"[" * 60_000),
        lambda path: path.write_bytes(b"x" * (1 << 17)),
        lambda path: path.write_text('{"format": "9.0"}'),
    ],
    ids=["fifo", "dangling", "loop", "bytes", "nested", "long", "newer"],
)
def test_unusable_identity_of_one_log_hides_no_other(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    for log in "abc":
        commitlog.open(tmp_path / log, segment_size=SEGMENT).close()
    (tmp_path / "b" / "log.json").unlink()
    make(tmp_path / "b" / "log.json")
    done = run("list", "--json", tmp_path)
    a, b, c = json.loads(done.stdout)["logs"]
    assert (done.returncode, a["problems"], c["problems"]) == (1, [], [])
    assert b["problems"]
