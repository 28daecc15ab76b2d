"""The checks in their order, each with why a log needs it. An installed package adds its own by
entry points of the group ``commitlog.checks``, each of which names a `Check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from commitlog.base.registered import load, registered
from commitlog.tools.doctor import machine, processes, storage
from commitlog.tools.doctor.finding import Finding, Verdict, Workspace, failed, warning


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, why a log needs what it checks, and the function that does it."""

    name: str
    means: str
    examine: Callable[[Workspace], Finding]
    needs_all: bool = False  # not run if another check has failed


GROUP = "commitlog.checks"
CHECKS = (
    Check("platform", "commitlog needs Linux on x86-64 or aarch64", machine.check_platform),
    Check("memory lock", "a locked pool is not swapped out", machine.check_memory_lock),
    Check(
        "shared memory",
        "shared-memory buffers of a pool survive a kill there",
        machine.check_shared_memory,
    ),
    Check("file system", "mappings and locks need a local file system", storage.check_kind),
    Check("room", "segments are allocated ahead of need", storage.check_room),
    Check(
        "allocation",
        "on allocated blocks, a full disk is an error and not a SIGBUS",
        storage.check_allocation,
    ),
    Check("msync", "the time that a sync append to a mapped log waits", storage.check_msync),
    Check("locks", "locks distinguish a live writer from a dead one", processes.check_locks),
    Check("round", "writers and a reader share a log", processes.check_round, needs_all=True),
)


def checks() -> list[Check]:
    """Return all checks; those that need the others come last."""
    found = [*CHECKS]
    for name, entry in registered(GROUP).items():
        check = load(entry, Check)
        found.append(_unavailable(name, check) if isinstance(check, str) else check)
    return sorted(found, key=lambda check: check.needs_all)


def _unavailable(name: str, why: str) -> Check:
    finding = warning("not run, because it cannot be imported", why)
    return Check(name, "an installed package registers this check", lambda _: finding)


def examine(workspace: Workspace) -> Iterator[tuple[Check, Finding]]:
    """Run every check; yield its finding as soon as it is known."""
    sound = True
    for check in checks():
        if check.needs_all and not sound:
            finding = warning(
                "not run, because a check above failed",
                "fix what failed, then run the doctor again",
            )
        else:
            finding = run_check(check, workspace)
        sound = sound and finding.verdict is not Verdict.FAILED
        yield check, finding


def run_check(check: Check, workspace: Workspace) -> Finding:
    """Run one check. If a system call fails, the check has failed."""
    try:
        return check.examine(workspace)
    except OSError as error:
        return failed(
            f"could not be checked: {error}", "remove the cause, then run the doctor again"
        )
