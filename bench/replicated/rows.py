"""What is measured: each row alternates its sides, and returns figures by name."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import commitlog
from bench.replicated.peer import Peer, cpu_s
from commitlog.replication import Replication

VALUE = b"v" * 128
_COROUTINES = 64
_INTERLEAVED = 20  # appends, then as many of the other side
_WAIT_S = 120.0
_BLOCK = 1 << 20
_SEGMENT = 64 << 20

Figures = dict[str, float]


@dataclass
class Setting:
    """Where and how long a row measures.

    Attributes
    ----------
    folder : Path
        An empty directory on the disk that is measured.
    peer : Peer
        The process that follows.
    turns, appends, mebibytes : int
        Turns of a row, appends of a turn, and the size of a stream.
    """

    folder: Path
    peer: Peer
    turns: int
    appends: int
    mebibytes: int

    @contextmanager
    def log(
        self, name: str, *, flush: str = "sync", require: int | None = None
    ) -> Iterator[commitlog.CommitLog]:
        """Open a new log, which waits for `require` copies; without, it is not served."""
        path = self.folder / name
        rule = None
        if require is not None:
            rule = Replication(
                require=require, listen=f"{self.peer.host}:0", plain_text=True, timeout=_WAIT_S
            )
        with commitlog.open(path, flush=flush, segment_size=_SEGMENT, replicate=rule) as log:  # type: ignore[arg-type]
            yield log
        shutil.rmtree(path)

    @contextmanager
    def followed(
        self, name: str, *, flush: str = "sync", require: int = 1
    ) -> Iterator[commitlog.CommitLog]:
        """Open a new log that the other process follows."""
        with self.log(name, flush=flush, require=require) as log:
            self.attach(log, name)
            yield log
            self.peer.leave()
        shutil.rmtree(self.folder / f"{name}-copy")

    def attach(self, log: commitlog.CommitLog, name: str, copy: str = "copy") -> None:
        """Have the other process follow a log."""
        rule = log.options.replicate
        assert isinstance(rule, Replication)
        self.peer.follow(rule.server.port, name, self.folder / f"{name}-{copy}")


def latency(setting: Setting) -> Figures:
    """One thread: an append with `require=1`, beside a flush alone, a round trip alone, and both
    ends' flushes at once by plain sockets: these share the disk, as the copies do.
    """
    found: dict[str, list[float]] = {}

    with (
        setting.log("alone") as alone,
        setting.followed("replicated") as replicated,
        setting.peer.echo() as connection,
        setting.peer.echo(setting.folder / "far") as flushing,
    ):

        def round_trip() -> None:
            connection.sendall(VALUE)
            _receive(connection)

        def both_flushes() -> None:
            flushing.sendall(VALUE)
            alone.append(VALUE)
            _receive(flushing)

        for _ in range(100):
            replicated.append(VALUE)
        acts: dict[str, Callable[[], object]] = {
            "flush": lambda: alone.append(VALUE),
            "round trip": round_trip,
            "both flushes": both_flushes,
            "replicated": lambda: replicated.append(VALUE),
        }
        for _ in range(setting.turns):
            taken: dict[str, list[int]] = {name: [] for name in acts}
            for _ in range(max(1, setting.appends // _INTERLEAVED)):
                for name, act in acts.items():
                    taken[name] += [timed(act) for _ in range(_INTERLEAVED)]
            for name, times in taken.items():
                times.sort()
                found.setdefault(f"{name} p50 us", []).append(times[len(times) // 2] / 1e3)
                found.setdefault(f"{name} p99 us", []).append(times[len(times) * 99 // 100] / 1e3)
    figures = {name: statistics.median(values) for name, values in found.items()}
    parts = zip(found["flush p50 us"], found["round trip p50 us"], strict=True)
    over = [
        whole - flush - trip
        for whole, (flush, trip) in zip(found["replicated p50 us"], parts, strict=True)
    ]
    beyond = zip(found["replicated p50 us"], found["both flushes p50 us"], strict=True)
    return figures | {
        "over flush and round trip us": statistics.median(over),
        "over both flushes us": statistics.median(whole - least for whole, least in beyond),
    }


def coroutines(setting: Setting) -> Figures:
    """64 coroutines, beside one thread."""
    one, many = [], []
    with setting.followed("replicated") as log:

        async def appends() -> None:
            for _ in range(setting.appends // 4):
                await log.append_async(VALUE)

        async def together() -> None:
            await asyncio.gather(*(appends() for _ in range(_COROUTINES)))

        for _ in range(setting.turns):
            began_ns = time.perf_counter_ns()
            for _ in range(setting.appends):
                log.append(VALUE)
            one.append(setting.appends / (time.perf_counter_ns() - began_ns) * 1e9)
            began_ns = time.perf_counter_ns()
            asyncio.run(together())
            count = _COROUTINES * (setting.appends // 4)
            many.append(count / (time.perf_counter_ns() - began_ns) * 1e9)
    ratios = [more / less for less, more in zip(one, many, strict=True)]
    return {
        "one thread /s": statistics.median(one),
        "64 coroutines /s": statistics.median(many),
        "times": statistics.median(ratios),
    }


def stream(setting: Setting) -> Figures:
    """A new copy of a log, beside bytes that are written and flushed, and bytes over the wire."""
    rates, disks, networks, cores, primary_cores = [], [], [], [], []
    size = setting.mebibytes << 20
    with setting.log("whole", flush="async", require=0) as log:
        values = [bytes(1000)] * 1000
        while log.tail_position < size:
            log.append_many(values)
        log.flush()
        end = log.flushed_position
        rule = log.options.replicate
        assert isinstance(rule, Replication)
        for turn in range(setting.turns):
            disks.append(_disk_rate(setting.folder / "plain", size))
            networks.append(_network_rate(setting.peer, size))
            serving = rule.server.pid
            theirs_s, ours_s, began_s = setting.peer.cpu_s(), cpu_s(serving), time.monotonic()
            setting.attach(log, "whole", f"copy{turn}")
            # Copies that have gone still count.
            assert rule.server.wait_replicated(end - 1, copies=turn + 1, timeout=_WAIT_S)
            took_s = time.monotonic() - began_s
            rates.append(end / took_s / 1e6)
            cores.append((setting.peer.cpu_s() - theirs_s) / took_s)
            primary_cores.append((cpu_s(serving) - ours_s) / took_s)
            setting.peer.leave()
            shutil.rmtree(setting.folder / f"whole-copy{turn}")
    shares = [rate / min(pair) for rate, *pair in zip(rates, disks, networks, strict=True)]
    return {
        "stream MB/s": statistics.median(rates),
        "disk MB/s": statistics.median(disks),
        "network MB/s": statistics.median(networks),
        "share of the lower": statistics.median(shares),
        "cores of the follower": statistics.median(cores),
        "cores of the primary": statistics.median(primary_cores),
    }


def attached(setting: Setting) -> Figures:
    """Appends that do not wait, every 10 us and at full speed, with and without a follower."""
    figures: Figures = {}
    for name, pause_ns in (("paced", 10_000), ("full speed", 0)):
        without: list[float] = []
        beside: list[float] = []
        for turn in range(2 * setting.turns):
            follows = turn % 2 == 1
            opened = setting.followed("async", flush="async", require=0)
            with opened if follows else setting.log("async", flush="async") as log:
                taken = _mean_ns(log, 100 * setting.appends, pause_ns)
            (beside if follows else without).append(taken)
        figures[f"{name}, without ns"] = statistics.median(without)
        figures[f"{name}, with ns"] = statistics.median(beside)
        ratios = [more / less for less, more in zip(without, beside, strict=True)]
        figures[f"{name}, slower by %"] = 100 * (statistics.median(ratios) - 1)
    return figures


ROWS: dict[str, Callable[[Setting], Figures]] = {
    "latency": latency,
    "coroutines": coroutines,
    "stream": stream,
    "attached": attached,
}


def _receive(connection: socket.socket) -> None:
    left = len(VALUE)
    while left:
        left -= len(connection.recv(left))


def timed(act: Callable[[], object]) -> int:
    """Return the nanoseconds that a call takes."""
    began_ns = time.perf_counter_ns()
    act()
    return time.perf_counter_ns() - began_ns


def _mean_ns(log: commitlog.CommitLog, count: int, pause_ns: int) -> float:
    """Return the mean nanoseconds of an append; each begins `pause_ns` after the one before."""
    clock, taken = time.perf_counter_ns, 0
    due = clock()
    for _ in range(count):
        while pause_ns and clock() < due:
            pass
        began = clock()
        log.append(VALUE)
        taken += clock() - began
        due = began + pause_ns
    return taken / count


def _disk_rate(path: Path, size: int) -> float:
    block, began_s = os.urandom(_BLOCK), time.monotonic()
    with path.open("wb", buffering=0) as file:
        for at in range(0, size, _BLOCK):
            file.write(block)
            if at % _SEGMENT == 0:
                os.fdatasync(file.fileno())
        os.fdatasync(file.fileno())
    path.unlink()
    return size / (time.monotonic() - began_s) / 1e6


def _network_rate(peer: Peer, size: int) -> float:
    """Send bytes that the other process sends back, so each way has half of the time at most."""
    block, began_s = bytes(_BLOCK), time.monotonic()
    with peer.echo() as connection:
        for _ in range(0, size, _BLOCK):
            connection.sendall(block)
            left = _BLOCK
            while left:
                left -= len(connection.recv(left))
    return 2 * size / (time.monotonic() - began_s) / 1e6
