"""``python -m bench.peers``, or ``make bench-peers``: commitlog beside other stores, in turns.

Fetches and builds what the chosen rows need. A peer that cannot run is listed with its reason, and
the others run. The figures go to `bench/results/peers.json`, where they replace those of the same
pairs, and the table to `docs/performance.md`.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import json
import os
import sys
import time
from collections.abc import Sequence
from itertools import compress
from pathlib import Path

import psutil

from bench.peers import table, turns
from bench.peers.programs import PREPARE, ROOT, MissingError, Program
from bench.peers.rows import ROWS, Row
from commitlog.tools.bench import machine
from commitlog.tools.bench.results import json_text

RESULTS = ROOT / "bench" / "results" / "peers.json"
PAGE = ROOT / "docs" / "performance.md"


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parsed(arguments)
    rows = [chosen for row in ROWS if (chosen := _chosen(row, given.rows, given.peers)).pairs]
    if given.list or not rows:
        for row in rows:
            print(f"{row.name}: {row.title}", *(f"    {a} | {b}" for a, b in row.pairs), sep="\n")
        return 0 if rows else 2
    home = given.home.absolute()
    home.mkdir(parents=True, exist_ok=True)
    kept: table.Kept = {"machine": machine.describe(home), "pairs": {}, "missing": {}}
    programs = prepared(rows, home, kept["missing"])
    for row in rows:
        pairs = measured(row, programs, given, kept["missing"])
        kept["pairs"] |= pairs
        print(f"{row.name}: {table.markdown(kept | {'pairs': pairs, 'missing': {}})}", flush=True)
        all_kept = keep(given.json, kept, rows)
        if given.json == RESULTS:
            table.PLACE.write(PAGE, table.markdown(all_kept))
    for name, reason in kept["missing"].items():
        print(f"peers: {name} did not run: {reason}", file=sys.stderr)
    return int(any("ours" in name for name in kept["missing"]))


def prepared(rows: list[Row], home: Path, missing: dict[str, str]) -> dict[str, Program]:
    """Fetch and build the programs of these rows; note those that are missing."""
    programs = {}
    for name in dict.fromkeys(side.split()[0] for row in rows for side in row.sides()):
        _tell(f"preparing {name}")
        try:
            programs[name] = PREPARE[name](home)
        except MissingError as error:
            missing[name] = str(error)
    return programs


def measured(
    row: Row, programs: dict[str, Program], given: argparse.Namespace, missing: dict[str, str]
) -> dict[str, object]:
    """Let the sides of a row take turns; return the figures of its pairs.

    Each round begins with another side, so that none always follows the same one.
    """
    before = _Others()
    sides = [side for side in row.sides() if side.split()[0] in programs]
    taken: dict[str, list[turns.Figures]] = {side: [] for side in sides}
    for turn in range(given.turns):
        first = turn * max(1, len(sides) // given.turns) % max(1, len(sides))
        for side in sides[first:] + sides[:first]:
            if len(taken[side]) < turn:
                continue  # it failed
            _tell(f"{row.name}: {side}, turn {turn + 1} of {given.turns}")
            program = programs[side.split()[0]]
            try:
                figures = turns.take_turn(row, side, program, given.home.absolute(), given.quick)
                taken[side].append(figures)
            except turns.TurnError as error:
                missing[f"{side} ({row.name})"] = str(error)
    _tell("")
    about = {
        "measured": f"{dt.datetime.now().astimezone():%Y-%m-%d}",
        "turns": given.turns,
        "others": before.processors(),
    }
    return {
        f"{row.name} | {ours} | {peer}": about
        | {"figures": table.compared(row, taken[ours], taken[peer])}
        for ours, peer in row.pairs
        if taken.get(ours) and taken.get(peer)
    }


class _Others:
    """How many processors other programs use."""

    def __init__(self) -> None:
        self.began, self.used = time.monotonic(), self._used()

    @staticmethod
    def _used() -> float:
        total, times = sum(os.times()[:4]), psutil.cpu_times()
        return sum(times[:8]) - times.idle - times.iowait - total

    def processors(self) -> float:
        return round((self._used() - self.used) / (time.monotonic() - self.began), 1)


def keep(file: Path, found: table.Kept, rows: Sequence[Row]) -> table.Kept:
    """Put figures into the file, in place of those of the same pairs; return all."""
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"pairs": {}}
    sides = [(row, side) for row in rows for side in row.sides()]
    tried = {name for row, side in sides for name in (side.split()[0], f"{side} ({row.name})")}
    missing = {name: why for name, why in kept.get("missing", {}).items() if name not in tried}
    known = {f"{row.name} | {ours} | {peer}" for row in ROWS for ours, peer in row.pairs}
    pairs = kept["pairs"] | found["pairs"]
    kept = {
        "machine": found["machine"],
        "pairs": {name: entry for name, entry in pairs.items() if name in known},
        "missing": missing | found["missing"],
    }
    file.write_text(json_text(kept), encoding="utf-8")
    return kept


def _tell(what: str) -> None:
    """Write over one line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def words(text: str) -> list[str]:
        return [word for word in text.split(",") if word]

    parser.add_argument("--rows", type=words, default=[], help="rows that begin so [all]")
    parser.add_argument("--peers", type=words, default=[], help="peers with this name [all]")
    parser.add_argument("--turns", type=int, default=5, help="turns of each side [5]")
    parser.add_argument("--quick", action="store_true", help="small sizes, into HOME/quick.json")
    parser.add_argument("--list", action="store_true", help="list the chosen rows and pairs")
    parser.add_argument("--home", type=Path, default=ROOT / ".peers", help="where peers are built")
    parser.add_argument("--json", type=Path, help="where the figures go")
    given = parser.parse_args(arguments)
    given.json = given.json or (given.home / "quick.json" if given.quick else RESULTS)
    return given


def _chosen(row: Row, rows: list[str], peers: list[str]) -> Row:
    """Return the row with the chosen pairs only."""
    if rows and not row.name.startswith(tuple(rows)):
        return dataclasses.replace(row, pairs=())
    wanted = (not peers or not {peer, peer.split()[0]}.isdisjoint(peers) for _, peer in row.pairs)
    return dataclasses.replace(row, pairs=tuple(compress(row.pairs, wanted)))


if __name__ == "__main__":
    sys.exit(main())
