"""What a log is, found again in its segments when `log.json` is lost."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter

from commitlog._kernel import segments as kernel
from commitlog.base.regular_file import opened_regular
from commitlog.base.roll_cycle import NAMES, RollCycle
from commitlog.errors import InvalidOptionError, IOFailureError
from commitlog.segment.directory import is_base, names_in
from commitlog.segment.identity import Identity

_logger = logging.getLogger("commitlog")
_NAME = re.compile(r"^([0-9]{20})\.seg$")


def segment_files(dir_fd: int) -> dict[str, int]:
    """The segment files of a directory: name and the base position that it says, ascending."""
    found = {name: int(match[1]) for name in names_in(dir_fd) if (match := _NAME.match(name))}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def read_page(dir_fd: int, name: str) -> bytes:
    """Read a file's first page, zero-padded if the file is shorter."""
    with opened_regular(name, dir_fd=dir_fd) as fd:
        return os.pread(fd, kernel.HEADER_SIZE, 0).ljust(kernel.HEADER_SIZE, b"\0")


def deduce(dir_fd: int, cycle: RollCycle | None = None) -> Identity | None:
    """Return the identity that most sound segment headers agree on, or None if there is no sound
    header.

    Only `log.json` records the appenders' clock: the log continues with coarse timestamps. The roll
    cycle is the given one, or the named one, in UTC, with which the opened parts of all headers
    agree. A cycle with another zone or epoch, or a period, is not guessed.

    Raises
    ------
    InvalidOptionError
        The segments were not opened by the cycle that is given.
    """
    votes: Counter[tuple[bytes, int]] = Counter()
    created_ns: dict[tuple[bytes, int], int] = {}
    opened: dict[tuple[bytes, int], list[tuple[int, int]]] = {}
    for name, base in segment_files(dir_fd).items():
        try:
            page = read_page(dir_fd, name)
        except IOFailureError:
            continue  # a directory, a FIFO or the like
        uuid, _, _, size, created = kernel.header_fields(page)
        if (
            not kernel.SMALLEST <= size <= kernel.LARGEST
            or not is_base(base, size)
            or kernel.check_header(page, uuid, base, size) != 0
        ):
            continue
        votes[uuid, size] += 1
        if (found := kernel.read_opened(page)) is not None:
            opened.setdefault((uuid, size), []).append(found)
        created_ns[uuid, size] = min(created, created_ns.get((uuid, size), created))
    if not votes:
        return None
    uuid, size = votes.most_common(1)[0][0]
    times = opened.get((uuid, size), [])
    if cycle is None:
        cycle = _deduce_cycle(times)
    else:
        _check_cycle(cycle, times)
    return Identity(
        uuid=uuid,
        segment_size=size,
        timestamps="coarse",
        created_ns=max(created_ns[uuid, size], 0),
        roll_cycle=cycle,
    )


def _deduce_cycle(opened: list[tuple[int, int]]) -> RollCycle | None:
    """The cycle in which all the times lie that segments were opened at. Where they are numbered 0
    the log rolls by size alone.
    """
    if not opened or all(number == 0 for _, number in opened):
        return None
    for name in NAMES:
        cycle = RollCycle(name)
        if all(cycle.number_at(opened_ns) == number for opened_ns, number in opened):
            return cycle
    _logger.warning(
        "the log rolled by cycles of a zone, an epoch or a period that its segments do not say: "
        "it goes on by size alone, unless "
        "`commitlog repair --roll-cycle` is told which"
    )
    return None


def _check_cycle(cycle: RollCycle, opened: list[tuple[int, int]]) -> None:
    for opened_ns, number in opened:
        if cycle.number_at(opened_ns) != number:
            raise InvalidOptionError(
                f"the log did not roll by {cycle}: a segment that was opened {opened_ns} ns after "
                f"1970 is of cycle {number}, and not of "
                f"{cycle.number_at(opened_ns)}; nothing was written"
            )
