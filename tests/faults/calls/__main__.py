"""Let each call of each act fail, at every N, with each errno it may have, once and forever.

    python -m tests.faults.calls --json build/calls.json
    python -m tests.faults.calls --tenth 4
    python -m tests.faults.calls --case "roll: fsync 2 EIO once"

Without `--tenth` and `--case`, all cases run, which takes about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from tests.faults.calls import preload, worker
from tests.faults.calls.acts import ACTS
from tests.faults.calls.plan import TENTHS, cases_of, tenth_of
from tests.faults.calls.worker import Case
from tests.faults.child import Child
from tests.figures import written

_SHOWN = 20  # failures


class Workers:
    """A worker for each thread that asks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library = preload.build(folder)
        self._mine = threading.local()
        self._lock = threading.Lock()
        self._made: list[Child] = []

    def ask(self, act: str, fault: preload.Fault | None = None) -> Any:
        """Return the outcome of a case, or without a fault the calls of an act."""
        child, folder = self._own()
        (folder / "wanted").write_text(json.dumps([act, fault]))
        child.go_on()
        child.hear(1, limit_s=4 * worker.LIMIT_S)
        return json.loads((folder / "outcome").read_text())

    def _own(self) -> tuple[Child, Path]:
        if not hasattr(self._mine, "child"):
            with self._lock:
                folder = self._folder / f"worker{len(self._made)}"
                folder.mkdir()
                state = folder / "shim-state"
                state.write_bytes(bytes(4096))
                variables = {"LD_PRELOAD": self._library, "COMMITLOG_SHIM_STATE": str(state)}
                self._mine.child = Child(worker.serve, str(folder), environment=variables)
                self._mine.folder = folder
                self._made.append(self._mine.child)
        return self._mine.child, self._mine.folder

    def close(self) -> None:
        for child in self._made:
            child.end()


def _plan(workers: Workers) -> list[Case]:
    found = []
    for act in ACTS:
        found += cases_of(act, [kind for kind, _ in workers.ask(act)])
    return found


def _run(workers: Workers, cases: list[Case], threads: int) -> Iterator[dict[str, Any]]:
    with ThreadPool(threads) as pool:
        yield from pool.imap_unordered(lambda case: workers.ask(*case), cases)


def _summary(results: list[dict[str, Any]], planned: int) -> dict[str, Any]:
    by_act: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for result in results:
        counts = by_act[result["case"].partition(":")[0]]
        counts["cases"] += 1
        counts["met"] += result["met"]
        counts["raised"] += bool(result["raised"])
        counts["broken"] += bool(result["broken"])
    return {
        "planned": planned,
        "cases": len(results),
        "met": sum(result["met"] for result in results),
        "raised": sum(bool(result["raised"]) for result in results),
        "broken": sum(bool(result["broken"]) for result in results),
        "longest_s": max((result["seconds"] for result in results), default=0.0),
        "acts": by_act,
        "failures": [result for result in results if result["broken"]],
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.calls")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--tenth", help="run a tenth: 0 to 9, or 'today' for one by the date")
    parser.add_argument("--case", help="run one case, by its name")
    parser.add_argument("--act", choices=ACTS, help="run the cases of one act")
    # A case waits for threads and timeouts more than half of its time.
    parser.add_argument("--workers", type=int, default=2 * len(os.sched_getaffinity(0)))
    return parser.parse_args()


def _chosen(cases: list[Case], given: argparse.Namespace) -> list[Case]:
    if given.tenth is not None:
        tenth = int(time.time() // 86400) if given.tenth == "today" else int(given.tenth)
        print(f"tenth {tenth % TENTHS} of {TENTHS}", flush=True)
        cases = tenth_of(cases, tenth)
    if given.act is not None:
        cases = [case for case in cases if case.act == given.act]
    if given.case is not None:
        cases = [case for case in cases if case.name == given.case]
        if not cases:
            sys.exit(f"there is no case {given.case!r}")
    return cases


def main() -> None:
    given = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="calls-", dir="/dev/shm"))
    workers = Workers(folder)
    results = []
    try:
        planned = _plan(workers)
        for result in _run(workers, _chosen(planned, given), given.workers):
            results.append(result)
            if result["broken"]:
                print(result["case"], *result["broken"], sep="\n", flush=True)
            if given.case is not None:
                print(json.dumps(result, indent=1))
    finally:
        workers.close()
    figures = _summary(results, len(planned))
    print(
        f"{figures['cases']} cases, {figures['met']} of them met; errors in "
        f"{figures['raised']}; {figures['broken']} broke a promise; "
        f"the longest took {figures['longest_s']:.1f} s"
    )
    if given.json is not None:
        written(given.json, "failing calls", figures)
    if not figures["broken"]:
        shutil.rmtree(folder)
    sys.exit(figures["broken"] > 0)


if __name__ == "__main__":
    main()
