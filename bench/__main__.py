"""``python -m bench [OPTIONS]``: the full benchmark, beside the checkout's own disk, with its results kept in `bench/results/`.

Takes the options of `commitlog bench`. What else is measured here has a module of its own: `python -m bench.commit_copy`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from commitlog import cli

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"

if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    kept = ["--json", str(RESULTS / "bench.json"), "--html", str(RESULTS / "bench.html")]
    sys.exit(cli.run(["bench", str(HERE), *kept, *sys.argv[1:]]))
