"""`commitlog list`: the logs below a folder."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from tests.cli.program import SEGMENT, run

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
