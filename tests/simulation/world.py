"""World: green threads, a clock and choices. Nothing runs at the same time, so a seed repeats."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from greenlet import getcurrent, greenlet

_STEP_S = 20e-6  # that a turn of a thread takes
_TURNS_MOST = 60_000  # of a run; then it hangs
BEGAN_NS = 1_700_000_000 * 10**9


class HangError(Exception):
    """The run took more turns than it may."""


class Choices:
    """The choices of a run: drawn from a seed, or those of an earlier run."""

    def __init__(self, seed: int, given: list[int] | None = None) -> None:
        self._random = random.Random(seed)
        self._given = deque(given or ())
        self.made: list[int] = []

    def pick(self, count: int) -> int:
        """Return a number below `count`."""
        if count < 2:
            return 0
        found = self._given.popleft() % count if self._given else self._random.randrange(count)
        self.made.append(found)
        return found

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.pick(1 << 10) / (1 << 10)

    def drawn(self) -> random.Random:
        """Return what draws many numbers from one choice."""
        return random.Random(self.pick(1 << 30))

    def happens(self, of: int) -> bool:
        """Return True once in so many times."""
        return self.pick(of) == 0


class Task:
    """A green thread of a process; `Host.thread` returns it."""

    def __init__(self, world: World, name: str, run: Callable[[], object], process: Any) -> None:
        self._world = world
        self.name = name
        self.process = process
        self._run = run
        self.ident: int | None = None
        self.done = False
        self.turn = 0  # changes with each wait
        self.signalled = False
        self._joined: list[Task] = []
        self.thread = greenlet(self._main, world.main)

    def _main(self) -> None:
        try:
            self._run()
        except Exception as error:  # noqa: BLE001  (shown as a violation)
            self._world.failed(self, error)
        finally:
            self.done = True
            for each in self._joined:
                self._world.wake(each)

    def start(self) -> None:
        self.ident = self._world.next_ident()
        self.process.tasks.append(self)
        self._world.wake(self)

    def is_alive(self) -> bool:
        return self.ident is not None and not self.done

    def join(self, timeout: float | None = None) -> None:
        until_s = None if timeout is None else self._world.now_s + timeout
        while self.is_alive() and (until_s is None or self._world.now_s < until_s):
            self._joined.append(self._world.current)
            self._world.block(until_s)


class World:
    """Run one task at a time. A task gives its turn up in `block` and `give_way` only."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.now_s = 1000.0
        self.main = getcurrent()
        self.current: Any = None
        self.failures: list[tuple[Task, Exception]] = []
        self._ready: list[Task] = []
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._idents = 0
        self._turns = 0
        self.on_turn: Callable[[str], None] | None = None  # gets the machine of the next task
        self.over = False
        self.sleepers: list[tuple[Task, Callable[[], bool]]] = []  # until something is true
        self.graves: list[Task] = []  # killed: their `finally` blocks never run

    def next_ident(self) -> int:
        self._idents += 1
        return self._idents

    def failed(self, task: Task, error: Exception) -> None:
        self.failures.append((task, error))

    # --- turns ------------------------------------------------------------------------------------

    def wake(self, task: Task, *, signalled: bool = True) -> None:
        """Let a task go on, if it is not dead."""
        process = task.process
        if process.dead or task.done or task in self._ready or task in process.parked:
            return
        task.turn += 1
        task.signalled = signalled
        (process.parked if process.paused else self._ready).append(task)

    def block(self, until_s: float | None = None) -> bool:
        """Give the turn up until `wake`, or a time; return whether it was woken."""
        task = self.current
        turn = task.turn

        def expire() -> None:
            if task.turn == turn:
                self.wake(task, signalled=False)

        if until_s is not None:
            self.at(until_s, expire)
        self._leave()
        return bool(task.signalled)

    def give_way(self) -> None:
        """Let others have a turn."""
        self.wake(self.current)
        self._leave()

    def _leave(self) -> None:
        self.main.switch()

    def await_change(self, changed: Callable[[], bool], seconds: float) -> None:
        """Sleep until a value of the kernel, which wakes no task, has changed."""
        sleeper = self.current, changed
        self.sleepers.append(sleeper)
        self.block(self.now_s + seconds)
        if sleeper in self.sleepers:
            self.sleepers.remove(sleeper)

    def _wake_sleepers(self) -> None:
        for sleeper in list(self.sleepers):
            if sleeper[0].process.dead:
                self.sleepers.remove(sleeper)
            elif sleeper[1]():
                self.sleepers.remove(sleeper)
                self.wake(sleeper[0])

    def sleep(self, seconds: float) -> None:
        until_s = self.now_s + max(seconds, 1e-4)
        while self.now_s < until_s:
            self.block(until_s)

    def at(self, time_s: float, act: Callable[[], object]) -> None:
        """Do something at a time."""
        self._idents += 1
        heapq.heappush(self._timers, (time_s, self._idents, act))

    def drop(self, process: Any) -> None:
        """Give no turn to the tasks of a killed process any more."""
        self._ready = [task for task in self._ready if task.process is not process]
        self.graves += process.tasks
        process.parked.clear()

    def resume(self, process: Any) -> None:
        parked, process.parked = process.parked, []
        self._ready += parked

    def run(self) -> None:
        """Give turns until the run is over."""
        while not self.over:
            self._turns += 1
            if self._turns > _TURNS_MOST:
                raise HangError(f"{_TURNS_MOST} turns, at {self.now_s - 1000:.1f} s")
            if self._ready:
                self.current = self._ready.pop(self.choices.pick(len(self._ready)))
                self.now_s += _STEP_S
                if self.on_turn is not None:
                    self.on_turn(self.current.process.machine.name)
                self.current.thread.switch()
                if self.sleepers:
                    self._wake_sleepers()
            elif self._timers:
                self.now_s = max(self.now_s, self._timers[0][0])
            else:
                raise HangError("no thread can go on")
            while self._timers and self._timers[0][0] <= self.now_s:
                heapq.heappop(self._timers)[2]()


