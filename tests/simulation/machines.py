"""Machines and processes: real directories in memory, threads that are killed, paused or end."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from commitlog.base import failpoint
from commitlog.base.host import host
from commitlog.base.life_lock import LifeLock
from commitlog.log.abandoning import abandon
from commitlog.log.registry import Registry
from commitlog.log.view import _SIGNALS
from commitlog.network.replication import replication
from commitlog.network.replication.server import Port, name_of
from commitlog.network.replication.serving import Serving
from commitlog.recovery.place import Place
from commitlog.segment import lock_file
from tests.simulation.disks import Disks
from tests.simulation.streams import Network, Socket
from tests.simulation.world import (
    BEGAN_NS,
    Condition,
    Event,
    Executor,
    Lock,
    Semaphore,
    Task,
    World,
    patched,
)

# Threads of the floors above the kernel; its own services never run, so that a run repeats.
_RUNS = (
    "commitlog remote",
    "commitlog cache",
    "commitlog resolve",
    "commitlog store",
    "commitlog serve",
    "commitlog follow",
    "commitlog acknowledged",
)
_LOOK_S = 0.25  # for what the kernel does not signal
_FLOORS = ("commitlog.network", "commitlog.stores")


class Machine:
    """A machine: its address, its clock, its directory."""

    def __init__(self, name: str, host_: str, folder: Path) -> None:
        self.name = name
        self.host = host_
        self.folder = folder
        folder.mkdir()
        self.path = str(folder / "log")
        self.backup: Path | None = None
        self.inodes: dict[str, int] = {}  # of what the backup has
        self.ahead_ns = 0
        self.boots = 1
        self.process: Process | None = None
        self.role = "idle"

    def boot_id(self) -> bytes:
        return f"{self.name} {self.boots}".encode().ljust(16, b".")


class Process:
    """A program that runs on a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.tasks: list[Task] = []
        self.sockets: list[Socket] = []
        self.parked: list[Task] = []
        self.logs: list[Any] = []
        self.locks: list[LifeLock] = []
        self.dead = False
        self.paused = False
        self.is_replaced = False  # its directory was, while it ran
        self.dies_in = 0  # steps; 0: it does not


