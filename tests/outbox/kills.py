"""Kill applications and relays of an outbox at random, on SQLite and on a PostgreSQL of its own.

    python -m tests.outbox.kills --kills 200 --json build/outbox.json

PostgreSQL is crashed itself at each 40th kill.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.figures import written
from tests.outbox.postgresql import Server
from tests.outbox.shop import kill_often


def drive(kills: int, seed: int, server: Server | None) -> dict[str, Any]:
    """Kill so many times; return the figures, and what is wrong."""
    began_s = time.monotonic()
    wrong, rows = [], 0
    with tempfile.TemporaryDirectory(prefix="outbox-") as folder:
        url = f"sqlite:///{folder}/shop.db" if server is None else server.url
        crash = None if server is None else server.crash
        try:
            rows = kill_often(url, Path(folder, "log"), kills, seed, crash)
        except AssertionError as error:
            wrong.append(str(error))
    return {
        "database": "SQLite" if server is None else "PostgreSQL",
        "kills": kills,
        "seed": seed,
        "rows": rows,
        "seconds": round(time.monotonic() - began_s, 1),
        "wrong": wrong,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="of each database")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("COMMITLOG_SEED", "1")))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    runs = [drive(given.kills, given.seed, None)]
    print(runs[-1], flush=True)
    server = Server()
    try:
        runs.append(drive(given.kills, given.seed, server))
    finally:
        server.stop()
    print(runs[-1], flush=True)
    if given.json is not None:
        written(given.json, "outbox", {"runs": runs})
    return 1 if any(run["wrong"] for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
