"""Simulated power cuts, sector by sector, in large numbers: no file system, only the log's files.

`python -m tests.faults.device.pages --images 100000 --seed 7 --json figures.json`. A writer runs
with the shim, which knows what is durable. It is stopped at random moments, and each moment gives
many images: all that is durable, and some of the other sectors and names.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from tests.faults import shim as shims
from tests.faults.child import Child, Report
from tests.faults.device import system
from tests.faults.device.checks import check_records, check_sound, found_in, read
from tests.faults.device.diary import Story
from tests.faults.shim import Shim
from tests.faults.test_power_cut import POOLS, append_and_flush
from tests.faults.writers import SHM_PREFIX, close_log, open_log
from tests.figures import written
from tests.preloaded import ending_the_process

_MOMENTS, _IMAGES = 6, 50  # of a writer; of a moment
_SHARES = [0.1, 0.3, 0.5, 0.7, 0.9, 0.98]
_VERIFY_EVERY = 10


def main() -> int:
    """Run the leg and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000, help="how many [default: 10000]")
    parser.add_argument("--seed", type=int, help="[default: a random one]")
    parser.add_argument("--json", type=Path, help="the file for the figures")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="writers at a time")
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="commitlog-pages-", dir="/dev/shm") as folder:
        shares = _in_processes(options.images, options.processes, seed, Path(folder))
    images, records = sum(each[0] for each in shares), sum(each[1] for each in shares)
    errors = [error for each in shares for error in each[2]]
    seconds = time.monotonic() - began
    figures = {
        "seed": seed,
        "images": images,
        "seconds": round(seconds, 1),
        "images_per_second": round(images / seconds, 1),
        "workloads": [f"{way}-{kind}" for way in ("sync", "flush") for kind in POOLS],
        "acknowledged": records,
        "lost": len(errors),
        "errors": errors,
    }
    if options.json:
        written(options.json, "simulated power cuts by sector", figures)
    print(*errors, sep="\n", file=sys.stderr)
    print(
        f"{images} images, seed {seed}: {records} acknowledged records, {len(errors)} errors; "
        f"{figures['images_per_second']} images a second"
    )
    return 1 if errors or images < options.images else 0


def _in_processes(
    images: int, processes: int, seed: int, space: Path
) -> list[tuple[int, int, list[str]]]:
    """Divide the images among processes; return what each of them found."""
    library = shims.build(space)
    pids = []
    for number in range(processes):
        pid = os.fork()
        if pid == 0:
            with ending_the_process():
                system.end_with_parent()
                os.environ[SHM_PREFIX] = secrets.token_hex(8)
                folder = space / str(number)
                folder.mkdir()
                share = images // processes + (number < images % processes)
                found = _check_share(share, f"{seed} {number}", library, folder)
                (space / f"found-{number}").write_text(json.dumps(found))
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    found = [space / f"found-{number}" for number in range(processes)]
    failed = (0, 0, ["a process ended early: see its traceback"])
    return [json.loads(each.read_text()) if each.exists() else failed for each in found]


def _check_share(images: int, seed: str, library: Path, space: Path) -> tuple[int, int, list[str]]:
    """Check that many images, from as many writers as are needed."""
    done = records = turn = 0
    errors: list[str] = []
    while done < images:
        folder = space / str(turn)
        folder.mkdir()
        name = f"{seed} {turn}"
        for count, error in _writer(name, turn, Shim(library, folder), folder):
            done, records = done + 1, records + count
            errors += [f"image {done} of writer {name!r}: {error}"] if error else []
            if done == images:
                break
        shutil.rmtree(folder)
        turn += 1
    return done, records, errors


def _writer(name: str, turn: int, shim: Shim, folder: Path) -> Iterator[tuple[int, str]]:
    """Run one writer; yield the acknowledged records of each image, and what it lacks."""
    numbers = random.Random(name)
    kind, sync = list(POOLS)[turn % 3], turn // 3 % 2 == 0
    environment = shim.environment(shadow=True)
    live = folder / "live"
    child = Child(append_and_flush, str(live), sync, POOLS[kind], environment=environment)
    reports: list[Report] = []
    try:
        for _ in range(_MOMENTS):
            reports += child.hear(numbers.randint(2, 60))
            reports += child.pause()
            story = Story(reports, reports, reports)
            for index in range(_IMAGES):
                target = folder / "cut"
                share = 0.0 if index == 0 else numbers.choice(_SHARES)
                shim.cut_power(live, target, numbers, share)
                try:
                    yield _check(target, story, verified=index % _VERIFY_EVERY == 0), ""
                except Exception:  # noqa: BLE001 - the error is counted
                    yield 0, traceback.format_exc(limit=-3)
                shutil.rmtree(target)
            child.resume()
    finally:
        child.end()


def _check(target: Path, story: Story, *, verified: bool) -> int:
    """Compare an image with the story; return how many records were acknowledged."""
    if verified:
        check_sound(target)
    before = read(target)
    log, pool = open_log(str(target), None, {"flush": "none"})
    after = found_in(log)
    close_log(log, pool)
    assert after == before, "a reader before the recovery and one after it disagree"
    return check_records(after, story)


if __name__ == "__main__":
    sys.exit(main())
