"""`commitlog info --cycles`: the files of a day."""

from __future__ import annotations

import json
from pathlib import Path

import commitlog
from tests.clock import Clock, clocked
from tests.tools.cli.program import SEGMENT, run


@clocked("2026-11-20T12:00:00+01:00")
def test_cycles_of_a_day_are_listed_in_time_zone_of_log(clock: Clock, path: Path) -> None:
    with commitlog.open(
        path,
        roll_cycle=commitlog.RollCycle("SIX_HOURLY", time_zone="Europe/Berlin"),
        segment_size=SEGMENT,
    ) as log:
        for hours in (0, 6, 6, 6, 6, 6):
            # Advance the clock before each append; after the last append, a log thread would roll
            # again.
            clock.move(hours * 3600)
            log.append(b"x" * 100)
    lines = [
        line.split("\t") for line in run("info", "--cycles", path).stdout.decode().splitlines()
    ]
    assert [line[1] for line in lines][:3] == [
        "2026-11-20T12:00:00+01:00",
        "2026-11-20T18:00:00+01:00",
        "2026-11-21T00:00:00+01:00",
    ]
    assert [line[2].endswith("+") for line in lines] == [False] * 5 + [True]
    assert {(line[3], line[4]) for line in lines} == {("1", "120 B")}
    assert [line[5] for line in lines] == [f"{number * SEGMENT:020d}.seg" for number in range(6)]
    day = [
        json.loads(line)
        for line in run(
            "info", "--cycles", "--since", "2026-11-21", "--until", "2026-11-22", "--json", path
        ).stdout.splitlines()
    ]
    assert [cycle["files"] for cycle in day] == [
        [str(path / f"{number * SEGMENT:020d}.seg")] for number in (2, 3, 4, 5)
    ]
    assert (day[0]["start_time"], day[0]["end_time"]) == (
        "2026-11-20T23:00:00.000000000Z",
        "2026-11-21T05:00:00.000000000Z",
    )
    assert (day[0]["records"], day[0]["bytes"], day[0]["over"]) == (1, 120, True)
    between = run(
        "info", "--cycles", "--since", "2026-11-20T17:00", "--until", "2026-11-21T06:00+01:00", path
    ).stdout.splitlines()
    assert [line.split(b"\t")[1] for line in between] == [line[1].encode() for line in lines[:3]]
    assert (
        run("info", "--cycles", "--since", "2026-11-19", "--until", "2026-11-20", path).stdout
        == b""
    )


def test_log_rolled_by_size_has_a_line_per_segment(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT) as log:
        for _ in range(2):
            log.append(b"x")
            log.roll()
    lines = run("info", "--cycles", path).stdout.splitlines()
    assert [line.split(b"\t")[0::3] for line in lines] == [
        [b"-", b"1"],
        [b"-", b"1"],
        [b"-", b"0"],
    ]


def test_append_creates_a_log_with_a_cycle_that_info_shows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    cycle = ["--roll-cycle", "daily", "--roll-epoch", "6h", "--time-zone", "Europe/Berlin"]
    assert run("append", *cycle, path, feed=b"one\n").returncode == 0
    assert (
        b"  roll cycle              DAILY (Europe/Berlin, epoch 21600 s)\n"
        in run("info", path).stdout
    )
    assert json.loads((path / "log.json").read_bytes())["roll_cycle"] == "DAILY"
