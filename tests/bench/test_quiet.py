"""Waiting for the disk to be at rest, and what others took from a turn."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from commitlog.bench import paced, quiet
from commitlog.bench.case import Case
from commitlog.bench.ground import Ground
from commitlog.bench.harness import run
from commitlog.bench.quiet import Stolen, settle, unwritten_bytes
from commitlog.bench.report_table import notes
from commitlog.bench.results import CaseResult, Results
from commitlog.bench.sample import Sample
from commitlog.bench.settings import QUICK
from commitlog.bench.workloads import BY_NAME, WORKLOADS, choose


def test_what_was_written_before_is_on_the_disk_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([64 << 20, 9 << 20, 1 << 20])
    monkeypatch.setattr(quiet, "unwritten_bytes", lambda: next(looks))
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    settle(tmp_path, 10)
    assert next(looks, None) is None


def test_a_system_that_never_rests_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet, "unwritten_bytes", lambda: 1 << 40)
    assert settle(tmp_path, 0.05) >= 0.05
    assert settle(tmp_path, 0) == 0


def test_what_the_system_has_yet_to_write_is_read_from_it() -> None:
    assert 0 <= unwritten_bytes() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_turns_that_wait_for_the_disk_begin_at_rest_and_the_others_do_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[float] = []
    monkeypatch.setattr(
        "commitlog.bench.harness.settle", lambda _directory, limit_s: settled.append(limit_s)
    )
    assert [workload.name for workload in WORKLOADS if workload.settles] == [
        "paced",
        "sync-threads",
        "sustained",
    ]
    results = run(
        tmp_path,
        choose(["open", "sustained"], ["mapped"]),
        dataclasses.replace(QUICK, settle_s=3.0),
    )
    assert settled == [3.0] * sum(
        len(result.samples)
        for name, result in results.cases.items()
        if name.startswith("sustained")
    )


def test_a_paced_turn_keeps_what_was_stolen_from_it(tmp_path: Path) -> None:
    (case,) = [case for case in BY_NAME["paced"].cases() if case.setup == "mapped"]
    with Ground(tmp_path, QUICK) as ground:
        for sample in (
            paced.measure(ground, case, False),
            paced.measure_alone(ground, Case("paced", "pacing-alone", value_size=64), False),
        ):
            assert {"run_delay_s", "steal_s"} <= set(sample.facts)
            assert 0 <= sample.facts["run_delay_s"] <= sample.wall_s + 1  # type: ignore[operator]


def test_a_system_that_does_not_count_it_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", refuse)
    with Stolen() as stolen:
        pass
    assert stolen.facts == {}
    assert unwritten_bytes() == 0


@pytest.mark.parametrize(("delay_s", "told"), [(0.014, False), (0.03, True), (None, False)])
def test_a_turn_that_others_took_the_processor_from_is_told_of(
    delay_s: float | None, told: bool
) -> None:
    case = Case("paced", "mapped", "async", 1024)
    result = CaseResult(case, "bytes")
    for delay in (delay_s, 0.0):
        result.add(Sample(wall_s=15.0, facts={} if delay is None else {"run_delay_s": delay}))
    machine: dict[str, object] = {
        "processor": "",
        "usable_cores": 1,
        "kernel": "",
        "python": "",
        "commitlog": "",
    }
    machine["file_system"] = {"type": "ext4", "device": ""}
    said = notes(Results("", machine, {}, {case.name: result}))[1:]
    assert said == (
        [f"STOLEN: {case.name}: others had the processor for 30 ms of 15 s, which its tail shows"]
        if told
        else []
    )
