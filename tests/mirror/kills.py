"""Kill mirrors and their broker at random, and compare every record.

    python -m tests.mirror.kills --kills 25 --seed 1 2 3 4 --json build/mirror.json

One log goes to two topics, exactly once and at least once, and the first topic goes to another log:
three programs `commitlog mirror`. Each that ends by itself is started again, as a service would be.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import commitlog
from commitlog import CommitLog
from commitlog.mirror import Repeats
from tests.figures import written
from tests.mirror.kafka_server import KafkaServer, missing
from tests.mirror.topics import are_ordered, header, records_of, rows_in, rows_of

PARTITIONS, KEYS = 3, 50
APPENDS = 1_000
LIMIT_S = 180.0


class Program:
    """`commitlog mirror` as a service."""

    def __init__(self, name: str, folder: Path, *arguments: str) -> None:
        self.name, self.ended = name, 0
        self._begun = 0  # how often it says so if it was never killed before it did
        self._output = folder / f"{name}.txt"
        command = [sys.executable, "-m", "commitlog.tools.cli", "mirror", *arguments]
        self._command = ["nice", "-n", "10", *command, "--interval", "1s"]
        self.start()

    def start(self) -> None:
        self._begun = 1 + (self._output.read_text().count("mirroring from") if self._begun else 0)
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def keep(self) -> None:
        """Start the program again if it has ended by itself."""
        if self._process.poll() is not None:
            self.ended += 1
            self.start()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def is_mirroring(self) -> bool:
        """Return whether the program has begun since it was started last."""
        return self._output.read_text().count("mirroring from") >= self._begun

    def said(self) -> str:
        return self._output.read_text()[-1500:]


def drive(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill so many times while records are appended; return the figures, and what is wrong."""
    chance = random.Random(seed)
    source, copy = folder / "source", folder / "copy"
    commitlog.open(copy, segment_size="1MiB").close()
    with (
        KafkaServer(folder / "server") as server,
        commitlog.open(source, segment_size="1MiB") as log,
    ):
        exact, least = server.create("exact", PARTITIONS), server.create("least", PARTITIONS)
        programs = [
            Program("exact", folder, "--transactional-id", "exact", str(source), exact),
            Program("least", folder, str(source), least),
            Program("back", folder, "--from", str(copy), exact),
        ]
        killed: Counter[str] = Counter()
        try:
            for _ in range(kills):
                victim = chance.choice([*programs, None])
                if chance.random() < 0.9:  # the others hit a program that begins
                    _await_all(programs if victim is None else [victim])
                for _ in range(chance.randrange(1, 5)):
                    _append(log, chance)
                    time.sleep(chance.uniform(0, 0.3))
                killed["broker" if victim is None else victim.name] += 1
                if victim is None:
                    server.kill()
                    server.start()
                else:
                    victim.kill()
                    victim.start()
            _append(log, chance)
            log.flush()
            is_done = _wait(log, copy, programs)
        finally:
            for each in programs:
                each.kill()
        ended = {each.name: each.ended for each in programs}
        wrong = [] if is_done else [f"{each.name}: not done: {each.said()}" for each in programs]
        found = _compare(log, copy, server, wrong)
    return {"kills": dict(killed), "ended_by_themselves": ended, **found, "wrong": wrong}


def _await_all(programs: list[Program]) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not all(each.is_mirroring() for each in programs) and time.monotonic() < until_s:
        time.sleep(0.05)
        for each in programs:
            each.keep()


def _append(log: CommitLog, chance: random.Random) -> None:
    for _ in range(APPENDS):
        key = b"k%d" % chance.randrange(KEYS)
        log.append(b"%d" % chance.getrandbits(200), key=key, sync=False)


def _wait(log: CommitLog, copy: Path, programs: list[Program]) -> bool:
    count, until_s = log.count(), time.monotonic() + LIMIT_S
    with commitlog.open(copy, "r") as reader:
        while time.monotonic() < until_s:
            places = [state.position for state in log.tailers()]
            if reader.count() >= count and places == [log.tail_position] * 2:
                return True
            time.sleep(0.2)
            for each in programs:
                each.keep()
    return False


def _compare(log: CommitLog, copy: Path, server: KafkaServer, wrong: list[str]) -> dict[str, Any]:
    rows = rows_in(log)
    exact = records_of(server.address, "exact")
    if rows_of(exact) != rows:
        wrong.append(f"exact: {len(exact)} records of {len(rows)}, or others")
    if not are_ordered(exact):
        wrong.append("exact: records are not in the order of the log")
    sent, repeats = records_of(server.address, "least"), Repeats()
    once = [each for each in sent if not repeats.has(each.partition(), each.headers())]
    if rows_of(once) != rows:
        wrong.append(f"least: {len(once)} records of {len(rows)} without repeats, or others")
    if not are_ordered(once):
        wrong.append("least: records are not in the order of the log")
    with commitlog.open(copy, "r") as reader, reader.tailer() as tailer:
        got = [(record.key, record.value) for record in tailer]
    if _by_key(got) != _by_key([(key, value) for _, key, value in rows]):
        wrong.append(f"back: {len(got)} records of {len(rows)}, or others, or in another order")
    if any(header(each, "commitlog-epoch") != b"0" for each in exact):
        wrong.append("exact: the epoch is not 0")
    return {"records": len(rows), "repeats": len(sent) - len(once), "received": len(got)}


def _by_key(rows: list[tuple[bytes | None, bytes]]) -> dict[bytes | None, list[bytes]]:
    found: dict[bytes | None, list[bytes]] = defaultdict(list)
    for key, value in rows:
        found[key].append(value)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    seed = int(os.environ.get("COMMITLOG_SEED", "1"))
    parser.add_argument("--seed", type=int, nargs="+", default=[seed], help="a run for each")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    wanting = missing()
    if wanting is not None:
        print(wanting)
        return 1
    runs = []
    for seed in given.seed:
        with tempfile.TemporaryDirectory(prefix="mirror-") as folder:
            began_s = time.monotonic()
            figures = drive(Path(folder), given.kills, seed)
            runs.append(figures | {"seed": seed, "seconds": round(time.monotonic() - began_s, 1)})
        print(runs[-1], flush=True)
    if given.json is not None:
        written(given.json, "mirror", {"runs": runs})
    return 1 if any(run["wrong"] for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
