"""Put faults into copies of the code, one at a time, and run the leg that must find each:
``python -m tests.mutants [--quick] [--third N] [--only NAME] [--json FILE]``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.figures import stamp, written
from tests.mutants import kernel, services
from tests.mutants.mutant import CTests, Mutant, PatchError
from tests.mutants.tree import NotBuiltError, Outcome, Workshop

_THIRDS = 3
MUTANTS = [*kernel.MUTANTS, *services.MUTANTS]


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only those that C tests are to find")
    parser.add_argument(
        "--third", help="every third of them: 0 to 2, or 'today' for those of the date"
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="mutants with this text")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the outcomes to FILE, beside those of other mutants in it",
    )
    parser.add_argument("--list", action="store_true", help="list the mutants and their legs")
    parser.add_argument("--folder", type=Path, help="where to work [default: a temporary one]")
    return parser.parse_args(arguments)


def chosen(options: argparse.Namespace) -> list[Mutant]:
    found = [
        each
        for each in MUTANTS
        if (not options.only or any(text in each.name for text in options.only))
        and (not options.quick or isinstance(each.leg, CTests))
    ]
    if not found:
        raise SystemExit("no mutant has that name: --list shows them")
    if options.third is None:
        return found
    third = time.time() // 86400 if options.third == "today" else int(options.third)
    return found[int(third) % _THIRDS :: _THIRDS]


def tried(workshop: Workshop, mutant: Mutant, sound: dict[str, Outcome]) -> dict[str, Any]:
    """Run the leg of a mutant, and what fails then, once, on the code as it is."""
    leg, began_s = str(mutant.leg), time.monotonic()
    result = {"name": mutant.name, "file": mutant.file, "leg": leg}
    try:
        outcome = workshop.mutated(mutant)
        failed = leg if isinstance(mutant.leg, CTests) else outcome.by
        if outcome.failed and failed not in sound:
            sound[failed] = workshop.sound(mutant.leg, failed)
        if outcome.failed and sound[failed].failed:
            return {**result, "caught": None, "by": f"fails without it: {sound[failed].by}"}
    except (NotBuiltError, PatchError) as error:
        return {**result, "caught": None, "by": str(error)[:600]}
    taken_s = round(time.monotonic() - began_s, 1)
    why = {"why": mutant.survives} if mutant.survives and not outcome.failed else {}
    return {**result, "caught": outcome.failed, "by": outcome.by, **why, "seconds": taken_s}


def earlier(path: Path | None, mutants: list[Mutant]) -> list[dict[str, Any]]:
    """Return the outcomes of other mutants that a file has from an earlier run."""
    known = [] if path is None or not path.exists() else json.loads(path.read_text())["mutants"]
    names = {each.name for each in MUTANTS} - {each.name for each in mutants}
    return [each for each in known if each["name"] in names]


def write(results: list[dict[str, Any]], path: Path | None) -> None:
    content = {
        "tried": len(results),
        "caught": sum(each["caught"] is True for each in results),
        "explained": {each["name"]: each["why"] for each in results if "why" in each},
        "survived": [each["name"] for each in results if each["caught"] is False],
        "invalid": [each["name"] for each in results if each["caught"] is None],
        "mutants": results,
    }
    if path is not None:
        written(path, "mutants", content)


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    mutants = chosen(options)
    if options.list:
        for each in mutants:
            print(f"{each.name}: {each.file}: {each.leg}")
        return 0
    folder = Path(options.folder or tempfile.mkdtemp(prefix="commitlog-mutants-"))
    results: list[dict[str, Any]] = []
    others = earlier(options.json, mutants)
    sound: dict[str, Outcome] = {}
    try:
        workshop = Workshop(folder)
        for mutant in mutants:
            result = tried(workshop, mutant, sound)
            results.append({**result, **stamp()})
            said = {True: "caught", False: "NOT CAUGHT", None: "INVALID"}[result["caught"]]
            print(f"{said}: {mutant.name}: {result['by']}", flush=True)
            write([*others, *results], options.json)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    caught = sum(each["caught"] is True for each in results)
    explained = sum(each["caught"] is False and "why" in each for each in results)
    print(f"{len(results)} mutants: {caught} caught, {len(results) - caught} not "
          f"({explained} of these with a reason)")  # fmt: skip
    return 0 if caught + explained == len(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
