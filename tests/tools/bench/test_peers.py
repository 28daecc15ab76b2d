"""`python -m bench.peers`: commitlog's side of the rows, the table, and what is missing."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from bench.peers import __main__ as command
from bench.peers import programs, table, turns
from bench.peers.programs import PREPARE, MissingError, Program
from bench.peers.rows import ROWS, Row
from bench.peers.table import Kept

BY_NAME = {row.name: row for row in ROWS}
# Each role once, with each form of appending and reading on one of them.
TRIED = {
    "burst-40": 5,
    "sync-100-16": 1,
    "roll": 2,
    "sustained": 2,
    "read-100": 3,
    "live-12-4-shm": 1,
    "live-40-1": 2,
    "livepaced-40k-100": 1,
    "roundtrip": 1,
}


def ours(row: Row) -> list[str]:
    return [side for side in row.sides() if side.startswith(("ours", "capi"))]


def kept(**figures: tuple[float, float, float]) -> Kept:
    """Return results of rows with one figure, measured on a quiet machine."""
    file_system = {"type": "ext4"}
    machine = {"processor": "P", "usable_cores": 2, "kernel": "Linux", "file_system": file_system}
    pairs = {}
    for name, values in figures.items():
        row = BY_NAME[name.replace("_", "-")]
        entry = {"measured": "2026-01-01", "turns": 5, "others": 0.1}
        entry["figures"] = {row.figures[0]: values}
        pairs[" | ".join((row.name, *row.pairs[0]))] = entry
    return {"machine": machine, "pairs": pairs, "missing": {}}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Program]]:
    """A directory with the example of the C API, built."""
    home = tmp_path_factory.mktemp("peers")
    return home, {name: PREPARE[name](home) for name in ("ours", "capi", "file")}


@pytest.mark.parametrize(
    ("name", "side"),
    [
        pytest.param(name, side, marks=[pytest.mark.long] if turn else [])
        for name, sides in TRIED.items()
        for turn, side in enumerate(ours(BY_NAME[name])[:sides])
    ],
)
def test_each_side_of_a_row_measures_every_figure(
    built: tuple[Path, dict[str, Program]], name: str, side: str
) -> None:
    home, known = built
    row = BY_NAME[name]
    said = turns.take_turn(row, side, known[side.split(maxsplit=1)[0]], home, quick=True)
    assert all(said[figure] > 0 for figure in row.figures)
    if row.rolls:
        assert max(said["rolls"]) > 0
    assert os.listdir(home / "data") == []


def test_each_pair_has_commitlog_and_a_known_peer() -> None:
    for row in ROWS:
        assert len(set(row.pairs)) == len(row.pairs)
        for mine, peer in row.pairs:
            assert mine.split()[0] in ("ours", "capi")
            assert peer.split()[0] in PREPARE


def test_missing_peer_is_named_and_the_rest_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    results = tmp_path / "peers.json"
    places = ["--home", str(tmp_path / "home"), "--json", str(results)]
    size = ["--quick", "--turns", "1", "--rows", "burst-1024"]
    assert command.main([*size, *places, "--peers", "file,rustcommitlog"]) == 0
    reason = "rustcommitlog did not run: cargo is missing: install it"
    assert reason in capsys.readouterr().err
    found = json.loads(results.read_text())
    assert [name.rpartition(" | ")[2] for name in found["pairs"]] == ["file"]
    assert reason.partition(": ")[2] == found["missing"]["rustcommitlog"]
    assert "`rustcommitlog` did not run: cargo is missing" in table.markdown(found)


def test_failed_turn_is_named_with_its_last_line(
    built: tuple[Path, dict[str, Program]],
) -> None:
    home, known = built
    row = dataclasses.replace(BY_NAME["burst-40"], roles=("no-such-role", "burst"))
    with pytest.raises(turns.TurnError, match="python failed: KeyError: 'no-such-role'"):
        turns.take_turn(row, ours(row)[0], known["ours"], home, quick=True)
    assert os.listdir(home / "data") == []


def test_jar_with_another_checksum_is_refused(tmp_path: Path) -> None:
    jar = tmp_path / "lib" / "mappedbus" / programs.BUS_JAR
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"another build")
    with pytest.raises(MissingError, match=f"and not {programs.BUS_SHA256}: delete it"):
        PREPARE["mappedbus"](tmp_path)
    (tmp_path / "lib" / "kafka").mkdir()
    with pytest.raises(MissingError, match=f"and not {programs.MAVEN['kafka'].sha256}"):
        PREPARE["kafka"](tmp_path)


def test_ratio_is_the_median_within_turns() -> None:
    mine, theirs = ([{"ns": value} for value in each] for each in ((10, 20, 40), (40, 10, 30)))
    found = table.compared(BY_NAME["burst-40"], mine, theirs)
    assert found == {"ns": [20, 30, 0.75]}
    rates = [[{"per_s": value, "p99": 1}] for value in (2, 4)]
    assert table.compared(BY_NAME["sync-100-1"], *rates)["per_s"] == [2, 4, 0.5]


def test_roll_percentiles_are_over_all_turns() -> None:
    mine = [{"rolls": [5, 1, 3]}, {"rolls": [9, 7]}]
    assert table.compared(BY_NAME["roll"], mine, [{"rolls": [6]}])["p50"] == [5, 6, 1.2]


@pytest.mark.parametrize(
    ("figure", "value", "text"),
    [
        ("ns", 41.234, "41.2 ns"),
        ("p99", 1500, "1.5 µs"),
        ("p999", 2e9, "2 s"),
        ("per_s", 850, "850 /s"),
        ("per_s", 43210, "43.2 k/s"),
        ("mb_s", 1234.5, "1,234 MB/s"),
    ],
)
def test_figure_is_shown_with_its_unit(figure: str, value: float, text: str) -> None:
    assert table.shown(figure, value) == text


def test_lost_rows_are_listed_first() -> None:
    text = table.markdown(kept(burst_40=(20, 40, 2), burst_100=(40, 20, 0.5)))
    lost, ahead = text.index("Behind: 1 of 2"), text.index("Level or ahead: 1 of 2")
    assert lost < text.index("| burst-100 |") < ahead < text.index("| burst-40 |")
    assert "Other work" not in text


def test_rows_measured_on_a_busy_machine_are_listed() -> None:
    found = kept(burst_40=(20, 40, 2), burst_100=(40, 20, 0.5))
    next(iter(found["pairs"].values()))["others"] = 1.9
    assert "Other work took up to 1.9 processors in these rows: burst-40." in table.markdown(found)


def test_new_results_replace_only_the_pairs_that_ran(tmp_path: Path) -> None:
    file = tmp_path / "peers.json"
    first = kept(burst_40=(20, 40, 2))
    first["missing"] = {"rocketmq": "javac is missing", "okaywal": "cargo is missing"}
    first["pairs"]["burst-40 | ours | a peer of earlier"] = {}
    command.keep(file, first, [])
    command.keep(file, kept(burst_100=(40, 20, 0.5)), [BY_NAME["burst-100"]])  # with rocketmq
    found = json.loads(file.read_text())
    assert set(found["missing"]) == {"okaywal"}
    assert [name.split(" | ")[0] for name in found["pairs"]] == ["burst-40", "burst-100"]


def test_page_has_the_table_of_the_kept_run() -> None:
    found = json.loads(command.RESULTS.read_text(encoding="utf-8"))
    assert table.PLACE.read(command.PAGE) == table.markdown(found).strip(), (
        "make bench-peers puts it there"
    )
