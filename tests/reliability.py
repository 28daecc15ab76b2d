"""The table of docs/reliability.md, made of the figures that the legs wrote.

``python -m tests.reliability`` writes it anew; with files as arguments, it first takes them as the
figures of their legs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.host import ROOT

PAGE = ROOT / "docs" / "reliability.md"
FIGURES = ROOT / "docs" / "figures"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
FAULTS_BEGIN, FAULTS_END = "<!-- faults -->\n", "<!-- end of faults -->\n"
Figures = dict[str, Any]


def soaked(figures: Figures) -> tuple[str, str]:
    """Return what the soak did, and what grew."""
    records, growths = sum(figures["records"].values()), figures["growths"].values()
    done = f"{figures['minutes']} minutes, {records:,} records, {figures['kills']} kills"
    grew = sum(not growth["is_flat"] for growth in growths)
    return (
        f"{done}, {figures['promotions']} promotions",
        f"{figures['lost']} records; {grew} of {len(growths)} figures grew",
    )


def mirrored(figures: Figures) -> tuple[str, str]:
    """Return what the kills of mirrors did, and how many comparisons failed."""
    runs = figures["runs"]
    kills = sum(sum(run["kills"].values()) for run in runs)
    records, wrong = sum(run["records"] for run in runs), sum(len(run["wrong"]) for run in runs)
    return f"{kills} kills in {len(runs)} runs, {records:,} records of the log", str(wrong)


def moved(figures: Figures) -> tuple[str, str]:
    """Return what the kills of applications and relays did, and how many runs failed."""
    runs = figures["runs"]
    kills = ", ".join(f"{run['kills']} kills on {run['database']}" for run in runs)
    rows = sum(run["rows"] for run in runs)
    return f"{kills}, {rows:,} rows moved", str(sum(len(run["wrong"]) for run in runs))


# Of each leg: what was injected, and what was found wrong.
LEGS: dict[str, Callable[[Figures], tuple[str, str]]] = {
    "power cuts of a block device": lambda it: (
        f"{it['cuts']:,} cuts in {it['runs']:,} runs, {it['acknowledged']:,} acknowledged records",
        str(it["lost"]),
    ),
    "simulated power cuts by sector": lambda it: (
        f"{it['images']:,} images, {it['acknowledged']:,} acknowledged records",
        str(it["lost"]),
    ),
    "failing calls": lambda it: (
        f"{it['cases']:,} cases, {it['met']:,} of them met, {it['raised']:,} with an error",
        str(it["broken"]),
    ),
    "simulation": lambda it: (
        f"{it['seeds']:,} seeds, {it['events']:,} events, {it['opens']:,} opened logs",
        str(len(it["failed_seeds"])),
    ),
    "faults put into the simulation": lambda it: (
        f"{it['tried']} faults, {it['found']} found, each in at most {it['most_seeds']:,} seeds",
        f"{it['tried'] - it['found']} not found",
    ),
    "fuzzing": lambda it: (
        f"{it['executions']:,} executions in {len(it['targets'])} targets",
        str(len(it["faults"])),
    ),
    "mutants": lambda it: (
        f"{it['tried']} faults put into the code, {it['caught']} of them caught",
        f"{len(it['survived'])} not caught",
    ),
    "outbox": moved,
    "mirror": mirrored,
    "soak": soaked,
}
# What a leg writes and the table does not need: the figures kept in the checkout stay small.
LONG = ("samples", "pairs_never_seen", "events_of_each_place")
# Folders of the machine in front of a path.
FOLDERS = re.compile(r"(?:/[\w.@+-]+)+/(?=commitlog/|tests/|lib/python)")


def read() -> dict[str, Figures]:
    """Return the kept figures by the names of their legs."""
    found = [json.loads(path.read_text()) for path in sorted(FIGURES.glob("*.json"))]
    return {figures["leg"]: figures for figures in found}


def keep(path: Path) -> None:
    """Take a file that a leg wrote as the figures of that leg."""
    figures = json.loads(FOLDERS.sub("", path.read_text()))
    if figures["leg"] not in LEGS:
        sys.exit(f"{path}: there is no leg {figures['leg']!r}")
    kept = {name: value for name, value in figures.items() if name not in LONG}
    target = FIGURES / f"{figures['leg'].replace(' ', '-')}.json"
    target.write_text(json.dumps(kept, indent=1) + "\n")


def table() -> str:
    """Return the table: a row for each leg that has figures."""
    rows = ["| leg | injected | found wrong | commit, day |", "| --- | --- | --- | --- |"]
    known = read()
    for leg, row in LEGS.items():
        if leg in known:
            injected, wrong = row(known[leg])
            when = f"`{known[leg]['commit'][:8]}`, {known[leg]['date'][:10]}"
            rows.append(f"| {leg} | {injected} | {wrong} | {when} |")
    return "\n".join(rows) + "\n"


def faults() -> str:
    """Return the table of the faults that were put into the simulation."""
    known = read().get("faults put into the simulation")
    if known is None:
        return ""
    ordered = sorted(known["faults"], key=lambda row: (row["seeds"] is None, row["seeds"] or 0))
    rows = ["| fault | seeds | rule that was violated |", "| --- | --- | --- |"]
    for row in ordered:
        count = row["seeds"] or f"not within {row['not_within']}"
        number = f" ({row['number']})" if "number" in row else ""
        rows.append(f"| {row['fault']}{number} | {count} | {row.get('rule', '')} |")
    return "\n".join(rows) + "\n"


def with_table(text: str) -> str:
    """Return the page with the tables in their places."""
    before, _, rest = text.partition(BEGIN)
    page = before + BEGIN + table() + END + rest.partition(END)[2]
    before, _, rest = page.partition(FAULTS_BEGIN)
    return before + FAULTS_BEGIN + faults() + FAULTS_END + rest.partition(FAULTS_END)[2]


def main(files: list[str]) -> None:
    """Take files as figures, and write the table."""
    for name in files:
        keep(Path(name))
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
