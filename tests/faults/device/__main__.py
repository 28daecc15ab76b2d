"""Run power cuts: `python -m tests.faults.device --cuts 5000 --seed 7 --json figures.json`."""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.faults.device import system
from tests.faults.device.file_systems import FILE_SYSTEMS, missing
from tests.faults.device.run import LIES, Failure, Job, Result, check_cuts, run
from tests.faults.device.workloads import WORKLOADS
from tests.figures import written
from tests.host import ROOT
from tests.preloaded import compiled

_MOST_A_RUN, _LEAST_A_RUN = 40, 4
_SIZE = "size=6g"
# Where each run has its files, in its own namespace: a log notes the path of its store.
SPACE = Path("/mnt")


def main() -> int:
    """Run the leg and return its exit status."""
    options = _parse()
    if options.lie and "lies" not in os.environ.get("LD_PRELOAD", ""):
        return _preload_lies()
    lacks = missing(options.file_system)
    if lacks:
        print("tests.faults.device cannot run here; it lacks:", file=sys.stderr)
        print(*(f"  {each}" for each in lacks), sep="\n", file=sys.stderr)
        return 2
    seed = secrets.randbits(32) if options.seed is None else options.seed
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    system.enter_namespace()
    with tempfile.TemporaryDirectory(prefix="commitlog-device-") as folder:
        space = Path(folder)
        system.mount("none", space, "tmpfs", _SIZE)
        try:
            if options.replay:
                return _replay(options.replay, options.cut, space)
            return _run_all(options, seed, space)
        finally:
            system.unmount(space, lazy=True)


def _preload_lies() -> int:
    """Run this program again with the library that can skip calls."""
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(ROOT / "tests" / "faults" / "lies.c", Path(folder))
        command = [sys.executable, "-m", "tests.faults.device", *sys.argv[1:]]
        variables = os.environ | {"LD_PRELOAD": str(library)}
        return subprocess.run(command, env=variables, check=False).returncode


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.device", description=__doc__)
    parser.add_argument("--cuts", type=int, default=100, help="how many [default: 100]")
    parser.add_argument("--seed", type=int, help="[default: a random one]")
    parser.add_argument("--json", type=Path, help="the file for the figures")
    parser.add_argument(
        "--file-system", action="append", choices=FILE_SYSTEMS, help="[default: all]"
    )
    parser.add_argument("--workload", action="append", choices=WORKLOADS, help="[default: all]")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument(
        "--keep",
        type=Path,
        default=ROOT / "build" / "cuts",
        help="where the records of failed cuts are kept [default: build/cuts]",
    )
    parser.add_argument(
        "--lie", choices=LIES, help="let the workloads skip these calls: the cuts have to notice"
    )
    parser.add_argument("--replay", type=Path, help="a kept record; check its failed cuts again")
    parser.add_argument("--cut", type=int, help="with --replay: the number of one cut")
    options = parser.parse_args()
    options.file_system = options.file_system or list(FILE_SYSTEMS)
    options.workload = options.workload or list(WORKLOADS)
    return options