class _Off:
    """A service of the kernel, which does not run."""

    ident = None

    def start(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool:
        return False


class _Serving:
    """`ServingProcess`, inside the simulated process."""

    def __init__(self, port: Port) -> None:
        self._fences: dict[str, Callable[[Any], None]] = {}
        self._serving = Serving(port, lambda name, rank: self._fences[name](rank))

    def _add(self, path: str, require: int, on_fence: Callable[[Any], None]) -> None:
        name = name_of(path)
        self._fences[name] = on_fence
        self._serving.add(path, name, require)

    def followers(self) -> dict[str, int]:
        return self._serving.followers(next(iter(self._fences)))

    def _remove(self, name: str) -> bool:
        self._serving.close()
        return True

    def _close(self) -> None:
        self._serving.close()


class Machines:
    """The machines of a run, and what their processes ask of the world."""

    def __init__(self, world: World, folder: Path, count: int, disks: Disks | None = None) -> None:
        self.world = world
        self.disks = disks
        self.network = Network(world)
        self.folder = folder
        self.each = [
            Machine(f"m{number}", f"10.0.0.{number + 1}", folder / f"m{number}")
            for number in range(count)
        ]
        self.steps: dict[str, int] = {}
        self.event = ""  # the kind of the last one
        self.places: set[tuple[str, ...]] = set()  # event, role and step
        self._inodes: dict[int, int] = (
            {} if disks is None else disks.moved
        )  # of what a snapshot brought back, as they were
        self.seen: list[str] = []

    # --- processes --------------------------------------------------------------------------------

    def spawn(self, name: str, run: Callable[[], object], process: Process | None = None) -> Task:
        return Task(self.world, name, run, process or self.world.current.process)

    def start(self, machine: Machine, name: str, run: Callable[[], object]) -> Process:
        """Start a program on a machine."""
        process = Process(machine)
        self.spawn(name, run, process).start()
        return process

    def kill(self, process: Process) -> None:
        """Kill a process: nothing of it runs any more, and its locks are free."""
        if process.dead:
            return
        process.dead = True
        self.world.drop(process)
        for each in list(process.sockets):
            each.die()
        for log in process.logs:
            if not log.closed:
                abandon(log)
        for lock in process.locks:
            lock.close()
        if self.world.current.process is process:
            self.world.graves.append(self.world.current)
            self.world._leave()

    def step(self, name: str) -> None:
        """Pass a failpoint: a switch, or the end of the process."""
        process = self.world.current.process
        self.steps[name] = self.steps.get(name, 0) + 1
        self.places.add((self.event, process.machine.role, name))
        if process.dies_in:
            process.dies_in -= 1
            if process.dies_in == 0:
                self.seen.append(f"{process.machine.name} dies at {name!r}")
                self.kill(process)
        module = str(_caller_of_failpoint())
        if module.startswith(_FLOORS):
            self.world.give_way()

    # --- the host ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def hosted(self) -> Iterator[None]:
        """Have the package ask this world."""
        world = self.world
        added, opened = Registry.add, LifeLock.__init__
        machines = self

        def add(registry: Registry, log: Any) -> None:
            world.current.process.logs.append(log)

        def init(lock: LifeLock, *given: Any, **named: Any) -> None:
            opened(lock, *given, **named)
            world.current.process.locks.append(lock)

        def thread(name: str, run: Callable[[], object]) -> Any:
            return machines.spawn(name, run) if name.startswith(_RUNS) else _Off()

        def make_socket(family: int, kind: int) -> Any:
            return Socket(self.network, world.current.process)

        def listen(where: tuple[str, int], family: int, backlog: int) -> Any:
            made = Socket(self.network, world.current.process)
            made.listen(where)
            return made

        def await_event(wait: Any, engine: Any, seen: int, timeout_s: float) -> None:
            signal = signals[wait]
            world.await_change(lambda: signal(engine) != seen, max(timeout_s, _LOOK_S))

        signals = {wait: signal for signal, wait in _SIGNALS.values()}
        drawn = world.choices._random.__class__(world.choices.pick(1 << 30))
        with (
            patched(
                host,
                monotonic=lambda: world.now_s,
                time_ns=self._time_ns,
                sleep=world.sleep,
                random=drawn.randbytes,
                boot_id=self._boot_id,
                lock=lambda: Lock(world),
                condition=lambda: Condition(world),
                event=lambda: Event(world),
                semaphore=Semaphore,
                thread=thread,
                ident=lambda: world.current.ident,
                executor=lambda most, path: Executor(self.spawn),
                await_event=await_event,
                socket=make_socket,
                listen=listen,
            ),
            patched(os, urandom=drawn.randbytes),
            patched(Place, of=self._place_of),
            patched(lock_file, process_name=lambda pid: "simulated"),
            patched(Registry, add=add),
            patched(LifeLock, __init__=init),
            patched(replication, ServingProcess=_Serving),
            patched(failpoint, hook=self.step),
        ):
            assert added is not None
            yield

    def _boot_id(self) -> bytes:
        found: bytes = self.world.current.process.machine.boot_id()
        return found

    def _time_ns(self) -> int:
        ahead = self.world.current.process.machine.ahead_ns
        return BEGAN_NS + int(self.world.now_s * 1e9) + ahead

    # --- directories ------------------------------------------------------------------------------

    def inode(self, path: str | Path | int) -> int:
        """Return the inode of a file, as the disk of its machine has it."""
        found = os.stat(path).st_ino
        return self._inodes.get(found, found)

    def inodes(self, folder: str | Path) -> dict[str, int]:
        """Return the inodes of a folder and of its files."""
        return {each.name: self.inode(each) for each in [Path(folder), *Path(folder).iterdir()]}

    def roll_back(self, folder: str | Path, inodes: dict[str, int]) -> None:
        """Have a folder and its files those inodes: the disk has an older state, and the same."""
        for each in [Path(folder), *Path(folder).iterdir()]:
            if each.name in inodes:
                self._inodes[os.stat(each).st_ino] = inodes[each.name]

    def _place_of(self, directory_fd: int, fd: int) -> Place:
        return Place(self.inode(fd), self.inode(directory_fd), None)

    def copy(self, source: str, target: Path) -> None:
        """Copy a directory as it is at this moment."""
        shutil.rmtree(target, ignore_errors=True)
        if os.path.isdir(source):
            self.copy_tree(source, target)

    def copy_tree(self, source: str | Path, target: str | Path) -> None:
        """Copy a directory to where none is, and sync it."""
        shutil.copytree(source, target, ignore=_temporary)
        if self.disks is not None:
            self.disks.settle(target)

    @contextlib.contextmanager
    def at(self, path: str) -> Iterator[None]:
        """Read a log on the machine that has it: another one has another boot id."""
        process = self.world.current.process
        before = process.machine
        here = [each for each in self.each if path.startswith(f"{each.folder}/")]
        process.machine = here[0] if here else before
        try:
            yield
        finally:
            process.machine = before

    def cut_power(self, machine: Machine) -> str:
        """Cut the power of a machine: its programs end, and its directory has what was flushed."""
        assert self.disks is not None
        drawn = self.world.choices.drawn()
        machine.boots += 1
        return self.disks.cut(machine.path, drawn)


def _temporary(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(".")]


def _caller_of_failpoint() -> object:
    import sys

    frame = sys._getframe(3)
    return frame.f_globals.get("__name__")
