"""What processes share: memory that all of them see, cells that they change in one step, locks, and waking each other."""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import signal
import statistics
import time
from functools import partial
from pathlib import Path

from commitlog._kernel.memory import Cells
from commitlog.base.life_lock import LifeLock, is_held
from commitlog.doctor.children import ChildError, Children
from commitlog.doctor.finding import Outcome, failed, ok, warning
from commitlog.doctor.ground import Ground

_LOCAL_DISK = "use a local file system (ext4, XFS, tmpfs): here processes do not see the same bytes"
_PROCESSOR = "do not use this machine for a log: atomic instructions on shared memory do not hold"
_SPINS = 20_000_000  # some seconds at most
_PROCESSES = 4
_ADDS = 100_000
_RACED = 16000  # cells, in so many races
_RACES = 100
_ROUNDS = 300
_WAKES = 20
_LIMIT_S = 5.0
_PAGE = 4096
_FREE, _CLAIMED, _PUBLISHED, _SKIPPED = range(4)


def check_shared_mapping(ground: Ground) -> Outcome:
    """A child with a mapping of its own sees what is stored here, and the other way round."""
    with ground.cells("seen", 16) as cells, Children() as children:

        def echo() -> int:
            with ground.remapped("seen", 16) as own:
                for number in range(1, _ROUNDS + 1):
                    _await(own, 0, number)
                    own[8] = number
                return own[0]

        child = children.start(echo)
        try:
            for number in range(1, _ROUNDS + 1):
                cells[0] = number
                _await(cells, 8, number)
            children.answer(child)
        except ChildError as error:
            return failed(f"a store in one process is not seen in another: {error}", _LOCAL_DISK)
    return ok(f"{_ROUNDS} stores seen both ways by two processes")


def _await(cells: Cells, index: int, value: int) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while cells[index] != value:
        if time.monotonic() > deadline:
            raise ChildError(f"{value} was stored, {cells[index]} is read after {_LIMIT_S:g} s")
        os.sched_yield()


def check_coherence(ground: Ground) -> Outcome:
    """What is stored through a mapping is read with pread, and what pwrite writes is in the mapping."""
    size = 16 * _PAGE
    numbers = random.Random(1)
    with ground.file("both", size) as fd, mmap.mmap(fd, size, mmap.MAP_SHARED) as mapping:
        for _ in range(_ROUNDS):
            length = numbers.randrange(1, 2 * _PAGE)
            at = numbers.randrange(size - length)
            content = numbers.randbytes(length)
            mapping[at : at + length] = content
            if os.pread(fd, length, at) != content:
                return failed(f"{length} bytes stored at {at} are not what pread reads", _LOCAL_DISK)
            content = numbers.randbytes(length)
            os.pwrite(fd, content, at)
            if mapping[at : at + length] != content:
                return failed(f"{length} bytes written at {at} are not what the mapping shows", _LOCAL_DISK)
    return ok(f"{_ROUNDS} stores and writes agree")


def check_atomics(ground: Ground) -> Outcome:
    """Several processes add to one cell, and swap another one on: none of it is lost."""
    with ground.cells("sums", 32) as cells, Children() as children:

        def add() -> None:
            with ground.remapped("sums", 32) as own:
                own.meet(0, _PROCESSES, _SPINS)
                own.add(8, 1, _ADDS)
                own.add_by_swap(16, 1, _ADDS)

        for child in [children.start(add) for _ in range(_PROCESSES)]:
            children.answer(child)
        wanted = _PROCESSES * _ADDS
        if cells[8] != wanted or cells[16] != wanted:
            return failed(f"{wanted} additions make {cells[8]} by fetch-and-add, {cells[16]} by compare-and-swap", _PROCESSOR)
    return ok(f"{_PROCESSES} processes, {wanted} additions each by fetch-and-add and compare-and-swap: none lost")


