"""``python -m bench.tuning [DIR]``: what each knob does to throughput, latency, and to what a kill
or a power cut takes.

One knob is turned at a time, from the defaults; the rows take turns, figures are medians. Takes
about seven minutes, and with ``--quick`` seconds, whose figures mean nothing. Results go to
``bench/results/tuning.json``; ``--write-docs`` puts them into ``docs/tuning.md``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.arguments import ROOT, parser_of
from bench.tuning import run, table
from bench.tuning.knobs import KNOBS
from commitlog.errors import CommitLogError
from commitlog.tools.bench.machine import check_disk
from commitlog.tools.bench.results import json_text

RESULTS = ROOT / "bench" / "results" / "tuning.json"
PAGE = ROOT / "docs" / "tuning.md"


def tell(row: str, done: int, total: int) -> None:
    """A line a row, so that it can be followed in a file as well."""
    print(f"{done + 1}/{total} {row}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("bench.tuning", __doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="everything at a size that takes seconds; kept only where --json says",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="where the results go (bench/results/tuning.json)"
    )
    parser.add_argument(
        "--kept", action="store_true", help="measure nothing, and take the results that are kept"
    )
    parser.add_argument(
        "--write-docs", action="store_true", help="put the table into docs/tuning.md"
    )
    given = parser.parse_args(arguments)
    if given.quick and given.write_docs:
        parser.error(
            "the figures of a quick pass mean nothing: they do not go into the documentation"
        )
    kept = given.json or RESULTS
    if given.kept:
        results = json.loads(kept.read_text(encoding="utf-8"))
    else:
        try:
            check_disk(given.directory, given.memory)
            results = run.run(
                given.directory, KNOBS, run.QUICK if given.quick else run.SETTINGS, tell
            )
        except (CommitLogError, OSError) as error:
            print(f"tuning: {error}", file=sys.stderr)
            return 1
        if given.json or not given.quick:
            kept.write_text(json_text(results), encoding="utf-8")
    if given.write_docs:
        table.PLACE.write(PAGE, table.render(results))
    print(table.render(results), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
