"""The checks in their order, each with why a log needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from commitlog.doctor import locks, storage, system
from commitlog.doctor import round as rounds
from commitlog.doctor.finding import Finding, Outcome, Verdict, failed, warning
from commitlog.doctor.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, why a log needs what it checks, and the function that does it."""

    name: str
    means: str
    examine: Callable[[Workspace], Outcome]
    needs_all: bool = False  # not run if another check has failed


CHECKS = (
    Check("platform", "commitlog needs Linux on x86-64 or aarch64", system.check_platform),
    Check("boot id", "recovery detects a restart of the machine by it", system.check_boot_id),
    Check("clock", "each record has a timestamp", system.check_clock),
    Check("open files", "each log and tailer takes a few descriptors", system.check_open_files),
    Check("memory lock", "a locked pool is not swapped out", system.check_memory_lock),
    Check("shared memory", "a pool that survives a kill is there", system.check_shared_memory),
    Check("file system", "mappings and locks need a local file system", storage.check_kind),
    Check("room", "segments are allocated ahead of need", storage.check_room),
    Check(
        "allocation",
        "on allocated blocks, a full disk is an error and not a SIGBUS",
        storage.check_allocation,
    ),
    Check("rename", "of two processes that create a segment, one succeeds", storage.check_rename),
    Check(
        "directory sync",
        "the name of a new segment survives a power cut",
        storage.check_directory_sync,
    ),
    Check("msync", "the time that a sync append to a mapped log waits", storage.check_msync),
    Check(
        "fdatasync", "the time that recovery waits to make a file durable", storage.check_fdatasync
    ),
    Check("locks", "locks distinguish a live writer from a dead one", locks.check_locks),
    Check("round", "writers and a reader share a log", rounds.check_round, needs_all=True),
)


def examine(workspace: Workspace) -> Iterator[Finding]:
    """Run every check.

    Parameters
    ----------
    workspace : Workspace
        In the directory of a future log.

    Yields
    ------
    Finding
        One for each of `CHECKS`, as soon as it is known.
    """
    sound = True
    for check in CHECKS:
        if check.needs_all and not sound:
            outcome = warning(
                "not run, because a check above failed",
                "fix what failed, then run the doctor again",
            )
        else:
            outcome = examined(check, workspace)
        sound = sound and outcome.verdict is not Verdict.FAILED
        yield Finding(check.name, outcome.verdict, outcome.found, check.means, outcome.advice)


def examined(check: Check, workspace: Workspace) -> Outcome:
    """Run one check. If a system call fails, the check has failed."""
    try:
        return check.examine(workspace)
    except OSError as error:
        return failed(
            f"could not be checked: {error}", "remove the cause, then run the doctor again"
        )
