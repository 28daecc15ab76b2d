"""Calls that fail while a program uses a log: some acts of the long leg."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.calls.__main__ import Workers
from tests.faults.calls.causes import CAUSES
from tests.faults.calls.plan import TENTHS, cases_of, tenth_of
from tests.faults.calls.preload import KINDS, SHORT, Fault


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    folder = Path(tempfile.mkdtemp(prefix="calls-", dir="/dev/shm"))
    made = Workers(folder)
    yield made
    made.close()
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("act", "kind", "each"),
    [
        ("append sync", "msync", True),
        ("delete", "stat", True),  # the disk space of a segment could not be read: a bare OSError
        ("follow", "fdatasync", True),  # the checkpoint of a copy could not be written: likewise
        ("follow", "statfs", True),  # an error without a path
        ("follow", "thread", True),  # the copy stayed locked
        ("restore", "thread", True),  # a pool of threads: a bare RuntimeError
        ("join", "open", False),  # a seal could not be read back: an AssertionError
        pytest.param("join", "open", True, marks=pytest.mark.long),
    ],
)
def test_failing_call_raises_and_loses_nothing(
    workers: Workers, act: str, kind: str, each: bool
) -> None:
    """Let each call fail, once and forever; or each sixth, in turn once and forever."""
    count = [found for found, _ in workers.ask(act)].count(kind)
    assert count > 0
    cause = CAUSES[kind][0]
    results = [
        workers.ask(act, Fault(kind, nth, cause, forever))
        for nth in range(0, count, 1 if each else 6)
        for forever in (False, True)
        if each or forever == (nth % 4 == 0)
    ]
    assert any(result["met"] for result in results)
    for result in results:
        assert not result["broken"], "\n".join([result["case"], *result["broken"]])


@pytest.mark.parametrize("act", ["recover torn", "store"])
def test_reads_that_stay_short_lose_nothing(workers: Workers, act: str) -> None:
    """A checkpoint that was read short was taken for absent, a header for a truncated segment."""
    count = [kind for kind, _ in workers.ask(act)].count("read")
    for nth in range(0, count, 3):
        result = workers.ask(act, Fault("read", nth, SHORT, forever=True))
        assert not result["broken"], "\n".join([result["case"], *result["broken"]])


def test_every_kind_of_call_has_its_errnos() -> None:
    assert CAUSES.keys() == set(KINDS)


def test_tenths_together_are_all_cases() -> None:
    cases = cases_of("open", ["read"] * 7 + ["fsync"] * 3)
    shares = [tenth_of(cases, tenth) for tenth in range(TENTHS)]
    assert sorted(itertools.chain(*shares)) == sorted(cases)
