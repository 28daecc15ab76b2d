"""Account of what was acknowledged to child processes, to be compared with what a log returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from commitlog import CommitLog
from tests.faults.child import Report
from tests.faults.writers import APPENDED, CLAIM_EVERY, CLAIMED, OPENED, PUBLISHED, Mark, mark_of


@dataclass
class Account:
    """The acknowledged records, and those that earlier checks of the same log have found."""

    promised: dict[int, Mark] = field(default_factory=dict)
    claimed: dict[int, Mark] = field(default_factory=dict)
    found: dict[int, Mark] = field(default_factory=dict)
    claimers: set[int] = field(default_factory=set)

    def note(self, reports: Iterable[Report]) -> None:
        """Record the reports of a child; no position may be acknowledged twice."""
        for report in reports:
            mark = Mark(report.session, report.index)
            if report.kind == CLAIMED:
                self.claimed[report.position] = mark
                self.claimers.add(report.session)
            elif report.kind == PUBLISHED:
                self.promised[report.position] = self.claimed.pop(report.position)
                assert self.promised[report.position] == mark
            elif report.kind == APPENDED:
                assert report.position not in self.promised, (
                    f"position {report.position} was given twice"
                )
                self.promised[report.position] = mark
            else:
                assert report.kind == OPENED, report

    def check(self, log: CommitLog, *, lossless: bool = True) -> int:
        """Compare the log with the account; return the number of acknowledged records that are
        missing.

        Each record found must be genuine and at its reported position, and the records of a session
        must be a prefix of its appends, in order. Records found by an earlier check must still be
        there. With `lossless`, every acknowledged record must be there.
        """
        found = read_all(log)
        known = self.found | self.promised
        for position, mark in found.items():
            assert known.get(position, mark) == mark, (
                f"position {position} was {known[position]} and is {mark}"
            )
        assert self.found.items() <= found.items(), "what a recovered log has given once is gone"
        check_prefixes(found, self.claimers)
        # The kill may have prevented the report of a session's last publish; no other claim of that
        # session may have become a record.
        unreported = [
            self.claimed[position].session for position in self.claimed.keys() & found.keys()
        ]
        assert len(unreported) == len(set(unreported)), (
            "claims that were never published have become records"
        )
        lost = self.promised.keys() - found.keys()
        if lossless:
            assert not lost, (
                f"{len(lost)} acknowledged records are lost, the first at {min(lost)}: "
                f"{self.promised[min(lost)]}"
            )
        for position in lost:
            del self.promised[position]
        self.found = found
        self.claimed.clear()
        return len(lost)


def read_all(log: CommitLog) -> dict[int, Mark]:
    """Return the mark of each record by position, and check that positions ascend."""
    with log.tailer() as tailer:
        found = {record.position: mark_of(record.value) for record in tailer}
    assert list(found) == sorted(found)
    return found


def check_prefixes(found: dict[int, Mark], claimers: set[int]) -> None:
    """Check that each session's records are 0, 1, 2, ... in order; a claiming session may miss
    every ninth.
    """
    following: dict[int, int] = {}
    for mark in found.values():
        expected = following.get(mark.session, 0)
        while expected < mark.index and mark.session in claimers and expected % CLAIM_EVERY == 0:
            expected += 1
        assert mark.index == expected, (
            f"after record {expected - 1} of session {mark.session} comes {mark.index}"
        )
        following[mark.session] = expected + 1
