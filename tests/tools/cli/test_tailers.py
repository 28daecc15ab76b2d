"""`commitlog tailers`: the list of named tailers, and its actions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import commitlog
from commitlog.tail.tailer_folder import FOLDER
from tests.tools.cli.program import SEGMENT, run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A closed log of ten records: `billing` has read three of them, and `audit`, which is
    required, none.
    """
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT) as opened:
        opened.append_many([b"%d" % number for number in range(10)])
        with opened.tailer("billing") as tailer:
            tailer.read_batch(3)
        opened.tailer("audit", required=True, max_lag="1MiB").close()
    return path


def said(*arguments: object) -> list[str]:
    done = run("tailers", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().splitlines()


def positions(log: Path) -> dict[str, int]:
    listed = json.loads("\n".join(said("--json", log)))
    return {tailer["name"]: tailer["position"] for tailer in listed["tailers"]}


def test_list_shows_position_lag_and_reader_of_each_tailer(log: Path) -> None:
    with commitlog.open(log, "r") as opened, opened.tailer("billing"):
        head, audit, billing = said(log)
        end = opened.tail_position
    assert head == f"{log}: 2 named tailers, ends at position {end}"
    assert audit.startswith(f"  audit: position 4096, {end - 4096} B behind, moved ")
    assert audit.endswith(", required within 1.0 MiB, no reader")
    assert billing.startswith(f"  billing: position {4096 + 3 * 24}, {7 * 24} B behind, moved ")
    assert "read by process " in billing


def test_list_of_a_log_without_tailers_is_empty(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log").close()
    assert said(tmp_path / "log") == [f"{tmp_path / 'log'}: 0 named tailers, ends at position 4096"]


def test_reset_delete_and_evict_change_the_list(log: Path) -> None:
    assert said(log, "reset", "billing", "first") == ["billing: reset to position 4096"]
    assert positions(log)["billing"] == 4096
    said(log, "reset", "billing", "end")
    assert positions(log)["billing"] == 4096 + 240
    said(log, "reset", "billing", "0x1018")
    assert positions(log)["billing"] == 4096 + 24
    assert said(log, "evict", "audit") == ["audit: evicted; it is not required any more"]
    assert said(log, "evict", "audit") == ["audit: not required, so nothing to evict"]
    assert re.search("evicted (a moment|a second|[0-9]+ seconds) ago", said(log)[1])
    assert json.loads("".join(said(log, "delete", "audit", "--json")))["done"] == "audit: deleted"
    assert list(positions(log)) == ["billing"]


def test_damaged_tailer_file_is_reported_and_reset(log: Path) -> None:
    (log / FOLDER / "billing").write_bytes(b"garbage")
    assert said(log)[2].startswith("  billing: damaged: it has 7 bytes, not 4096; ")
    verified = run("verify", log)
    assert verified.returncode == 0
    assert (
        b"  note: the file of tailer 'billing' is damaged: it has 7 bytes, not 4096; "
        in verified.stdout
    )
    said(log, "reset", "billing", "first")
    assert positions(log)["billing"] == 4096


def test_action_that_cannot_be_done_is_reported(log: Path) -> None:
    with commitlog.open(log, "r") as opened, opened.tailer("billing"):
        for action in ("reset", "delete"):
            done = run("tailers", log, action, "billing", *["first"] * (action == "reset"))
            assert done.returncode == 1
            assert b"'billing' is read by process " in done.stderr
    done = run("tailers", log, "reset", "absent", "first")
    assert done.returncode == 1
    assert b"there is no tailer 'absent'" in done.stderr
    done = run("tailers", log, "reset", "billing", "5000")
    assert done.returncode == 1
    assert b"no record starts here" in done.stderr
