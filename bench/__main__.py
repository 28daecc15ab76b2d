"""``python -m bench [DIR]``: measure everything, by default on the checkout's own disk, and judge.

Runs `commitlog bench`, then the workloads of `bench/workloads.py`. The full results go to
`build/bench.json` and `build/bench.html`. `bench/results/bench.json` keeps what
docs/performance.md uses of them: the goals, and the curves of the picture in `docs/images/`. A
quick run is only shown.

Other measurements have modules of their own: `python -m bench.columns`, `bench.tuning`,
`bench.instructions`, `bench.peers`, `bench.replicated`, `bench.spark`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from bench import headline
from bench.arguments import ROOT, parser_of
from bench.workloads import OWN
from commitlog.tools import cli
from commitlog.tools.bench import harness
from commitlog.tools.bench.case import QUICK, Case, Settings
from commitlog.tools.bench.results import json_text

FULL = ROOT / "build" / "bench.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = parser_of("bench", __doc__)
    parser.add_argument(
        "--quick", action="store_true", help="measure at sizes that take seconds, and keep nothing"
    )
    given = parser.parse_args(arguments)
    FULL.parent.mkdir(exist_ok=True)
    FULL.unlink(missing_ok=True)
    flags = [
        flag for flag, chosen in (("--quick", given.quick), ("--memory", given.memory)) if chosen
    ]
    status = cli.run(
        [
            "bench",
            str(given.directory),
            *flags,
            "--json",
            str(FULL),
            "--html",
            str(FULL.with_suffix(".html")),
        ]
    )
    if status not in (0, cli.FAILURE) or not FULL.exists() or not FULL.stat().st_size:
        return status
    own = harness.run(
        given.directory,
        [(workload, workload.cases()) for workload in OWN],
        QUICK if given.quick else Settings(),
        tell,
        lambda results: None,
    )
    results = json.loads(FULL.read_text(encoding="utf-8"))
    results["cases"] += own.as_object()["cases"]
    results["seconds"] += own.seconds
    FULL.write_text(json_text(results), encoding="utf-8")
    print(headline.table(headline.reduced(results)), end="")
    if own.interrupted:
        return cli.INTERRUPTED
    if not given.quick:
        headline.keep(FULL)
        headline.main([])
    return cli.FAILURE if own.failures else status


def tell(case: Case, _done: int, _total: int) -> None:
    """Print a line a turn."""
    print(case.name, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
