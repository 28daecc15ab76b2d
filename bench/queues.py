"""Work queues: jobs a second, and the time from a put to a take.

    python -m bench.queues [--rounds 7] [--jobs 200000] [--json FILE]

Each round takes and accepts all jobs of a new log; the figures are the medians of the rounds. Peers
are measured if their packages are installed: persist-queue, huey, litequeue.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import commitlog
from commitlog.errors import NoJobError

_VALUE = b"x" * 100
_PEER_JOBS = 2000  # they are that much slower
_PINGS = 2000


def fill(path: Path, jobs: int) -> None:
    with commitlog.open(path) as log:
        log.append_many([_VALUE] * jobs)


def take_all(path: Path, batch: int, *, sync: bool = False) -> None:
    """Take and accept until there are no more."""
    with commitlog.queue(path, "bench", sync=sync) as queue:
        if batch == 1:
            try:
                while True:
                    queue.take(0).accept()
            except NoJobError:
                return
        for _ in queue.taking(batch=batch, timeout=0):
            pass


def rate(folder: Path, jobs: int, workers: int, batch: int, *, sync: bool = False) -> float:
    """Return jobs a second, from the start of the work, not of the processes, to its end."""
    path = folder / f"log{time.monotonic_ns()}"
    fill(path, jobs)
    with commitlog.queue(path, "bench"):
        pass
    if workers == 1:
        began = time.perf_counter()
        take_all(path, batch, sync=sync)
        return jobs / (time.perf_counter() - began)
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(workers + 1)

    def work() -> None:
        ready.wait()
        take_all(path, batch, sync=sync)

    processes = [context.Process(target=work) for _ in range(workers)]
    for process in processes:
        process.start()
    ready.wait()
    began = time.perf_counter()
    for process in processes:
        process.join()
    return jobs / (time.perf_counter() - began)


def latency_us(folder: Path) -> float:
    """Return the median time from a put in one process to the take in another one that waits."""
    path = folder / f"log{time.monotonic_ns()}"
    with commitlog.queue(path, "bench"):
        pass
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def work() -> None:
        with commitlog.queue(path, "bench") as queue:
            theirs.send(0)
            times = []
            for _ in range(_PINGS):
                job = queue.take("30s")
                times.append(time.monotonic_ns() - int(job.value))
                job.accept()
                theirs.send(0)
            theirs.send(statistics.median(times) / 1000)

    process = context.Process(target=work)
    process.start()
    with commitlog.open(path) as log:
        ours.recv()
        for _ in range(_PINGS):
            time.sleep(0.0005)  # until the worker sleeps
            log.append(b"%d" % time.monotonic_ns())
            ours.recv()
        found = float(ours.recv())
    process.join()
    return found


# --- peers ----------------------------------------------------------------------------------------


def persist_queue(folder: Path) -> float:
    queue = importlib.import_module("persistqueue").SQLiteAckQueue(str(folder / "persist"))
    for _ in range(_PEER_JOBS):
        queue.put(_VALUE)
    began = time.perf_counter()
    for _ in range(_PEER_JOBS):
        queue.ack(queue.get())
    return _PEER_JOBS / (time.perf_counter() - began)


def huey(folder: Path) -> float:
    storage = importlib.import_module("huey.storage").SqliteStorage(filename=str(folder / "huey"))
    for _ in range(_PEER_JOBS):
        storage.enqueue(_VALUE)
    began = time.perf_counter()
    for _ in range(_PEER_JOBS):
        storage.dequeue()
    return _PEER_JOBS / (time.perf_counter() - began)


def litequeue(folder: Path) -> float:
    queue = importlib.import_module("litequeue").LiteQueue(str(folder / "lite"))
    for _ in range(_PEER_JOBS):
        queue.put("x" * 100)
    began = time.perf_counter()
    for _ in range(_PEER_JOBS):
        queue.done(queue.pop().message_id)
    return _PEER_JOBS / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    jobs, few = given.jobs, max(1, given.jobs // 100)
    rows: dict[str, Callable[[Path], float]] = {
        "one worker, batches of 100, jobs/s": lambda folder: rate(folder, jobs, 1, 100),
        "one worker, singly, jobs/s": lambda folder: rate(folder, jobs, 1, 1),
        "two workers, batches of 100, jobs/s": lambda folder: rate(folder, jobs, 2, 100),
        "four workers, batches of 100, jobs/s": lambda folder: rate(folder, jobs, 4, 100),
        "one worker, sync, jobs/s": lambda folder: rate(folder, few, 1, 1, sync=True),
        "16 workers, sync, jobs/s": lambda folder: rate(folder, few, 16, 1, sync=True),
        "put to take, p50, us": latency_us,
        "persist-queue, jobs/s": persist_queue,
        "huey on SQLite, jobs/s": huey,
        "litequeue, jobs/s": litequeue,
    }
    figures = {}
    for name, measure in rows.items():
        found = []
        try:
            for _ in range(given.rounds):
                with tempfile.TemporaryDirectory() as folder:
                    found.append(measure(Path(folder)))
        except ModuleNotFoundError as error:
            print(f"{name:40} not measured: {error}")
            continue
        figures[name] = statistics.median(found)
        print(f"{name:40} {figures[name]:>14,.1f}")
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
