"""Work queues: jobs a second, and the time from a put to a take.

    python -m bench.queues [--quick] [--rounds 7] [--jobs 200000] [--json FILE]

Each round takes and accepts all jobs of a new log; the figures are the medians of the rounds. Peers
are measured if their packages are installed: persist-queue, huey, litequeue; redis and the server
`redis-server`; pika and `rabbitmq-server`.
"""

from __future__ import annotations

import argparse
import json
import mmap
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import commitlog
from bench import queue_peers as peers
from commitlog.errors import NoJobError
from commitlog.queues.compiled.leases import TABLE_SIZE, LeaseTable

_VALUE = b"x" * 100


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


def latency_us(folder: Path, pings: int, *, spins: bool) -> float:
    """Return the median time from a put in one process to the take in another one, which waits."""
    path = folder / f"log{time.monotonic_ns()}"
    with commitlog.queue(path, "bench"):
        pass
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def work() -> None:
        with commitlog.queue(path, "bench") as queue:
            theirs.send(0)
            times = []
            for _ in range(pings):
                if spins:
                    while not (jobs := queue.take_many(1, 0)):
                        pass
                    job = jobs[0]
                else:
                    job = queue.take("30s")
                times.append(time.monotonic_ns() - int(job.value))
                job.accept()
                theirs.send(0)
            theirs.send(statistics.median(times) / 1000)

    process = context.Process(target=work)
    process.start()
    with commitlog.open(path) as log:
        ours.recv()
        for _ in range(pings):
            time.sleep(0.0005)  # until the worker sleeps
            log.append(b"%d" % time.monotonic_ns())
            ours.recv()
        found = float(ours.recv())
    process.join()
    return found


def futex_us(pings: int) -> float:
    """Return the same of a bare wake of a futex: what no queue can be below."""
    memory = mmap.mmap(-1, TABLE_SIZE)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    table = LeaseTable(memory, True, -1, "bench")

    def work() -> None:
        times = []
        theirs.send(0)
        for _ in range(pings):
            seen = table.ready
            theirs.send(0)
            while table.ready == seen:
                table.sleep(seen, 1_000_000_000)
            times.append(time.monotonic_ns() - int.from_bytes(memory[-8:], "little"))
        theirs.send(statistics.median(times) / 1000)

    process = context.Process(target=work)
    process.start()
    ours.recv()
    for _ in range(pings):
        ours.recv()
        time.sleep(0.0005)
        memory[-8:] = time.monotonic_ns().to_bytes(8, "little")
        table.wake()
    found = float(ours.recv())
    process.join()
    return found


def rows_of(jobs: int, pings: int, peer_jobs: int) -> dict[str, Callable[[Path], float]]:
    """Return what is measured, in the order of the table."""
    few = max(100, jobs // 100)
    return {
        "one worker, batches of 100, jobs/s": lambda folder: rate(folder, jobs, 1, 100),
        "one worker, singly, jobs/s": lambda folder: rate(folder, jobs, 1, 1),
        "two workers, batches of 100, jobs/s": lambda folder: rate(folder, jobs, 2, 100),
        "four workers, batches of 100, jobs/s": lambda folder: rate(folder, jobs, 4, 100),
        "one worker, sync, jobs/s": lambda folder: rate(folder, few, 1, 1, sync=True),
        "16 workers, sync, jobs/s": lambda folder: rate(folder, 16 * few, 16, 1, sync=True),
        "put to take, waiting, p50, us": lambda folder: latency_us(folder, pings, spins=False),
        "put to take, spinning, p50, us": lambda folder: latency_us(folder, pings, spins=True),
        "bare futex wake, p50, us": lambda folder: futex_us(pings),
        "persist-queue, jobs/s": lambda folder: peers.persist_queue(folder, peer_jobs),
        "huey on SQLite, jobs/s": lambda folder: peers.huey(folder, peer_jobs),
        "litequeue, jobs/s": lambda folder: peers.litequeue(folder, peer_jobs),
        "Redis streams, 100 at once, jobs/s": lambda folder: peers.redis_streams(
            folder, 10 * peer_jobs, 100
        ),
        "Redis streams, singly, jobs/s": lambda folder: peers.redis_streams(folder, peer_jobs, 1),
        "RabbitMQ, 100 at once, jobs/s": lambda folder: peers.rabbitmq(folder, 10 * peer_jobs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--quick", action="store_true", help="one round of few jobs: does it run?")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rounds = 1 if given.quick else given.rounds
    jobs, pings, peer_jobs = (5000, 50, 200) if given.quick else (given.jobs, 2000, 2000)
    figures = {}
    for name, measure in rows_of(jobs, pings, peer_jobs).items():
        found = []
        try:
            for _ in range(rounds):
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                    found.append(measure(Path(folder)))
        except (ModuleNotFoundError, FileNotFoundError) as error:
            print(f"{name:40} not measured: {error}", flush=True)
            continue
        figures[name] = statistics.median(found)
        print(f"{name:40} {figures[name]:>14,.1f}", flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
