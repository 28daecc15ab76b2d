"""The checks in their order, each with what it means for a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from commitlog.doctor import locks, storage, system
from commitlog.doctor import round as rounds
from commitlog.doctor.finding import Finding, Outcome, Verdict, failed, warning
from commitlog.doctor.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Check:
    """A name, what the answer means for a log, and who finds it."""

    name: str
    means: str
    examine: Callable[[Workspace], Outcome]
    needs_all: bool = False  # it says nothing where another one has failed


CHECKS = (
    Check("platform", "where commitlog runs, and how it computes CRCs", system.check_platform),
    Check("boot id", "tells recovery whether the machine was restarted", system.check_boot_id),
    Check("clock", "each record has a timestamp", system.check_clock),
    Check("open files", "each log and tailer has a few", system.check_open_files),
    Check("memory lock", "keeps a pool's buffers from being swapped out", system.check_memory_lock),
    Check("shared memory", "pools that survive a kill live there", system.check_shared_memory),
    Check("file system", "whether mappings and locks hold there", storage.check_kind),
    Check("room", "segments are made ahead of need", storage.check_room),
    Check(
        "allocation", "a full disk is an error, and not the program's end", storage.check_allocation
    ),
    Check("rename", "two who make the same segment get one", storage.check_rename),
    Check(
        "directory sync", "a new segment's name survives a power cut", storage.check_directory_sync
    ),
    Check(
        "msync", "how long an append waits in a mapped log under flush='sync'", storage.check_msync
    ),
    Check("fdatasync", "how fast recovery and segment files get durable", storage.check_fdatasync),
    Check("locks", "the dead are told from the living", locks.check_locks),
    Check("round", "all of it together", rounds.check_round, needs_all=True),
)


def examine(workspace: Workspace) -> Iterator[Finding]:
    """Run every check.

    Parameters
    ----------
    workspace : Workspace
        On the directory where a log is to be.

    Yields
    ------
    Finding
        One for each of `CHECKS`, as soon as it is known.
    """
    sound = True
    for check in CHECKS:
        if check.needs_all and not sound:
            outcome = warning(
                "not tried, because of what failed above", "see to that, and run this again"
            )
        else:
            outcome = examined(check, workspace)
        sound = sound and outcome.verdict is not Verdict.FAILED
        yield Finding(check.name, outcome.verdict, outcome.found, check.means, outcome.advice)


def examined(check: Check, workspace: Workspace) -> Outcome:
    """What a check says. One that the system does not let do its work has failed."""
    try:
        return check.examine(workspace)
    except OSError as error:
        return failed(
            f"could not be checked: {error}", "see to what the message says, and run this again"
        )
