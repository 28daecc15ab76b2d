"""``python -m bench.spark [DIR]``: reading, streams and writing in Spark, each against its goal, in
one session on two cores.

Needs the extra `spark`. Results go to ``bench/results/spark.json`` and ``docs/spark.md``. ``--scale
0.01`` takes a minute, and its figures mean nothing.
"""

from __future__ import annotations

import datetime as dt
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.arguments import ROOT, parser_of
from bench.spark import rows, table
from commitlog.errors import CommitLogError
from commitlog.tools.bench.machine import check_disk, describe
from commitlog.tools.bench.results import json_text

RESULTS = ROOT / "bench" / "results" / "spark.json"
PAGE = ROOT / "docs" / "spark.md"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("bench.spark", __doc__)
    parser.add_argument(
        "--row",
        action="append",
        choices=list(rows.BY_NAME),
        help="only this row; may be given several times",
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="a part of the 2,000,000 records, to see that it works",
    )
    parser.add_argument(
        "--turns", type=int, default=4, help="how often each is measured, after one warm-up (4)"
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark's, to try it",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="where the results go (bench/results/spark.json)"
    )
    given = parser.parse_args(arguments)
    if not 0 < given.scale <= 1 or given.turns < 1:
        parser.error("--scale is above 0 and at most 1, and --turns at least 1")
    config = dict(setting.partition("=")[::2] for setting in given.conf)
    try:
        check_disk(given.directory, given.memory)
        with tempfile.TemporaryDirectory(prefix="spark-bench-", dir=given.directory) as folder:
            setting = rows.Setting(
                Path(folder), round(2_000_000 * given.scale), given.turns, config
            )
            measured = setting.run(given.row or list(rows.BY_NAME))
    except (CommitLogError, OSError, ModuleNotFoundError) as error:
        print(f"spark: {error}", file=sys.stderr)
        return 1
    results = {
        "measured": dt.datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": describe(given.directory),
        "records": setting.records,
        "turns": given.turns,
        "config": config,
        "rows": measured,
    }
    if given.json or given.scale == 1.0:
        (given.json or RESULTS).write_text(json_text(results), encoding="utf-8")
    if given.json is None and given.scale == 1.0:
        table.PLACE.write(PAGE, table.render(results))
    print(table.render(results), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
