"""Searches protocol.pml and replication.pml exhaustively with spin, and checks that it finds
planted faults: `make model`.

Each search goes through every state that its parameters allow, without bit-state hashing, and has
to end without a counter-example. Then each mutation breaks one rule of its model, and spin has
to find the invariant that it breaks.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

FOLDER = Path(__file__).resolve().parent
# A search that needs more has grown out of its bounds, and fails. Two run at a time.
MEMORY_MIB = 950
AT_A_TIME = 2
DEPTH = 10_000
AT_END = "I10"


@dataclass(frozen=True)
class Search:
    """One run of spin over a model; with `cycles`, for runs that never end."""

    name: str
    defines: tuple[str, ...]
    cycles: bool = False
    model: str = "protocol"


@dataclass(frozen=True)
class Mutation:
    """A rule of the protocol that is broken, the invariant that spin finds broken by it, and the
    parameters of a search that does.
    """

    name: str
    invariant: str
    defines: tuple[str, ...]
    model: str = "protocol"


@dataclass(frozen=True)
class Outcome:
    """The result of spin."""

    errors: int
    complaint: str
    states: int
    depth: int
    memory_mib: float
    seconds: float
    complete: bool


STOPS = "TIMEOUT=1"
NO_STOPS = "TIMEOUT=0"
NO_CRASHES = "CRASHES=false"
RETAKEN = "RESTARTS=1"
ONE_READER = "READERS=1"
READ_ONLY = "READ_ONLY_LAST=1"
ROLLS = ("SEGMENTS=2", "SEGMENT=2")
OTHERS = ("SWAPPER=2", "CLOSER=2")
SMALL = "SEGMENT=2"
TWO_FOLLOWERS = ("NODES=3", "REQUIRED=1")
BOTH_FOLLOWERS = ("NODES=3", "REQUIRED=2")
TWO_OF_THREE = ("NODES=4", "REQUIRED=2", "EPOCHS=2")
ONCE = ("EPOCHS=1", "RESTARTS=1")
RESTARTED = (*TWO_FOLLOWERS, *ONCE)
RAISED = (*TWO_FOLLOWERS, "CHANGED=2")
LOWERED = (*BOTH_FOLLOWERS, "CHANGED=1")
RESTARTED_TWICE = (*TWO_FOLLOWERS, "EPOCHS=2", "RESTARTS=1", "LENGTH=1")
REPLICATION = "replication"

# Without more words: one segment of four cells, crashes anywhere, two readers that resolve.
SEARCHES = (
    Search("timeouts", (STOPS,)),
    Search("timeouts, a read-only reader", (STOPS, READ_ONLY)),
    Search("no timeouts", (NO_STOPS,)),
    Search("no timeouts, a read-only reader", (NO_STOPS, READ_ONLY)),
    Search("no timeouts, a read-only reader alone", (NO_STOPS, READ_ONLY, ONE_READER)),
    Search("no timeouts, a slot is taken again", (NO_STOPS, RETAKEN, "SEGMENT=3", ONE_READER)),
    Search("two segments, timeouts", (STOPS, *ROLLS, ONE_READER)),
    Search("two segments, large frames, early rolls", (NO_STOPS, *ROLLS, *OTHERS)),
    Search("full disk: appends fail again and again", (STOPS, SMALL, "APPENDS=2")),
    Search("every run ends", (NO_STOPS,), cycles=True),
    Search("every run ends, two segments", (NO_STOPS, *ROLLS, *OTHERS, ONE_READER), cycles=True),
    Search("promotions, one of two followers", TWO_FOLLOWERS, model=REPLICATION),
    Search("promotions, two of two followers", BOTH_FOLLOWERS, model=REPLICATION),
    Search("promotions, followers of followers", (*TWO_FOLLOWERS, "CHAINS=1"), model=REPLICATION),
    Search("promotions, two of three followers", TWO_OF_THREE, model=REPLICATION),
    Search("restarts, one of two followers", RESTARTED, model=REPLICATION),
    Search("restarts, two of two followers", (*BOTH_FOLLOWERS, *ONCE), model=REPLICATION),
    Search("restarts, three records", (*RESTARTED, "LENGTH=3"), model=REPLICATION),
    Search("restarts, two promotions", RESTARTED_TWICE, model=REPLICATION),
    Search("changes of require, from one to two", (*RAISED, "LENGTH=1"), model=REPLICATION),
    Search("changes of require, from two to one", (*LOWERED, "LENGTH=1"), model=REPLICATION),
)

MUTATIONS = (
    Mutation("gap_without_waiting", "I7", (NO_STOPS, NO_CRASHES)),
    Mutation("no_claimed_swap", "I1", (STOPS, NO_CRASHES)),
    Mutation("reuses_range", "I6", (STOPS, NO_CRASHES)),
    Mutation("even_before_swap", "I7", (NO_STOPS, NO_CRASHES)),
    Mutation("odd_after_add", "I7", (NO_STOPS, NO_CRASHES)),
    Mutation("marks_to_present_tail", "I7", (NO_STOPS,)),
    Mutation("suspects_before_tail", "I7", (NO_STOPS, NO_CRASHES)),
    Mutation("crosses_foreign_cells", "I6", (STOPS, NO_CRASHES)),
    Mutation("marks_descending", "I6", (STOPS, NO_CRASHES)),
    Mutation("marks_by_store", "I6", (STOPS, NO_CRASHES)),
    Mutation("claims_by_store", "I5", (STOPS, NO_CRASHES)),
    Mutation("publishes_by_store", "I5", (STOPS, NO_CRASHES)),
    Mutation("publishes_before_write", "I1", (STOPS, NO_CRASHES)),
    Mutation("rolls_back_by_store", "I5", (STOPS, NO_CRASHES)),
    Mutation("ignores_generation", "I10", (NO_STOPS, RETAKEN, SMALL)),
    Mutation("never_probes", "I10", (NO_STOPS, SMALL)),
    Mutation("retaken_slot_stays_odd", "I10", (NO_STOPS, RETAKEN, SMALL)),
    Mutation("pads_by_store", "I5", (STOPS, NO_CRASHES, SMALL)),
    Mutation("overshoots_again", "I9", (STOPS, NO_CRASHES, SMALL, "APPENDS=2")),
    Mutation("moves_tail_by_store", "I9", (STOPS, NO_CRASHES, *ROLLS)),
    Mutation("moves_tail_first", "I8", (STOPS, NO_CRASHES, *ROLLS)),
    Mutation("rename_replaces", "I8", (STOPS, NO_CRASHES, *ROLLS)),
    Mutation("reopens", "I8", (STOPS, NO_CRASHES, *ROLLS)),
    Mutation("passes_live_gap", "I2", (STOPS, NO_CRASHES, READ_ONLY)),
    Mutation("passes_live_claim", "I2", (STOPS, NO_CRASHES, READ_ONLY)),
    Mutation("reader_expires_owners", "I2", (STOPS, NO_CRASHES, READ_ONLY)),
    Mutation("counts_before_start", "R1", TWO_FOLLOWERS, REPLICATION),
    Mutation("compares_adopted", "R1", TWO_FOLLOWERS, REPLICATION),
    Mutation("compares_end", "R1", TWO_FOLLOWERS, REPLICATION),
    Mutation("compares_nothing", "R1", TWO_OF_THREE, REPLICATION),
    Mutation("one_too_few", "R1", TWO_OF_THREE, REPLICATION),
    Mutation("forgets_a_copy", "R1", TWO_FOLLOWERS, REPLICATION),
    Mutation("withdraws_begun", "R1", TWO_FOLLOWERS, REPLICATION),
    Mutation("catches_up_anyway", "R4", TWO_FOLLOWERS, REPLICATION),
    Mutation("fence_does_not_stop", "R1", TWO_OF_THREE, REPLICATION),
    Mutation("follows_lower", "R4", TWO_FOLLOWERS, REPLICATION),
    Mutation("never_cuts", "R3", TWO_FOLLOWERS, REPLICATION),
    Mutation("cuts_at_end", "R3", TWO_FOLLOWERS, REPLICATION),
    Mutation("streams_across_epochs", "R4", TWO_FOLLOWERS, REPLICATION),
    Mutation("acknowledges_unflushed", "R1", RESTARTED, REPLICATION),
    Mutation("notes_no_restart", "R3", RESTARTED, REPLICATION),
    Mutation("changes_by_quorum", "R1", LOWERED, REPLICATION),
    Mutation("promises_no_change", "R1", LOWERED, REPLICATION),
    Mutation("forgets_change", "R1", LOWERED, REPLICATION),
    Mutation("adopts_no_change", "R1", LOWERED, REPLICATION),
    Mutation("raises_at_once", "R1", RAISED, REPLICATION),
)


def run(command: list[str], place: Path) -> str:
    """A command's output; its failure ends the check."""
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"model: {' '.join(command)} failed\n{done.stdout}{done.stderr}")
    return done.stdout


