"""`commitlog prune`: beside a writer in another process, and without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import commitlog
from tests.tools.cli.program import SEGMENT, run, sealed_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return sealed_log(tmp_path / "log")


def segments(log: Path) -> list[str]:
    return sorted(path.name for path in log.glob("*.seg"))


def test_prune_reports_the_deleted_and_the_first_kept_segment(log: Path) -> None:
    done = run("prune", "--max-bytes", "0", log)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith(f"{log}: deleted 5 segments, ")
    assert lines[1].endswith(" KiB, max_bytes")
    assert (
        lines[-1]
        == f"  position {5 * SEGMENT} stays: it is the last sealed segment, which always stays"
    )
    assert segments(log)[0] == f"{5 * SEGMENT:020d}.seg"
    with commitlog.open(log) as opened:
        assert list(opened.tailer().values()) == [b"5"]


def test_dry_run_deletes_nothing(log: Path) -> None:
    before = segments(log)
    done = run("prune", "--older-than", "0s", "--dry-run", "--json", log)
    said = json.loads(done.stdout)
    assert (done.returncode, said["dry_run"], len(said["segments"])) == (0, True, 5)
    assert said["disk_bytes"] == sum(segment["disk_bytes"] for segment in said["segments"])
    assert segments(log) == before


def test_prune_beside_a_writer_deletes_under_its_handle(log: Path) -> None:
    """The command runs in another process, and deletes under this open handle."""
    with commitlog.open(log) as opened:
        assert run("prune", "--max-bytes", "0", log).returncode == 0
        opened.append(b"on")
        assert list(opened.tailer().values()) == [b"5", b"on"]
        assert opened.first_position == 5 * SEGMENT + 4096
    assert run("verify", log).returncode == 0


def test_limits_that_are_not_reached_delete_nothing(log: Path) -> None:
    before = segments(log)
    for arguments in (
        ("--older-than", "7d"),
        ("--min-free", "0%"),
        ("--min-free", "1"),
        ("--max-bytes", "1TiB"),
    ):
        done = run("prune", *arguments, log)
        assert done.stdout.startswith(f"{log}: deleted 0 segments, 0 B".encode()), arguments
    assert segments(log) == before


def test_prune_keeps_what_is_not_stored_unless_forced(log: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_bytes(b"a file where the store's directory should be")
    commitlog.open(log, store=commitlog.Store(blocked / "store", every="10ms")).close()
    done = run("prune", "--max-bytes", "0", log)
    assert done.returncode == 0
    assert f"  position 0 stays: it is not stored in {blocked}/store yet" in done.stdout.decode()
    assert len(json.loads(run("info", "--json", log).stdout)) > 0
    forced = run("prune", "--max-bytes", "0", "--force", "store", "--json", log)
    assert len(json.loads(forced.stdout)["segments"]) == 5
    refused = run("prune", "--max-bytes", "0", "--force", "tailers", log)
    assert refused.returncode == 2
