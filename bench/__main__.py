"""``python -m bench [OPTIONS]``: the full benchmark, beside the checkout's own disk.

Takes the options of `commitlog bench`. Its results are kept in `bench/results/`, as JSON and as a page, and the headline is drawn from them
(`docs/images/`); those of a quick run are only shown. What else is measured here has a module of its own: `python -m bench.commit_copy`,
`python -m bench.tuning`, `python -m bench.instructions`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from bench import headline
from commitlog import cli


def main(arguments: Sequence[str]) -> int:
    """Run; the exit status."""
    results = headline.RESULTS
    results.parent.mkdir(exist_ok=True)
    kept = [] if "--quick" in arguments else ["--json", str(results), "--html", str(results.with_suffix(".html"))]
    status = cli.run(["bench", str(headline.HERE), *kept, *arguments])
    if kept and status in (0, cli.FAILURE) and results.exists() and not json.loads(results.read_text(encoding="utf-8"))["interrupted"]:
        headline.main([])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
