"""Deduces the identity of a log from its segment headers if `log.json` is lost."""

from __future__ import annotations

import logging
from collections import Counter

from commitlog._kernel import segments as kernel
from commitlog.base.cycle_clock import NAMES
from commitlog.base.regular_file import opened_regular, read_range
from commitlog.base.roll_cycle import RollCycle, clock_of
from commitlog.errors import InvalidOptionError, IOFailureError
from commitlog.segment.directory import is_base, names_in, segment_bases
from commitlog.segment.identity import Identity

_logger = logging.getLogger("commitlog")


def read_page(dir_fd: int, name: str) -> bytes:
    """Read a file's first page, zero-padded if the file is shorter."""
    with opened_regular(name, dir_fd=dir_fd) as fd:
        return read_range(fd, kernel.HEADER_SIZE, 0).ljust(kernel.HEADER_SIZE, b"\0")


def deduce(dir_fd: int, cycle: RollCycle | None = None) -> Identity | None:
    """Return the identity that most valid segment headers agree on; None if no header is valid.

    Only `log.json` records the clock of the appenders: the log continues with coarse timestamps.
    The roll cycle is the given one, which is checked, or the named cycle in UTC that the opened
    parts of all headers match. A cycle with another zone or epoch, or a custom period, is not
    guessed.
    """
    votes: Counter[tuple[bytes, int]] = Counter()
    created_ns: dict[tuple[bytes, int], int] = {}
    opened: dict[tuple[bytes, int], list[tuple[int, int]]] = {}
    for name, base in segment_bases(names_in(dir_fd)).items():
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
    """Return the named cycle that all (time of opening, cycle number) pairs match. If all numbers
    are 0, the log rolls by size alone: None.
    """
    if not opened or all(number == 0 for _, number in opened):
        return None
    for name in NAMES:
        clock = clock_of(RollCycle(name))
        if all(clock.number_at(opened_ns) == number for opened_ns, number in opened):
            return RollCycle(name)
    _logger.warning(
        "the roll cycle is lost: the segments do not record its zone, epoch or period; the log "
        "continues to roll by size alone unless `commitlog repair --roll-cycle` sets the cycle"
    )
    return None


def _check_cycle(cycle: RollCycle, opened: list[tuple[int, int]]) -> None:
    clock = clock_of(cycle)
    for opened_ns, number in opened:
        if clock.number_at(opened_ns) != number:
            raise InvalidOptionError(
                f"the log did not roll by {cycle}: a segment that was opened {opened_ns} ns after "
                f"1970 has cycle number {number}, not {clock.number_at(opened_ns)}; nothing was "
                "written: give the cycle that the log was created with"
            )
