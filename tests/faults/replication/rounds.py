"""Rounds of faults and promotions, a program that `command` starts.

Each round lets some faults happen to a primary, its two followers, their bucket and a reader; then
the primary is replaced, or dies and returns. No acknowledged record may be lost or be there twice,
no two logs may differ, and an append that began after a promotion is never acknowledged by the old
primary.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.copies import copy_log
from tests.faults import small_disk
from tests.faults.replication import programs, trouble
from tests.faults.replication.trouble import Trouble
from tests.faults.replication.world import World

ROUNDS_OF_A_LOG = 15  # then log and bucket are made anew

Ending = Callable[[World], None]


def return_without_a_promotion(world: World) -> None:
    """The primary dies and comes back."""
    world.end(world.primary)


def promote_after_a_kill(world: World) -> None:
    world.end(world.primary)
    one, other = world.numbers.sample(world.followers, 2)
    world.end(one)
    world.promote(one, [other]).result()


def promote_beside_the_primary(world: World) -> None:
    """The old primary lives on, reachable or not, and acknowledges nothing more."""
    old = world.appender
    one, other = world.numbers.sample(world.followers, 2)
    fate = world.numbers.choice(("reachable", "isolated", "stopped"))
    if fate == "isolated":
        world.links[other].hold(*world.numbers.choice((("up",), ("down",), ("up", "down"))))
    if fate == "stopped":
        old.stop()
    world.end(one)
    said = world.promote(one, [other]).result()
    if fate == "stopped":
        old.resume()
    if said[0] == "promoted":
        world.heal()
        # Where all copies have to acknowledge, the promise of the promoted one is enough. If the
        # other one was down, the old primary may not learn of the epoch.
        if world.lineage(other).promised >= world.lineage(one).rank:
            old.wait("fenced")
        late = [words for words in old.said if words[0] == "acknowledged" and words[2] > said[-1]]
        assert not late, late


def kill_the_promotion(world: World) -> None:
    """A promotion dies at one of its steps; then it is tried again, here or there."""
    if world.numbers.random() < 0.5:
        world.end(world.primary)
    one, other = world.numbers.sample(world.followers, 2)
    world.end(one)
    world.promote(one, [other], world.numbers.randrange(1, 12)).result()
    if world.numbers.random() < 0.5:
        world.end(other)
        world.follow(one)  # refused, if it was promoted
        world.promote(other, [one]).result()


def promote_both(world: World) -> None:
    """Two promotions at the same time."""
    if world.numbers.random() < 0.5:
        world.end(world.primary)
    one, other = world.numbers.sample(world.followers, 2)
    world.end(one)
    first = world.promote(one, [other])
    threading.Event().wait(world.numbers.uniform(0, 0.05))
    world.end(other)
    second = world.promote(other, [one])
    first.result()
    second.result()


ENDINGS: tuple[Ending, ...] = (
    return_without_a_promotion, promote_after_a_kill, promote_beside_the_primary,
    kill_the_promotion, promote_both,
)  # fmt: skip


def run_round(world: World, troubles: list[Trouble], ending: Ending) -> None:
    """Let trouble happen, the last of it during the ending; then check everything."""
    world.read_on()
    for each in troubles:
        world.heal()
        world.appender.wait_more("acknowledged", world.numbers.randrange(1, 30))
        each(world)
    fate = world.numbers.choice(("faulty", "healed", "behind"))
    if fate != "faulty":
        world.heal()
    if fate == "behind":
        trouble.leave_behind(world)
    before = world.rank()
    ending(world)
    world.heal()
    world.stop_reading()
    world.settle()
    world.check(promoted=world.rank() != before)
    if world.numbers.random() < 0.2:
        world.change_require()


@contextmanager
def _kept(world: World) -> Iterator[None]:
    """Copy the files of a world that fails to where they can be looked at."""
    try:
        yield
    except BaseException:
        for name, program in world.running.items():
            print(f"{name} {program.name}: {program.said[-8:]}"[:2000])
        kept = world.folder.with_name(f"{world.folder.name}-failed")
        copy_log(world.folder, kept, "pipe*")
        print(f"the files are in {kept}")
        raise


def run(folder: Path, rounds: int, seed: str, *, disks: bool) -> tuple[int, int]:
    """Run so many rounds; return how many records were acknowledged and read."""
    numbers = random.Random(seed)
    acknowledged = read = 0
    with World(folder, numbers, disks) as world, _kept(world):
        for number in range(rounds):
            if number % ROUNDS_OF_A_LOG == 0:
                world.begin(in_s3=numbers.random() < 0.5)
                world.require = numbers.choice((1, 2))
                world.check(promoted=False)
            troubles = numbers.choices(trouble.ALL, k=numbers.randrange(1, 4))
            ending = numbers.choice(ENDINGS)
            names = [each.__name__ for each in (*troubles, ending)]
            began_s = time.monotonic()
            print(number, world.store[:5], world.require, *names, end="", flush=True)
            run_round(world, troubles, ending)
            print(f" {time.monotonic() - began_s:.1f} s", flush=True)
            if number + 1 == rounds or (number + 1) % ROUNDS_OF_A_LOG == 0:
                world.check_files()
                acknowledged += len(world.acknowledged)
                read += world.read
    return acknowledged, read


def command(rounds: int, seed: str, folder: Path) -> list[str]:
    """Return the command that runs so many rounds, with small disks if they can be mounted."""
    arguments = ["-m", "tests.faults.replication.rounds", str(rounds), seed, str(folder)]
    launcher = small_disk.launcher()
    disks = [] if launcher is None else ["--disks"]
    return [*(launcher or []), sys.executable, *arguments, *disks]


def main() -> None:
    rounds, seed, folder, *disks = sys.argv[1:]
    print(f"{rounds} rounds, seed {seed!r}", flush=True)
    programs.shorten_waits()
    began_s = time.monotonic()
    acknowledged, read = run(Path(folder), int(rounds), seed, disks=bool(disks))
    print(
        f"{rounds} rounds in {time.monotonic() - began_s:.0f} s: {acknowledged} records "
        f"acknowledged, none lost; {read} read"
    )


if __name__ == "__main__":
    main()
