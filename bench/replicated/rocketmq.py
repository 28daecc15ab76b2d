"""RocketMQ's store with a slave on loopback, SYNC_MASTER and SYNC_FLUSH, in turns with a log.

Its slave acknowledges a message when it has it in memory, before its flush, and its wire has no
TLS.
"""

from __future__ import annotations

import contextlib
import socket
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.peers.programs import OPEN, jars, run, stale
from bench.replicated.rows import VALUE, Figures, Setting, timed

_SOURCE = Path(__file__).with_name("RocketPair.java")


def beside_rocketmq(setting: Setting, home: Path) -> Figures:
    """One thread: an append with `require=1`, beside a message that waits for a slave."""
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    with (
        setting.followed("replicated") as log,
        _pair(setting.folder, home, setting.appends) as master,
    ):
        for turn in range(setting.turns + 1):  # the first one warms Java up
            taken = sorted(timed(lambda: log.append(VALUE)) for _ in range(setting.appends))
            mine = [taken[len(taken) // 2] / 1e3, taken[len(taken) * 99 // 100] / 1e3]
            assert master.stdin is not None
            assert master.stdout is not None
            master.stdin.write("\n")
            master.stdin.flush()
            while len(words := master.stdout.readline().split()) != 2:
                if not words:
                    raise OSError("RocketMQ has ended: see its message above")
            if turn:
                ours.append(mine)
                theirs.append([float(word) for word in words])
    p50, p99 = (statistics.median(values) for values in zip(*ours, strict=True))
    other_p50, other_p99 = (statistics.median(values) for values in zip(*theirs, strict=True))
    return {
        "replicated p50 us": p50,
        "replicated p99 us": p99,
        "RocketMQ p50 us": other_p50,
        "RocketMQ p99 us": other_p99,
        "p50, times RocketMQ's": statistics.median(
            mine[0] / other[0] for mine, other in zip(ours, theirs, strict=True)
        ),
    }


@contextlib.contextmanager
def _pair(folder: Path, home: Path, count: int) -> Iterator[subprocess.Popen[str]]:
    """Start a master and its slave; yield the master."""
    libraries, classes = jars(home, "rocketmq"), home / "classes" / "rocketpair"
    if stale(classes / "RocketPair.class", _SOURCE):
        classes.mkdir(parents=True, exist_ok=True)
        options = ("-nowarn", "-cp", f"{libraries}/*", "-d", classes)
        run("javac", "--release", "17", *options, _SOURCE, cwd=home)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    memory = ("-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=2g", f"-Duser.home={folder}")
    command = ("java", *memory, *OPEN, "-cp", f"{classes}:{libraries}/*", "RocketPair")
    started = [
        subprocess.Popen(
            [*command, role, str(folder / f"rocket-{role}"), port, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for role in ("master", "slave")
    ]
    try:
        yield started[0]
    finally:
        for process in started:
            process.kill()
            process.communicate()
