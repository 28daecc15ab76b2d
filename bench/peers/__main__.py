"""``python -m bench.peers``: commitlog beside Mappedbus 0.5.1, in turns, on a disk and in memory.

Fetches Mappedbus and a Java 11 on its first run. Prints a table, which is put into `docs/bus.md`,
too, and keeps its figures in `bench/results/mappedbus.json`. With ``--row`` only some rows are
measured; their figures take the place of the earlier ones.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.peers import java, table, turns
from bench.peers.rows import BY_NAME, PEER, ROWS, Row
from commitlog.bench import machine
from commitlog.bench.results import json_text

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results" / "mappedbus.json"
PAGE = ROOT / "docs" / "bus.md"
MEMORY = Path("/dev/shm")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--row",
        action="append",
        choices=list(BY_NAME),
        help="only this row; may be given several times",
    )
    parser.add_argument("--place", action="append", choices=("disk", "memory"), help="only there")
    parser.add_argument(
        "--disk", type=Path, default=ROOT, help="a directory on a disk (the checkout)"
    )
    parser.add_argument(
        "--turns", type=int, default=7, help="how often each side takes its turn (7)"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="a part of the messages, to see that it works"
    )
    parser.add_argument("--jar", type=Path, help="Mappedbus' jar, where it cannot be fetched")
    parser.add_argument("--ours-only", action="store_true", help="without Mappedbus")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures go")
    given = parser.parse_args(arguments)
    chosen = [BY_NAME[name] for name in given.row] if given.row else list(ROWS)
    places = {"memory": MEMORY, "disk": given.disk.absolute()}
    places = {
        name: place for name, place in places.items() if not given.place or name in given.place
    }
    try:
        peer = None if given.ours_only else java.prepare(java.cache(), given.jar)
        measured = {
            f"{row.name}/{name}": measure(row, place, peer, given.turns, given.scale)
            for row in chosen
            for name, place in places.items()
        }
    except (java.MissingError, turns.TurnError) as error:
        print(f"peers: {error}", file=sys.stderr)
        return 1
    about = {
        "measured": dt.datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": machine.describe(given.disk),
        "mappedbus": None if peer is None else peer.describe(),
        "turns": given.turns,
        "scale": given.scale,
    }
    kept = keep(given.json, measured, about)
    if given.json == RESULTS and peer is not None:
        table.PLACE.write(PAGE, table.markdown(kept))
    print(table.render(measured))
    return 0


def measure(row: Row, place: Path, peer: java.Java | None, count: int, scale: float) -> table.Turns:
    """All turns of a row in one place. Each round begins with another side, so that none always
    follows the same one.
    """
    sides = [side for side in row.sides if peer is not None or side.name != PEER]
    taken: table.Turns = {side.name: [] for side in sides}
    for turn in range(count):
        for index in range(len(sides)):
            side = sides[(index + turn) % len(sides)]
            tell(f"{row.name} in {place}: {side.name}, turn {turn + 1} of {count}")
            taken[side.name].append(turns.take_turn(row, side, place, peer, scale))
    tell("")
    return taken


def tell(what: str) -> None:
    """A line on the terminal that is written over and over; nothing where there is none."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


def keep(file: Path, measured: dict[str, table.Turns], about: dict[str, object]) -> dict[str, Any]:
    """Write the figures, each row with what it was measured on, beside those of other rows that are
    there. All that is kept now.
    """
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for name, turns_of_row in measured.items():
        sides = {side: table.reduced(taken) for side, taken in turns_of_row.items()}
        kept[name] = {"title": BY_NAME[name.partition("/")[0]].title, **about, "sides": sides}
    file.write_text(json_text(kept), encoding="utf-8")
    return kept


if __name__ == "__main__":
    sys.exit(main())