def check_publish_race(ground: Ground) -> Outcome:
    """One process publishes claims while another rolls them back: each claim goes one way, and both know which."""
    with ground.cells("claims", _RACED + 16) as cells, Children() as children:

        def swap(final: int) -> int:
            swapped = 0
            with ground.remapped("claims", _RACED + 16) as own:
                for race in range(_RACES):
                    own.meet(0, 2 * (race + 1), _SPINS)
                    start = 16 + race * _RACED // _RACES
                    # From both ends, so that they get into each other's way wherever they meet.
                    swapped += own.swap_each(start, start + _RACED // _RACES, _CLAIMED, final, backward=final == _SKIPPED)
            return swapped

        cells.swap_each(16, _RACED + 16, _FREE, _CLAIMED)
        racing = {final: children.start(partial(swap, final)) for final in (_PUBLISHED, _SKIPPED)}
        said = {final: int(children.answer(child)) for final, child in racing.items()}
        seen = [cells[index] for index in range(16, _RACED + 16)]
        if any(said[final] != seen.count(final) for final in said) or sum(said.values()) != _RACED:
            return failed(
                f"of {_RACED} claims {said[_PUBLISHED]} were published and {said[_SKIPPED]} rolled back, but "
                f"{seen.count(_PUBLISHED)} and {seen.count(_SKIPPED)} are found",
                _PROCESSOR,
            )
    return ok(f"{_RACED} claims went one way each ({said[_PUBLISHED]} published, {said[_SKIPPED]} rolled back)")


def check_locks(ground: Ground) -> Outcome:
    """A lock is held while its process lives, and gone when it dies, also where a child of it lives on."""
    advice = "use a local file system and a kernel with open-file-description locks: the dead could not be told from the living"
    path = ground.place / "locked"
    with ground.file("locked") as fd, ground.cells("held", 16) as cells, Children() as children:
        try:
            LifeLock(lambda: os.open(path, os.O_RDWR | os.O_CLOEXEC)).close()
            owner = children.start(lambda: _hold(path, ground))
            _await(cells, 0, 1)
            if not is_held(fd):
                return failed("a lock that a living process holds is not seen", advice)
            children.kill(owner)
            if is_held(fd):
                return failed("the lock of a dead process is still held: a child that it had forked keeps it", advice)
        except OSError as error:
            return failed(f"open-file-description locks: {error.strerror or error}", advice)
        finally:
            if cells[8]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(cells[8], signal.SIGKILL)
    return ok("held by the living, gone with the dead, not inherited by their children")


def _hold(path: Path, ground: Ground) -> None:
    """An owner with a child that outlives it."""
    lock = LifeLock(lambda: os.open(path, os.O_RDWR | os.O_CLOEXEC))
    child = os.fork()
    with ground.remapped("held", 16) as cells:
        if child == 0:
            cells[1] = 1
            time.sleep(_LIMIT_S)
            os._exit(0)
        cells[8] = child
        _await(cells, 1, 1)
        cells[0] = 1
    time.sleep(_LIMIT_S)
    lock.close()


def check_waking(ground: Ground) -> Outcome:
    """A process asleep on a shared cell wakes when another one raises it."""
    advice = "readers that block will poll: follow with idle='backoff'"
    with ground.cells("woken", 32) as cells, Children() as children:

        def sleep() -> list[int]:
            woken_ns = []
            with ground.remapped("woken", 32) as own:
                for number in range(_WAKES):
                    own[8] = number + 1
                    began_ns = time.monotonic_ns()
                    raised = own.sleep(0, number, _LIMIT_S) == number + 1
                    woken_ns.append(time.monotonic_ns())
                    if not raised or woken_ns[-1] - began_ns > _LIMIT_S * 0.9e9:
                        raise ChildError("slept until its time was over")
            return woken_ns

        try:
            child = children.start(sleep)
            raised_ns = []
            for number in range(_WAKES):
                _await(cells, 8, number + 1)
                time.sleep(0.002)  # until it sleeps
                raised_ns.append(time.monotonic_ns())
                cells.wake(0)
            woken_ns = children.answer(child)
        except OSError as error:
            return failed(
                f"a process asleep on a futex is not woken by another one: {error}", "run on Linux itself, and not on what plays it"
            )
    took_us = statistics.median((woken - raised) / 1e3 for woken, raised in zip(woken_ns, raised_ns, strict=True))
    found = f"median {took_us:,.0f} µs from raising a futex to the other process"
    return warning(found, advice) if took_us > 1000 else ok(found)
