"""``python -m bench.instructions``: count the instructions of the kernel's hot paths, and compare
them with those in `counts.json`.

With ``--check``, status 1 says that a path executes over 5 % more than what is kept, and 2 that
nothing could be counted. ``--update`` keeps what is counted now. Counts of other compilers, or of
another kind of machine, are not compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.instructions.counting import CountingError, count_all
from bench.instructions.counts import FEWER, KEPT, TOLERANCE, Change, Counts, changes


def shown(number: float | None) -> str:
    return "-" if number is None else f"{number:.1f}"


def show(rows: Sequence[Change]) -> None:
    print(f"{'instructions per operation':<28}{'kept':>10}{'now':>10}{'ratio':>8}")
    for row in rows:
        ratio = "-" if row.ratio is None else f"{row.ratio:.3f}"
        figures = f"{shown(row.kept):>10}{shown(row.now):>10}{ratio:>8}"
        print(f"{row.path:<28}{figures}  {row.verdict}".rstrip())


def check(kept: Counts, now: Counts) -> int:
    """Compare; the exit status."""
    if not kept.comparable(now):
        print(
            f"not compared: the kept counts are of {kept.compiler} on {kept.machine}, these of "
            f"{now.compiler} on {now.machine}"
        )
        return 0
    rows = changes(kept, now)
    show(rows)
    if any(row.fails for row in rows):
        print(
            f"a hot path executes over {TOLERANCE:.0%} more than what is kept, or is not kept: "
            "make it as short as it was, or keep the new "
            "counts with python -m bench.instructions --update, and say why",
            file=sys.stderr,
        )
        return 1
    if any(row.verdict == FEWER for row in rows):
        print("a hot path became shorter: keep that with python -m bench.instructions --update")
    return 0


def main(arguments: Sequence[str] | None = None, kept_file: Path = KEPT) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--check",
        action="store_true",
        help="fail when a path executes over 5 %% more than what is kept",
    )
    action.add_argument("--update", action="store_true", help="keep what is counted now")
    given = parser.parse_args(arguments)
    try:
        now = count_all()
    except CountingError as error:
        print(f"instructions: {error}", file=sys.stderr)
        return 2
    kept = Counts.load(kept_file) if kept_file.exists() else replace(now, instructions={})
    if given.check:
        return check(kept, now)
    show(changes(kept, now))
    if given.update:
        now.save(kept_file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
