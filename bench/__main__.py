"""``python -m bench [OPTIONS]``: the full benchmark, beside the checkout's own disk.

Takes the options of `commitlog bench`. The full results go to `build/bench.json` and `build/bench.html`. What the README uses of them is
kept in `bench/results/bench.json`: the goals, and the curves from which the picture in `docs/images/` is drawn. A quick run is only shown.
Other measurements have modules of their own: `python -m bench.commit_copy`, `python -m bench.tuning`, `python -m bench.instructions`,
`python -m bench.peers`, `python -m bench.spark`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from bench import headline
from commitlog import cli

FULL = headline.HERE.parent / "build" / "bench.json"


def main(arguments: Sequence[str]) -> int:
    """Run; the exit status."""
    if "--quick" in arguments:
        return cli.run(["bench", str(headline.HERE), *arguments])
    FULL.parent.mkdir(exist_ok=True)
    FULL.unlink(missing_ok=True)
    status = cli.run(["bench", str(headline.HERE), "--json", str(FULL), "--html", str(FULL.with_suffix(".html")), *arguments])
    if status in (0, cli.FAILURE) and FULL.exists() and not json.loads(FULL.read_text(encoding="utf-8"))["interrupted"]:
        headline.keep(FULL)
        headline.main([])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
