"""Print which functions and files a call passes: `python -m tests.contracts.walks [WALK ...]`.

The profiler sees each Python function below `commitlog/` that a real call enters, and each compiled
one that Python code calls. A *climb* is a call of a function of a higher layer, as pyproject.toml
has the layers. If compiled code calls a function, the nearest Python function counts as the caller.
Only the calling thread counts, except in the walk of a replicated append. With names of walks, each
function is printed, in the order of first calls.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

import commitlog
from commitlog import CommitLog, Store, TransientStorePool, replication, topics
from tests.contracts.seam import PACKAGE, ROOT

SEGMENT = 64 << 10
_KEY = "walk:" + "A" * 43 + "="
_LIMIT_S = 60.0


class Order(msgspec.Struct):
    id: int
    item: str


def layers() -> dict[str, int]:
    """Return the layer of each package, the lowest first."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contract = next(each for each in tool["importlinter"]["contracts"] if each["id"] == "layers")
    return {
        name.strip(): number
        for number, layer in enumerate(reversed(contract["layers"]))
        for name in layer.replace("|", ":").split(":")
    }


@dataclass
class Walk:
    """What one call passes.

    Attributes
    ----------
    functions : dict
        The file and the name of each Python function, in the order of first calls.
    compiled : set of str
        The compiled functions that Python code calls.
    climbs : list of str
        The calls of a higher layer.
    """

    calls: int = 0
    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    compiled: set[str] = field(default_factory=set)
    climbs: list[str] = field(default_factory=list)

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.functions}


class Recorder:
    """Record the calls of a walk."""

    def __init__(self) -> None:
        self._layers = layers()
        self._walk: Walk | None = None

    @contextlib.contextmanager
    def including_threads(self) -> Iterator[None]:
        """Let the threads count that start within a `with`."""
        threading.setprofile(self._note)
        try:
            yield
        finally:
            threading.setprofile(None)

    @contextlib.contextmanager
    def walk(self) -> Iterator[Walk]:
        walk = self._walk = Walk()
        sys.setprofile(self._note)
        try:
            yield walk
        finally:
            sys.setprofile(None)
            self._walk = None

    def _note(self, frame: FrameType, event: str, called: Any) -> None:
        walk = self._walk
        if walk is None:
            return
        if event == "c_call":
            module = getattr(called, "__module__", None) or type(called.__self__).__module__
            if module.startswith("commitlog"):
                walk.compiled.add(f"{module}.{called.__qualname__}")
        place = _place(frame) if event == "call" else None
        if place is None:
            return
        walk.calls += 1
        walk.functions.setdefault(place)
        caller = frame.f_back
        while caller is not None and _place(caller) is None:
            caller = caller.f_back
        before = None if caller is None else _place(caller)
        if before is not None and self._layer(before) < self._layer(place):
            walk.climbs.append(f"{':'.join(before)} -> {':'.join(place)}")

    def _layer(self, place: tuple[str, str]) -> int:
        name = place[0].split("/")[0].removesuffix(".py")
        return self._layers.get(name, len(self._layers))  # `commitlog` itself is above all


def _place(frame: FrameType) -> tuple[str, str] | None:
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(PACKAGE):
        return None
    return path.relative_to(PACKAGE).as_posix(), frame.f_code.co_qualname


# --- the walks ------------------------------------------------------------------------------------


def appending(folder: Path) -> Walk:
    with commitlog.open(folder / "log") as log:
        log.append(bytes(100))
        with Recorder().walk() as walk:
            log.append(bytes(100))
    return walk


def reading(folder: Path) -> Walk:
    with commitlog.open(folder / "log") as log, log.tailer() as tailer:
        log.append_many([bytes(100)] * 2)
        log.commit()
        tailer.read()
        with Recorder().walk() as walk:
            assert tailer.read() is not None
    return walk


def rolling(folder: Path) -> Walk:
    with commitlog.open(folder / "log", segment_size=SEGMENT, roll_cycle="DAILY") as log:
        log.append(bytes(100))
        with Recorder().walk() as walk:
            log.roll()
    return walk


def opening(folder: Path, pool: TransientStorePool | None = None) -> Walk:
    for _ in range(2):  # the second open finds its modules imported
        commitlog.open(folder / "log", pool=pool).close()
    with Recorder().walk() as walk:
        log = commitlog.open(folder / "log", pool=pool)
    log.close()
    return walk


def opening_pooled(folder: Path) -> Walk:
    with TransientStorePool(buffers=2, buffer_size=SEGMENT) as pool:
        return opening(folder, pool)


def appending_messages(folder: Path) -> Walk:
    """Append a message of a topic with all layers: a key, compression, sealing."""
    keys = topics.KeyRing.of_text(_KEY)
    with (
        commitlog.open(folder / "log") as log,
        commitlog.topic(log, Order, compress="zstd", keys=keys) as topic,
    ):
        for number in range(600):  # a dictionary is trained
            topic.append(Order(number, "lamp"), key=b"%d" % number)
        with Recorder().walk() as walk:
            topic.append(Order(7, "lamp"), key=b"7")
    return walk


def appending_replicated(folder: Path) -> Walk:
    """Append; the follower is in this process, the server of the log in another one."""
    rule, recorder = replication.Replication(require=1), Recorder()
    with (
        recorder.including_threads(),
        commitlog.open(folder / "log", flush="sync", replicate=rule) as log,
        replication.follow(rule.server.url(), folder / "copy") as follower,
    ):
        assert follower.wait(log.append(bytes(100)), _LIMIT_S)
        with recorder.walk() as walk:
            log.append(bytes(100))
    return walk


def reading_tiered(folder: Path) -> Walk:
    """Read the first record of a segment that only the store has."""
    store = Store(folder / "store", every="10ms")
    with commitlog.open(folder / "log", segment_size=SEGMENT, store=store) as log:
        _fill(log)
    with commitlog.open(folder / "log", segment_size=SEGMENT) as log:
        log.delete_before(3 * SEGMENT)
    with (
        commitlog.open(folder / "log", "r", store=Store(folder / "store")) as log,
        log.tailer() as tailer,
        Recorder().walk() as walk,
    ):
        assert tailer.read() is not None
    return walk


def _fill(log: CommitLog) -> None:
    for _ in range(5):
        log.append(bytes(100))
        log.roll()


WALKS: dict[str, Callable[[Path], Walk]] = {
    "append": appending,
    "read": reading,
    "roll": rolling,
    "open-mapped": opening,
    "open-pooled": opening_pooled,
    "typed-append": appending_messages,
    "replicated-append": appending_replicated,
    "tiered-read": reading_tiered,
}


def main() -> None:
    chosen = sys.argv[1:]
    print(f"{'walk':<20}{'files':>6}{'functions':>11}{'calls':>7}{'compiled':>10}{'climbs':>8}")
    for name in chosen or WALKS:
        with tempfile.TemporaryDirectory() as folder:
            walk = WALKS[name](Path(folder))
        print(
            f"{name:<20}{len(walk.files):>6}{len(walk.functions):>11}{walk.calls:>7}"
            f"{len(walk.compiled):>10}{len(walk.climbs):>8}"
        )
        lines = [f"climb {climb}" for climb in walk.climbs]
        if chosen:
            lines += [f"{file}: {function}" for file, function in walk.functions]
            lines += sorted(walk.compiled)
        for line in lines:
            print("   ", line)


if __name__ == "__main__":
    main()