# --- what waits -----------------------------------------------------------------------------------


class Lock:
    """A lock; a reentrant one for conditions."""

    def __init__(self, world: World, *, reentrant: bool = False) -> None:
        self._world = world
        self._reentrant = reentrant
        self._owner: Any = None
        self._depth = 0
        self._waiting: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        world = self._world
        if self._owner is not None and self._owner.process.dead:
            self._owner = None  # only the dead process had it
        if self._reentrant and self._owner is world.current and self._owner is not None:
            self._depth += 1
            return True
        until_s = world.now_s + timeout if timeout >= 0 else None
        while self._owner is not None:
            if not blocking or (until_s is not None and world.now_s >= until_s):
                return False
            self._waiting.append(world.current)
            world.block(until_s)
        self._owner, self._depth = world.current, 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                self._world.wake(each)

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition(Lock):
    def __init__(self, world: World) -> None:
        super().__init__(world, reentrant=True)
        self._sleeping: list[Task] = []

    def wait(self, timeout: float | None = None) -> bool:
        world, depth = self._world, self._depth
        until_s = None if timeout is None else world.now_s + max(timeout, 0)
        self._sleeping.append(world.current)
        self._depth = 1
        self.release()
        woken = world.block(until_s)
        self.acquire()
        self._depth = depth
        return woken

    def wait_for(self, reached: Callable[[], Any], timeout: float | None = None) -> Any:
        until_s = None if timeout is None else self._world.now_s + timeout
        while not (found := reached()):
            left_s = None if until_s is None else until_s - self._world.now_s
            if left_s is not None and left_s <= 0:
                return found
            self.wait(left_s)
        return found

    def notify_all(self) -> None:
        sleeping, self._sleeping = self._sleeping, []
        for each in sleeping:
            self._world.wake(each)

    def notify(self, count: int = 1) -> None:
        self.notify_all()


class Event:
    def __init__(self, world: World) -> None:
        self._world = world
        self._set = False
        self._waiting: list[Task] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._world.wake(each)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        until_s = None if timeout is None else self._world.now_s + timeout
        while not self._set and (until_s is None or self._world.now_s < until_s):
            self._waiting.append(self._world.current)
            self._world.block(until_s)
        return self._set


class Semaphore:
    def __init__(self, count: int) -> None:
        self._left = count

    def acquire(self, blocking: bool = True) -> bool:
        self._left -= 1
        if self._left >= 0:
            return True
        self._left += 1
        return False

    def release(self) -> None:
        self._left += 1


class Executor:
    """Runs each call as a task."""

    def __init__(self, spawn: Callable[[str, Callable[[], object]], Task]) -> None:
        self._spawn = spawn

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, act: Callable[..., Any], *given: Any) -> Iterator[Any]:
        found: dict[int, Any] = {}
        failed: dict[int, BaseException] = {}

        def one(number: int, arguments: tuple[Any, ...]) -> None:
            try:
                found[number] = act(*arguments)
            except Exception as error:  # noqa: BLE001  (raised by the caller)
                failed[number] = error

        tasks = []
        for number, arguments in enumerate(zip(*given, strict=False)):
            task = self._spawn("call", lambda n=number, a=arguments: one(n, a))  # type: ignore[misc]
            task.start()
            tasks.append(task)
        for number, task in enumerate(tasks):
            task.join()
            if number in failed:
                raise failed[number]
            yield found[number]


@contextmanager
def patched(owner: Any, **replaced: Any) -> Iterator[None]:
    """Replace attributes for the length of a `with`."""
    before = {name: owner.__dict__.get(name, getattr(owner, name)) for name in replaced}
    for name, value in replaced.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)
