"""A run of `commitlog bench` ended by a signal, with real processes."""

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

from commitlog.tools import cli
from commitlog.tools.bench import machine, workloads
from commitlog.tools.bench.case import Case
from commitlog.tools.bench.sample import Sample
from commitlog.tools.bench.workspace import Workspace
from tests.tools.cli.program import LIMIT_S, started

Until = Callable[..., None]
QUICK = ("bench", "--quick", "--memory", "-w", "sustained")


def kept(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT],
    ids=lambda number: number.name,
)
def test_signal_ends_a_run_and_keeps_whole_workloads(
    tmp_path: Path, until: Until, number: signal.Signals
) -> None:
    disk, file = tmp_path / "disk", tmp_path / "kept.json"
    disk.mkdir()
    # The second workload takes seconds, so that the signal arrives during it.
    chosen = ("-w", "sync-threads", "-w", "sustained", "--setup", "mapped", "--size", "1GiB")
    with started("bench", disk, "--quick", "--memory", *chosen, "--json", file) as process:
        until(lambda: file.exists() and file.stat().st_size > 0, LIMIT_S)
        process.send_signal(number)
        output, errors = process.communicate(timeout=LIMIT_S)
    found = kept(file)
    assert found["interrupted"] is True
    assert all(case["samples"] for case in found["cases"] if case["workload"] == "sync-threads")
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
        return
    assert (process.returncode, os.listdir(disk)) == (cli.INTERRUPTED, []), errors
    assert b"INTERRUPTED" in output
    assert b"Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_ctrl_c_in_a_weak_reference_callback_ends_the_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:
    # A command must not change the handlers of its caller.
    assert signal.getsignal(number) in (
        signal.SIG_DFL,
        signal.default_int_handler,
    )
    workload = workloads.BY_NAME["sustained"]
    measured: list[str] = []

    class Referred:
        pass

    def strike(_reference: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(LIMIT_S)

    def measure(workspace: Workspace, case: Case) -> Sample:
        measured.append(case.name)
        referred = Referred()
        reference = weakref.ref(referred, strike)
        del referred  # the interpreter discards an exception of the callback
        assert reference() is None
        return workload.measure(workspace, case)

    monkeypatch.setattr(
        workloads, "WORKLOADS", (dataclasses.replace(workload, measure=measure, baselines=()),)
    )
    assert cli.run(["bench", str(tmp_path), "--quick", "--memory"]) == cli.INTERRUPTED
    assert len(measured) == 1
    printed = capsys.readouterr()
    assert "INTERRUPTED" in printed.out
    assert "Traceback" not in printed.err
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)


def test_kept_file_is_replaced_whole_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    places = (str(tmp_path / "disk"), "--json", str(tmp_path / "link.json"))
    assert cli.run([*QUICK, *places]) == 0
    assert kept(tmp_path / "real.json")["interrupted"] is False
    assert (tmp_path / "link.json").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["disk", "link.json", "real.json"]


def test_unwritable_results_are_refused_before_measuring(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*QUICK, str(tmp_path), "--json", "/proc/version"]) == cli.FAILURE
    assert capfd.readouterr().out == ""
    assert os.listdir(tmp_path) == []


# --- a disk in memory -----------------------------------------------------------------------------


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A directory in memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="commitlog-test-") as directory:
        yield Path(directory)


def test_tmpfs_is_refused_where_a_disk_was_meant(
    in_memory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert machine.file_system(in_memory)["type"] == "tmpfs"
    assert cli.run(["bench", str(in_memory), "--quick", "-w", "sustained"]) == cli.FAILURE
    assert "this is tmpfs, which is memory" in capsys.readouterr().err
    assert os.listdir(in_memory) == []