def search(
    model: str,
    defines: tuple[str, ...],
    *,
    cycles: bool = False,
    breadth_first: bool = False,
    level: str = "-O1",
) -> Outcome:
    """Spin's search through all states of a model with these defines."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        source = FOLDER / f"{model}.pml"
        run(["spin", "-a", *(f"-D{define}" for define in defines), str(source)], place)
        kind = ["-DNP"] if cycles else ["-DSAFETY", "-DBFS"] if breadth_first else ["-DSAFETY"]
        run(["gcc", level, "-w", *kind, f"-DMEMLIM={MEMORY_MIB}", "-o", "pan", "pan.c"], place)
        began = time.monotonic()
        said = run(["./pan", f"-m{DEPTH}", *(["-l"] if cycles else [])], place)
        return read_outcome(said, time.monotonic() - began)


def read_outcome(said: str, seconds: float) -> Outcome:
    """The figures in what the search printed."""

    def number(pattern: str) -> float:
        found = re.search(pattern, said)
        if found is None:
            sys.exit(f"model: spin's output has no {pattern!r}\n{said}")
        return float(found.group(1))

    complaint = re.search(r"pan:1: assertion violated .*\b([IR]\d+)\b", said) or re.search(
        r"pan:1: (.*)", said
    )
    return Outcome(
        errors=int(number(r"errors: (\d+)")),
        complaint=complaint.group(1) if complaint else "",
        states=int(number(r"([\d.e+]+) states, stored")),
        depth=int(number(r"depth reached (\d+)")),
        memory_mib=number(r"([\d.]+)\s+total actual memory usage"),
        seconds=seconds,
        complete="Search not completed" not in said and "max search depth too small" not in said,
    )


def in_parallel(work: Callable[[T], Outcome], items: Iterable[T]) -> Iterator[tuple[T, Outcome]]:
    """Yield each item with its result, in their order."""
    listed = list(items)
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        yield from zip(listed, threads.map(work, listed), strict=True)


def check_searches() -> bool:
    """Every search ends, complete and without a counter-example."""
    fine = True
    print(f"{'search':44}{'states':>12}{'depth':>8}{'MiB':>8}{'s':>8}")
    for each, outcome in in_parallel(
        lambda each: search(each.model, each.defines, cycles=each.cycles), SEARCHES
    ):
        print(
            f"{each.name:44}{outcome.states:12,}{outcome.depth:8}"
            f"{outcome.memory_mib:8.0f}{outcome.seconds:8.1f}",
            flush=True,
        )
        if outcome.errors or not outcome.complete:
            print(
                f"model: FAILED: {outcome.complaint or 'the search is not complete'}: "
                f"{' '.join(each.defines)}",
                file=sys.stderr,
            )
            fine = False
    return fine


def search_mutation(mutation: Mutation) -> Outcome:
    """A search for a counter-example: breadth first finds a short one soon, but where a run has to
    end to show it, depth first does. Spin allows hidden variables only depth first.
    """
    return search(
        mutation.model,
        (f"MUTATION={mutation.name}", *mutation.defines),
        breadth_first=mutation.invariant != AT_END and mutation.model != REPLICATION,
        level="-O0",
    )


def check_mutations() -> bool:
    """Spin finds a counter-example for every one."""
    fine = True
    print(f"\n{'mutation':28}counter-example")
    for each, outcome in in_parallel(search_mutation, MUTATIONS):
        print(f"{each.name:28}{outcome.complaint if outcome.errors else 'NONE'}", flush=True)
        if outcome.complaint != each.invariant:
            print(f"model: FAILED: {each.name} should break {each.invariant}", file=sys.stderr)
            fine = False
    return fine


def main() -> int:
    """Exit status 0 when the protocol holds and every mutation is found, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["searches", "mutations"], help="a part of the check")
    only = parser.parse_args().only
    for program, package in (("spin", "spin"), ("gcc", "gcc")):
        if shutil.which(program) is None:
            sys.exit(
                f"model: {program} is missing: install it (Debian, Ubuntu: apt-get install "
                f"{package})"
            )
    fine = only == "mutations" or check_searches()
    return 0 if (only == "searches" or check_mutations()) and fine else 1


if __name__ == "__main__":
    sys.exit(main())
