"""Simulate: `python -m tests.simulation --seeds 300`, or `--replay 17` for the story of a seed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from tests.figures import written
from tests.simulation import preload


def main() -> int:
    if (
        not preload.is_preloaded() or os.environ.get("PYTHONHASHSEED") != "0"
    ):  # else the order of sets differs between runs
        arguments = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        variables = os.environ | {"PYTHONHASHSEED": "0"}
        preload.preload(variables)
        os.execve(sys.executable, arguments, variables)
    preload.loaded()
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many [default: 300]")
    parser.add_argument("--first", type=int, default=0, help="the first one [default: 0]")
    parser.add_argument("--workers", type=int, default=1, help="processes [default: 1]")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--replay", type=int, help="run one seed, and print its story")
    parser.add_argument("--failed", action="store_true", help="run all that once failed")
    parser.add_argument("--shrink", action="store_true", help="shorten it first")
    parser.add_argument("--mutant", help="put a fault back first; `list` names them")
    parser.add_argument("--until-found", action="store_true", help="end at the first violation")
    parser.add_argument("--mutants", action="store_true", help="count the seeds that each needs")
    parsed = parser.parse_args()
    if parsed.mutants or parsed.mutant == "list":
        from tests.simulation import mutants

        return mutants.report(parsed)
    if parsed.failed:
        return _failed()
    if parsed.replay is not None:
        return _replay(parsed)
    return _campaign(parsed)


def _prepare(mutant: str | None) -> None:
    if mutant is not None:
        from tests.simulation.mutants import put_back

        put_back(mutant)


def _failed() -> int:
    from tests.simulation.plan import failed_runs
    from tests.simulation.run import run

    status = 0
    for each in failed_runs():
        found = run(each.seed, each.settings, each.events)
        print(f"{each.what}: {found.why or 'every promise held'}")
        status |= bool(found.rule)
    return status


def _replay(parsed: argparse.Namespace) -> int:
    _prepare(parsed.mutant)
    from tests.simulation.plan import Event, plan_of
    from tests.simulation.run import run
    from tests.simulation.shrink import shrunk

    settings, events = plan_of(parsed.replay)
    found = run(parsed.replay, settings, events)
    if parsed.shrink and found.rule:
        rule = found.rule

        def fails(fewer: list[Event]) -> bool:
            return run(parsed.replay, settings, fewer).rule == rule

        events = shrunk(events, fails)
        found = run(parsed.replay, settings, events)
    print(f"seed {parsed.replay}: {settings}")
    print("\n".join(found.story))
    print("; ".join(map(str, events)))
    print(found.why or "every promise held")
    return 1 if found.rule else 0


def _campaign(parsed: argparse.Namespace) -> int:
    _prepare(parsed.mutant)
    from tests.simulation.campaign import Figures, outcomes

    figures = Figures(parsed.first)
    seeds = range(parsed.first, parsed.first + parsed.seeds)
    for found in outcomes(seeds, parsed.workers):
        figures.add(found)
        if found.rule:
            print(f"seed {found.seed}: {found.why}", flush=True)
            if parsed.until_found:
                count = figures.content()["seeds"]
                print(f"{count} | {found.seed} | {found.rule}")
                return 1
    if parsed.until_found:
        print(f"not within {parsed.seeds} | |")
        return 0
    content = figures.content()
    if parsed.json is not None:
        written(parsed.json, "simulation", content)
    long = ("pairs_never_seen", "events_of_each_place")
    shown = {name: value for name, value in content.items() if name not in long}
    print(json.dumps(shown, indent=1))
    return 1 if figures.failed else 0


if __name__ == "__main__":
    sys.exit(main())
