"""`commitlog restore`: whole, up to a position, and refusals in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import commitlog
from tests.tools.cli.program import SEGMENT, run

pytest.importorskip("zstandard")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    store = commitlog.Store(tmp_path / "store")
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT, store=store) as log:
        log.append_many([b"one", b"two", b"three"])
    return tmp_path / "store"


def test_restored_log_is_read_by_other_commands(place: Path, tmp_path: Path) -> None:
    done = run("restore", place, tmp_path / "again")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().startswith(f"{tmp_path / 'again'}: restored 1 segment, ")
    assert run("cat", tmp_path / "again").stdout == b"one\ntwo\nthree\n"
    assert run("verify", place).stdout.decode().splitlines()[-1] == "sound"


def test_restore_up_to_a_position_or_time(place: Path, tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", "r") as log:
        last = [record.position for record in log.tailer()][-1]
    done = run("restore", "--json", "--until", hex(last), place, tmp_path / "again")
    assert json.loads(done.stdout)["end_position"] == last
    assert run("cat", tmp_path / "again").stdout == b"one\ntwo\n"
    assert run("restore", "--until", "now", place, tmp_path / "now").returncode == 0
    assert run("cat", tmp_path / "now").stdout == b"one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("given", "status"),
    [((), 1), (("--until", "nonsense"), 2), (("--until", "4097"), 1), (("--until", "@1"), 1)],
    ids=["directory in use", "no time", "no record", "too early"],
)
def test_refusal_changes_nothing(
    place: Path, tmp_path: Path, given: tuple[str, ...], status: int
) -> None:
    there = tmp_path / ("absent" if given else "full")
    if not given:
        there.mkdir()
        (there / "mine").write_bytes(b"mine")
    done = run("restore", *given, place, there)
    assert (done.returncode, done.stdout) == (status, b"")
    assert b"Traceback" not in done.stderr
    assert os.path.exists(there) == (not given)
    assert given or os.listdir(there) == ["mine"]
