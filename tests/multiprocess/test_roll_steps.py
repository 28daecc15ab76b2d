"""A process killed or stopped at each step of a segment's creation and of a roll: the others
complete the roll, and no record is lost.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog
from commitlog._kernel.segments import HEADER_SIZE, OPENED_AT
from commitlog.log.parts import parts_of
from tests.faults import image
from tests.faults.child import Child, Link
from tests.faults.writers import APPENDED, OPENED, SEGMENT_SIZE, open_log
from tests.length import mixed
from tests.multiprocess.watched import Watched
from tests.setups import tuned
from tests.steps import hooked_rolls, replace_hook

Start = Callable[..., Child]
STEP = "S"
OPTIONS = {"allocate_ahead": 0, "flush": "none", "prefault": False, "claim_timeout": 0.05}
FILLED, LAST = bytes(1000), b"the one that rolls".ljust(1600, b".")
CREATION = [
    "created",
    "allocated",
    "written",
    "synced",
    "renamed",
    "directory synced",
    "next segment brought",
    "tail moved",
]
# Named by what other processes see change: the slot, the tail, the padding, the next segment's
# header.
PADDING = ["slot odd", "range added", "padded", "slot even"]
OPENING = ["opened", "checked", "tail moved"]
LIMIT_S = 60.0


def fill(log: CommitLog) -> int:
    """Append until the record that rolls no longer fits; return the number of records."""
    count = 0
    while SEGMENT_SIZE - log.tail_position % SEGMENT_SIZE > len(LAST):
        log.append(FILLED)
        count += 1
    return count


def roll_stepwise(link: Link, path: str, stop_at: str, ahead: int = 0) -> None:
    """Append the record that rolls; at the named step, wait for permission to continue.
    With a segment `ahead` the kernel rolls alone.
    """
    log, _ = open_log(path, None, OPTIONS | {"allocate_ahead": ahead})
    while parts_of(log).engine.ready_below < 1 + ahead and ahead:
        os.sched_yield()
    link.say(OPENED, 0, fill(log), log.tail_position)

    def passed(name: str) -> None:
        if name == stop_at:
            link.say(STEP)
            link.wait()

    replace_hook(passed)
    with hooked_rolls(passed):
        passed("begin")
        link.say(APPENDED, 0, 0, log.append(LAST))
    log.close()


def others_go_on(path: Path, filled: int) -> list[bytes]:
    """Append across the segment's end beside the stopped process, and read every record."""
    with commitlog.open(path, **tuned(OPTIONS)) as log:
        mine = [b"another %d" % index for index in range(100)]
        positions = [log.append(value) for value in mine]
        assert positions[-1] > SEGMENT_SIZE
        with commitlog.open(path, "r") as reader:
            for opened in (log, reader):
                tailer = opened.tailer()
                found = [
                    record.value
                    for _ in range(filled + len(mine))
                    if (record := tailer.read(timeout=LIMIT_S)) is not None
                ]
                assert [value for value in found if value != LAST] == [FILLED] * filled + mine
    return mine


def check_end(path: Path, filled: int, mine: list[bytes], landed: int | None) -> None:
    """Check all records: each writer's in order, the rolling record once at its reported position,
    or never if its writer was killed.
    """
    with commitlog.open(path) as log:
        found = list(log.tailer())
        values = [record.value for record in found]
        assert values[:filled] == [FILLED] * filled
        assert [value for value in values[filled:] if value != LAST] == mine
        assert [record.position for record in found if record.value == LAST] == (
            [] if landed is None else [landed]
        )
        log.append(b"on")
    assert image.temporaries(path) == []


@pytest.mark.parametrize(("end", "step"), mixed(["killed", "stopped"], CREATION, of=2))
def test_writer_stuck_in_segment_creation_blocks_no_other(
    path: Path, end: str, step: str, start: Start
) -> None:
    child = start(roll_stepwise, str(path), step)
    filled = child.hear(1)[0].index
    child.hear(1)
    if end == "killed":
        child.kill()
        check_end(path, filled, others_go_on(path, filled), None)
        return
    child.pause()
    mine = others_go_on(path, filled)
    child.resume()
    child.go_on()
    check_end(path, filled, mine, child.join()[-1].position)


def shared_state(path: Path, number: int, pad_at: int) -> Callable[[], object]:
    """Return a function that reads what other processes see of a roll: the slot's counter, the
    tail, the padding, and the opened part of the next header.
    """
    with (path / "cursors").open("rb") as file:
        cursors = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    parts = [(cursors, 8192, 8), (cursors, 4096 + 128, 8)]
    for segment, at, size in ((number, pad_at % SEGMENT_SIZE, 8), (number + 1, OPENED_AT, 32)):
        name = path / f"{segment * SEGMENT_SIZE:020d}.seg"
        if name.exists():
            with name.open("rb") as file:
                parts.append((mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), at, size))
    return lambda: [part[at : at + size] for part, at, size in parts]


STORES = [("begin", 0, *store) for store in enumerate(PADDING, 1)] + [
    ("next segment brought", 0, *store) for store in enumerate(OPENING, 1)
]
STORES_AHEAD = [("begin", 1, *store) for store in enumerate(PADDING + OPENING, 1)]


@pytest.mark.parametrize(
    ("end", "store"),
    mixed(["killed", "stopped"], STORES + STORES_AHEAD, of=2),
    ids=lambda each: each if isinstance(each, str) else f"{each[0]}-{each[1]}-{each[3]}",
)
def test_writer_stuck_between_two_stores_blocks_no_other(
    path: Path, end: str, store: tuple[str, int, int, str], start: Start
) -> None:
    """Each visible store of a roll, found by running the process instruction by instruction."""
    begin, ahead, change, step = store
    child = start(roll_stepwise, str(path), begin, ahead)
    opened = child.hear(1)[0]
    child.hear(1)
    watched = Watched(child.pid)
    child.go_on()
    look = shared_state(path, 0, opened.position)
    watched.run_to_change(look, change)
    tail = image.cell(path, "tail")
    assert (tail >> 32 == 1) == (step == "tail moved"), (step, tail)
    if end == "killed":
        os.kill(child.pid, 9)
        child.wait()
        check_end(path, opened.index, others_go_on(path, opened.index), None)
        return
    mine = others_go_on(path, opened.index)
    watched.let_go()
    check_end(path, opened.index, mine, child.join()[-1].position)


def test_stores_of_a_roll_match_their_names(path: Path, start: Start) -> None:
    """The names above match the stores that they stand for."""
    child = start(roll_stepwise, str(path), "begin")
    pad_at = child.hear(1)[0].position
    child.hear(1)
    watched = Watched(child.pid)
    child.go_on()
    look = shared_state(path, 0, pad_at)
    seen = []
    for _ in PADDING:
        before = look()
        watched.run_to_change(look, 1)
        seen.append(
            [
                index
                for index, (old, new) in enumerate(zip(before, look(), strict=True))
                if old != new
            ]
        )
    assert seen == [[0], [1], [2], [0]]
    assert struct.unpack("<Q", look()[1])[0] & 0xFFFFFFFF > SEGMENT_SIZE
    assert pad_at % SEGMENT_SIZE > HEADER_SIZE
    watched.let_go()
    child.join()
