"""Trouble: what happens to machines, disks, clocks, network and bucket of a replicated log."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from tests.faults import small_disk
from tests.faults.replication.proxy import Proxy
from tests.faults.replication.world import World

_REFUSALS = ("409", "412")
_REQUEST_FAULTS = ("500", "503", *_REFUSALS, "drop", "lost", "hang", "stall", "torn", "slow")
Trouble = Callable[[World], None]


def pause(world: World, least_s: float = 0.02, most_s: float = 0.3) -> None:
    """Let a fault last for a random while."""
    threading.Event().wait(world.numbers.uniform(least_s, most_s))


def _link(world: World) -> Proxy:
    return world.links[world.numbers.choice(world.followers)]


def delay(world: World) -> None:
    for name in world.followers:
        world.links[name].delay_s = world.numbers.uniform(0.001, 0.02)
    world.appender.wait_more("acknowledged", 5)


def cut(world: World) -> None:
    for _ in range(world.numbers.randrange(1, 4)):
        _link(world).cut()
        world.appender.wait_more("acknowledged", 1)


def hold_requests(world: World) -> None:
    _link(world).hold("up")
    pause(world)


def hold_answers(world: World) -> None:
    _link(world).hold("down")
    pause(world)


def hold_and_cut(world: World) -> None:
    link = _link(world)
    link.hold("up", "down")
    pause(world)
    link.cut()


def isolate(world: World) -> None:
    """Hold all links, in one direction or both."""
    ways = world.numbers.choice((("up",), ("down",), ("up", "down")))
    for name in world.followers:
        world.links[name].hold(*ways)
    pause(world)


def leave_behind(world: World) -> None:
    """Have one copy lack what the other one has acknowledged."""
    _link(world).hold(*world.numbers.choice((("down",), ("up", "down"))))
    if world.require == 1:
        world.appender.wait_more("acknowledged", 5)
    else:
        pause(world)


def harm_promotions(world: World) -> None:
    """Harm what a promotion asks of the other copies, if it comes before the end of the fault."""
    for name in world.followers:
        back = world.backs[name]
        kind = world.numbers.choice(("up", "down", "delays", "tears", "flips", "doubles"))
        if kind in {"up", "down"}:
            back.hold(kind)
        elif kind == "delays":
            back.delay_s = world.numbers.uniform(0.01, 0.3)
        elif kind == "doubles":
            back.doubles = True
        else:
            setattr(back, kind, 0.2)


def double(world: World) -> None:
    link = _link(world)
    link.doubles = True
    link.cut()
    world.appender.wait_more("acknowledged", 20)


def tear(world: World) -> None:
    _link(world).tears = 0.1
    pause(world)


def flip(world: World) -> None:
    _link(world).flips = 0.1
    pause(world)


def stop_a_follower(world: World) -> None:
    program = world.running[world.numbers.choice(world.followers)]
    program.stop()
    pause(world)
    program.resume()


def stop_the_primary(world: World) -> None:
    world.appender.stop()
    pause(world)
    world.appender.resume()


def kill_a_follower(world: World) -> None:
    name = world.numbers.choice(world.followers)
    world.end(name)
    pause(world, 0, 0.1)
    world.follow(name)


def kill_the_primary(world: World) -> None:
    world.end(world.primary)
    world.append()


def slow_disk(world: World) -> None:
    for machine in world.numbers.sample(list(world.machines.values()), 2):
        machine.slow(world.numbers.uniform(1, 30))
    world.appender.wait_more("acknowledged", 5)


def full_disk(world: World) -> None:
    machine = world.machines[world.numbers.choice(list(world.machines))]
    machine.fill()
    pause(world, 0.1, 0.5)


def full_bucket(world: World) -> None:
    if world.disks:
        small_disk.fill(world.bucket)
    pause(world, 0.1, 0.5)


def fail_requests(world: World) -> None:
    """Have the store answer errors or late, lose answers, and refuse new objects."""
    numbers = random.Random(world.numbers.getrandbits(32))
    kinds = numbers.sample(_REQUEST_FAULTS, 3)

    def fault(method: str, _key: str) -> str | None:
        kind = numbers.choice((None, *kinds))
        return None if kind in _REFUSALS and method != "PUT" else kind

    world.s3.fault = fault
    pause(world, 0.1, 1)


def list_what_was(world: World) -> None:
    """Have listings of the store lack what is put from now on."""
    with world.s3.lock:
        world.s3.listed = dict(world.s3.objects)
    pause(world, 0.1, 1)


def step_clocks(world: World) -> None:
    for machine in world.numbers.sample(list(world.machines.values()), 2):
        machine.step_clock(world.numbers.choice((-86_400, -2, 2, 3_600)))
    world.appender.wait_more("acknowledged", 5)


ALL: tuple[Trouble, ...] = (
    delay, cut, hold_requests, hold_answers, hold_and_cut, isolate, leave_behind, harm_promotions,
    double, tear, flip, stop_a_follower, stop_the_primary, kill_a_follower, kill_the_primary,
    slow_disk, full_disk, full_bucket, fail_requests, list_what_was, step_clocks,
)  # fmt: skip