def _jobs(options: argparse.Namespace, seed: int) -> Iterator[Job]:
    """Yield runs until they have all cuts; each workload comes once before any comes again."""
    numbers = random.Random(f"{seed} jobs")
    pairs = len(options.workload) * len(options.file_system)
    size = max(_LEAST_A_RUN, min(_MOST_A_RUN, options.cuts // pairs))
    kinds = list(options.file_system)
    first = turn = 0
    while first < options.cuts:
        workloads = list(options.workload)
        numbers.shuffle(workloads)
        for workload in workloads:
            count = min(size, options.cuts - first)
            if count > 0:
                kind = kinds[turn % len(kinds)]
                yield Job(seed, kind, workload, first, count, options.lie)
            first, turn = first + count, turn + 1
        numbers.shuffle(kinds)


def _run_all(options: argparse.Namespace, seed: int, space: Path) -> int:
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    results = []
    status = 0
    try:
        for result in _in_processes(list(_jobs(options, seed)), options, space):
            results.append(result)
            _tell(result, began, sum(each.cuts for each in results))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 130  # the end of this process ends all others, and with them the mounts
    figures = _figures(results, seed, time.monotonic() - began)
    if options.json:
        written(options.json, "power cuts of a block device", figures)
    print(
        f"{figures['cuts']} cuts in {figures['runs']} runs, seed {seed}: "
        f"{figures['acknowledged']} acknowledged records, {len(figures['errors'])} errors; "
        f"{figures['cuts_per_second']} cuts a second",
        flush=True,
    )
    if figures["errors"]:
        print(f"the records are in {options.keep}; --replay checks one again", flush=True)
    return status or int(bool(figures["errors"]) or figures["cuts"] < options.cuts)


def _in_processes(jobs: list[Job], options: argparse.Namespace, space: Path) -> Iterator[Result]:
    """Run jobs, each in a process of its own, some at a time; yield each result."""
    alive: dict[int, tuple[Job, Path]] = {}
    waiting = collections.deque(jobs)
    try:
        while waiting or alive:
            while waiting and len(alive) < options.processes:
                job = waiting.popleft()
                folder = space / f"{job.first}"
                folder.mkdir()
                alive[_start(job, folder, options.keep)] = (job, folder)
            pid, status = os.wait()
            job, folder = alive.pop(pid)
            yield _result(job, folder, status)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _result(job: Job, folder: Path, status: int) -> Result:
    """Return what the process of a job left."""
    if not (folder / "result").exists():
        text = f"the run ended with status {os.waitstatus_to_exitcode(status)}"
        return Result(job, failures=[Failure(None, text)])
    content = json.loads((folder / "result").read_text())
    failures = [Failure(**each) for each in content.pop("failures")]
    return Result(**content | {"job": job, "failures": failures})


def _start(job: Job, folder: Path, keep: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        system.end_with_parent()
        system.enter_namespace()  # no other run may hold a copy of a mount
        system.bind(folder, SPACE)
        result = run(job, SPACE, keep)
        (folder / "result").write_text(json.dumps(asdict(result)))
        status = 0
    finally:
        os._exit(status)


def _tell(result: Result, began: float, cuts: int) -> None:
    job = result.job
    print(
        f"{time.monotonic() - began:7.1f} s  {cuts:5} cuts  {job.file_system:14} "
        f"{job.workload:16} {result.entries:6} entries  {result.acknowledged:7} acknowledged"
        f"  {len(result.failures)} errors",
        flush=True,
    )
    for failure in result.failures:
        print(f"cut {failure.cut}: {failure.text}", file=sys.stderr, flush=True)


def _figures(results: list[Result], seed: int, seconds: float) -> dict[str, object]:
    """Return what the page of figures needs."""
    cuts = sum(each.cuts for each in results)
    by: dict[str, dict[str, int]] = {"file_systems": {}, "workloads": {}}
    for each in results:
        for name, key in (
            ("file_systems", each.job.file_system),
            ("workloads", each.job.workload),
        ):
            by[name][key] = by[name].get(key, 0) + each.cuts
    errors = [
        {
            "cut": failure.cut,
            "file_system": each.job.file_system,
            "workload": each.job.workload,
            "text": failure.text,
        }
        for each in results
        for failure in each.failures
    ]
    return {
        "seed": seed,
        "lie": results[0].job.lie if results else None,
        "runs": len(results),
        "cuts": cuts,
        "seconds": round(seconds, 1),
        "cuts_per_second": round(cuts / seconds, 1),
        **by,
        "writes_and_flushes": sum(each.entries for each in results),
        "acknowledged": sum(each.acknowledged for each in results),
        "lost": len(errors),
        "errors": errors,
    }


def _replay(kept: Path, cut: int | None, space: Path) -> int:
    """Check cuts of a kept record again: one, or all of its run."""
    shutil.copytree(kept, space / "record")
    system.bind(space / "record", SPACE)
    content = json.loads((SPACE / "job.json").read_text())
    span = (content.pop("begin"), content.pop("end"))
    job = Job(**content)
    result = Result(job)
    numbers = [cut] if cut is not None else list(range(job.first, job.first + job.count))
    for number in check_cuts(job, numbers, span, SPACE, result):
        print(f"cut {number} checked", flush=True)
    for failure in result.failures:
        print(f"cut {failure.cut}: {failure.text}")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
