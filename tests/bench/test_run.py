"""A run of `commitlog bench` that is ended from outside, and what it does without gcc. Real
processes, real signals.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from commitlog import cli
from commitlog.bench import harness, machine, workloads
from commitlog.bench.case import Case
from commitlog.bench.ground import Ground
from commitlog.bench.harness import Step
from commitlog.bench.results import Results
from commitlog.bench.sample import Sample
from commitlog.bench.settings import QUICK, Settings
from commitlog.bench.workloads import choose
from tests.cli.program import LIMIT_S, started

Until = Callable[..., None]


def kept(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT],
    ids=lambda number: number.name,
)
def test_whoever_ends_a_run_finds_the_workloads_that_were_done(
    tmp_path: Path, until: Until, number: signal.Signals
) -> None:
    disk, file = tmp_path / "disk", tmp_path / "kept.json"
    disk.mkdir()
    # The second one takes a minute, so that the signal comes in the midst of it.
    chosen = (
        "-w",
        "append",
        "-w",
        "paced",
        "--setup",
        "mapped",
        "--flush",
        "async",
        "--rate",
        "1MB",
        "--seconds",
        "60",
    )
    with started("bench", disk, "--quick", "--memory", *chosen, "--json", file) as process:
        until(lambda: file.exists() and file.stat().st_size > 0, LIMIT_S)
        process.send_signal(number)
        output, errors = process.communicate(timeout=LIMIT_S)
    found = kept(file)
    assert found["interrupted"] is True
    assert all(case["samples"] for case in found["cases"] if case["workload"] == "append")
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
        return
    assert (process.returncode, os.listdir(disk)) == (cli.INTERRUPTED, []), errors
    assert b"INTERRUPTED" in output
    assert b"Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_ctrl_c_that_strikes_where_exceptions_are_lost_ends_the_run_all_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:
    assert signal.getsignal(number) in (
        signal.SIG_DFL,
        signal.default_int_handler,
    )  # a command leaves the handlers of others alone
    workload = workloads.BY_NAME["open"]
    measured: list[str] = []

    class Referred:
        pass

    def strike(_reference: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(LIMIT_S)

    def measure(ground: Ground, case: Case, hashed: bool) -> Sample:
        measured.append(case.name)
        referred = Referred()
        reference = weakref.ref(referred, strike)
        del referred  # the interpreter drops what comes out of the callback
        assert reference() is None
        return workload.measure(ground, case, hashed)

    monkeypatch.setattr(workloads, "WORKLOADS", (dataclasses.replace(workload, measure=measure),))
    assert cli.run(["bench", str(tmp_path), "--quick", "--memory"]) == cli.INTERRUPTED
    assert len(measured) == 1
    printed = capsys.readouterr()
    assert "INTERRUPTED" in printed.out
    assert "Traceback" not in printed.err
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)


def test_what_is_kept_is_whole_and_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    arguments = [
        "bench",
        str(tmp_path / "disk"),
        "--quick",
        "--memory",
        "-w",
        "open",
        "--json",
        str(tmp_path / "link.json"),
    ]
    assert cli.run(arguments) == 0
    assert kept(tmp_path / "real.json")["interrupted"] is False
    assert (tmp_path / "link.json").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["disk", "link.json", "real.json"]


def test_results_that_could_not_be_kept_are_refused_before_anything_is_measured(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        cli.run(
            ["bench", str(tmp_path), "--quick", "--memory", "-w", "open", "--json", "/proc/version"]
        )
        == cli.FAILURE
    )
    assert capfd.readouterr().out == ""
    assert os.listdir(tmp_path) == []


# --- a disk in memory -----------------------------------------------------------------------------


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A directory on a file system in memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="commitlog-test-") as directory:
        yield Path(directory)


def test_a_real_tmpfs_is_refused_where_a_disk_was_meant(
    in_memory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert machine.file_system(in_memory)["type"] == "tmpfs"
    assert cli.run(["bench", str(in_memory), "--quick", "-w", "open"]) == cli.FAILURE
    assert "this is tmpfs, which is memory" in capsys.readouterr().err
    assert os.listdir(in_memory) == []


# --- without gcc ----------------------------------------------------------------------------------


def test_plain_writes_are_measured_in_python_without_gcc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = harness.run(tmp_path, choose(["sustained"], ["mapped"]), QUICK)
    assert found.failures == []
    assert found.cases["sustained/1024B/plain-write"].samples[0].facts["language"] == "Python"


# --- how long it takes ----------------------------------------------------------------------------


def test_progress_counts_to_the_end_and_says_what_is_left(tmp_path: Path) -> None:
    steps: list[Step] = []
    seen: list[tuple[bool, int]] = []

    def keep(results: Results) -> None:
        seen.append((results.interrupted, len(results.cases)))

    chosen = choose(["open", "sustained"], ["mapped"])
    found = harness.run(
        tmp_path,
        chosen,
        dataclasses.replace(QUICK, turns=3, warm_up=1, sustained_turns=2),
        steps.append,
        keep,
    )
    assert [step.done for step in steps] == list(range(2 * 4 + 2 * 2))
    assert {step.total for step in steps} == {12}
    assert steps[0].left_s == pytest.approx(
        harness.expected_s(
            chosen, dataclasses.replace(QUICK, turns=3, warm_up=1, sustained_turns=2)
        ),
        rel=1e-3,
    )
    assert all(step.left_s > 0 for step in steps)
    assert seen == [(True, 2), (True, 4)]
    assert found.interrupted is False
    assert [len(result.samples) for result in found.cases.values()] == [3, 3, 2, 2]


def test_a_full_run_is_meant_to_take_less_than_twenty_minutes() -> None:
    assert 5 * 60 < harness.expected_s(choose(), Settings()) < 20 * 60
