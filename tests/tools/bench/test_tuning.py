"""`python -m bench.tuning`: every row at a tiny size, the loss of a kill, and the table of
docs/tuning.md.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

import commitlog
from bench.tuning import __main__ as command
from bench.tuning import kill, run, table
from bench.tuning.kill import Kill
from bench.tuning.knobs import KNOBS, MAPPED, POOLED, POOLED_SHM, Knob
from commitlog.base.units import MIB
from commitlog.errors import DiskFullError
from commitlog.extension import frame_size
from commitlog.tools.bench.workspace import Workspace


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of a quick pass."""
    place = tmp_path_factory.mktemp("tuning")
    (place / "disk").mkdir()
    kept = place / "tuning.json"
    assert command.main([str(place / "disk"), "--quick", "--memory", "--json", str(kept)]) == 0
    assert os.listdir(place / "disk") == []
    results: dict[str, Any] = json.loads(kept.read_text())
    return results


def test_quick_pass_measures_every_row(quick: dict[str, Any]) -> None:
    assert [(row["setup"], row["name"]) for row in quick["rows"]] == [
        (knob.setup, knob.name) for knob in KNOBS
    ]
    for row in map(run.Row.of, quick["rows"]):
        assert not row.skipped, row.name
        assert len(row.appends_s) == 1, row.name
        assert len(row.sustained_bytes_s) == (row.flush != "sync"), row.name
        assert set(row.latency_ns) == {"p50", "p99", "p99.9", "p99.99", "max"}, row.name
        assert len(row.kills) == (row.threads == 1), row.name
        assert all(killed.appended > 0 for killed in row.kills), row.name


def test_kill_loses_records_of_anonymous_buffers_only(quick: dict[str, Any]) -> None:
    for row in map(run.Row.of, quick["rows"]):
        if row.setup in (MAPPED, POOLED_SHM) or row.flush == "sync":
            assert [killed.lost for killed in row.kills] == [0] * len(row.kills), row.name
        if row.flush == "sync":
            assert [killed.not_flushed for killed in row.kills] == [0] * len(row.kills), row.name
        if row.flush == "none":
            assert [killed.not_flushed for killed in row.kills] == [
                killed.appended for killed in row.kills
            ], row.name


def test_kill_loses_the_uncommitted_records(tmp_path: Path) -> None:
    """With a commit service that never runs, a kill loses every record."""
    # No interval, page count or full buffer wakes the commit service for some seconds, so the kill
    # may come late.
    tuning = {"commit_thorough_interval": 3600, "commit_least_pages": 262144}
    knob, settings = (
        Knob(POOLED, {"commit_interval": 3600, "flush": "none"}, tuning),
        dataclasses.replace(run.QUICK, segment_size=16 * MIB, buffers=2),
    )
    with Workspace(tmp_path, settings, knob.log_options) as workspace:
        (killed,) = kill.killed(knob, workspace.root, workspace, [0.05])
    assert killed.lost == killed.appended == killed.not_flushed > 0


def test_child_that_never_appends_raises_and_leaves_no_process(tmp_path: Path) -> None:
    # A process that runs many tests may have children already.
    before = set(psutil.Process().children())
    knob = Knob(MAPPED, {"segment_size": 1})  # refused in the child
    with (
        Workspace(tmp_path, run.QUICK, knob.log_options) as workspace,
        pytest.raises(RuntimeError, match="did not come to append"),
    ):
        kill.killed(knob, workspace.root, workspace, [0.0, 0.0])
    assert not set(psutil.Process().children()) - before


def test_records_below_a_position_are_counted_across_segments(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=64 << 10) as log:
        positions = [log.append(kill.value_of(index)) for index in range(2_000)]
        for count in (0, 1, 500, 1_999):
            assert kill.records_below(positions[count], log.segment_size) == count
        assert kill.records_below(log.tail_position, log.segment_size) == 2_000
    assert len(kill.value_of(7)) == kill.VALUE_SIZE
    assert frame_size(kill.VALUE_SIZE) == 120


def test_kill_moments_are_repeatable_and_in_the_second_cycle() -> None:
    knob = Knob(MAPPED, cycle_s=0.5)
    drawn = kill.moments(knob, 100, 1, 10.0)
    assert drawn == kill.moments(knob, 100, 1, 10.0)
    assert all(0.5 <= moment <= 1.0 for moment in drawn)


def test_row_without_space_is_skipped_and_others_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise DiskFullError("no room")

    monkeypatch.setattr(run.appends, "measure_sustained", refuse)
    results = run.run(
        tmp_path, [Knob(MAPPED), Knob(MAPPED, {"flush": "sync"})], run.QUICK, lambda *step: None
    )
    assert [row["skipped"] for row in results["rows"]] == ["no room", ""]
    assert "not measured: no room" in table.render(results)


# --- the documentation ----------------------------------------------------------------------------


def test_tuning_table_in_docs_matches_kept_results() -> None:
    results = json.loads(command.RESULTS.read_text(encoding="utf-8"))
    assert not results["settings"]["quick"]
    assert [(row["setup"], row["name"]) for row in results["rows"]] == [
        (knob.setup, knob.name) for knob in KNOBS
    ]
    shown = table.PLACE.read(command.PAGE)
    assert shown == table.render(results).strip(), (
        "python -m bench.tuning --kept --write-docs brings them together"
    )


def test_table_is_written_between_its_markers(
    quick: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "kept.json"
    page.write_text(f"before\n{table.PLACE.begin}\nold\n{table.PLACE.end}\nafter\n")
    kept.write_text(json.dumps(quick))
    monkeypatch.setattr(command, "PAGE", page)
    assert command.main(["--kept", "--json", str(kept), "--write-docs"]) == 0
    assert (
        page.read_text()
        == f"before\n{table.PLACE.begin}\n{table.render(quick)}{table.PLACE.end}\nafter\n"
    )
    page.write_text("no place")
    with pytest.raises(SystemExit, match="no place for the table"):
        command.main(["--kept", "--json", str(kept), "--write-docs"])


def test_quick_pass_is_not_written_to_the_documentation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        command.main(["--quick", "--write-docs"])
    assert "mean nothing" in capsys.readouterr().err


def test_worst_kill_is_shown_as_a_time() -> None:
    row = run.Row(
        POOLED,
        "the defaults",
        "async",
        1,
        [1e6],
        [1e9],
        {},
        [Kill(1000, 10, 900), Kill(2000, 30, 100)],
    )
    entry = {**vars(row), "kills": [vars(killed) for killed in row.kills]}
    results = {
        "rows": [entry],
        "kill": {"rate": 10_000},
        "settings": {"turns": 1, "rate": MIB},
        "started": "2026-01-01T00:00:00",
        "machine": {
            "processor": "",
            "usable_cores": 1,
            "memory_bytes": 1,
            "kernel": "",
            "file_system": {"type": ""},
        },
    }
    assert table.render(results).splitlines()[-1].endswith("| 3.00 ms | 90.0 ms |")
