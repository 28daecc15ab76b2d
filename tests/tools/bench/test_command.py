"""`commitlog bench`: invalid input, a disk in memory, a lack of space, failures, Ctrl-C."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
from importlib import util
from pathlib import Path

import pytest

from commitlog.tools import cli
from commitlog.tools.bench import workspace
from commitlog.tools.cli.commands import bench
from tests.tools.bench.test_harness import fail_on_mapped

ONE = ("--quick", "--memory", "-w", "sustained", "--setup", "mapped")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.run(["bench", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-w", "apend"], "'apend' is not one of 'paced', 'sync-threads', 'sustained', 'append'"),
        (["--setup", "poled"], "'poled' is not one of 'mapped-cold', 'mapped', 'pooled'"),
        (["--seconds", "soon"], "'--seconds': expected a duration such as"),
        (["--seconds", "0"], "'--seconds': expected at least 0.05 seconds"),
        (["--size", "much"], "'--size': expected a size such as"),
        (["--size", "1"], "'--size': expected at least 1048576 bytes"),
        (["--rate", "-1"], "'--rate': expected a size such as"),
        (["--turns", "0"], "expected a whole number from 1 to 100"),
        (["--json", "absent/a.json"], "the directory of"),
        (["--html", "absent/a.html"], "the directory of"),
        (["absent"], "does not exist"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_input_is_refused_with_status_2(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = [] if arguments == ["absent"] else [str(tmp_path)]
    status, out, err = answer(capsys, *place, *arguments)
    assert (status, out) == (cli.USAGE, "")
    assert said in err
    assert os.listdir(tmp_path) == []


def test_missing_directory_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = answer(capsys)
    assert status == cli.USAGE
    assert "Missing argument 'DIR'" in err


@pytest.mark.parametrize("library", bench._LIBRARIES)
def test_missing_library_says_what_to_install(
    library: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        bench, "find_spec", lambda name: None if name == library else util.find_spec(name)
    )
    status, out, err = answer(capsys, str(tmp_path), *ONE)
    assert (status, out) == (cli.USAGE, "")
    assert "pip install 'commitlog-engine[bench]'" in err


def test_lack_of_space_is_reported_and_skips_the_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = workspace.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(workspace.shutil, "disk_usage", lambda path: usage._replace(free=1 << 20))
    status, out, _ = answer(capsys, str(tmp_path), *ONE)
    assert status == 0
    assert re.search(r"skipped: sustained/1024B/async/mapped: needs \d+ MiB of room", out)
    assert os.listdir(tmp_path) == []


def test_failed_case_is_named_and_the_status_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_on_mapped(monkeypatch, OSError(errno.EIO, "broken disk"))
    status, out, _ = answer(capsys, str(tmp_path), *ONE)
    assert status == cli.FAILURE
    assert "FAILED: sustained/1024B/async/mapped: OSError: [Errno 5] broken disk" in out


def test_ctrl_c_keeps_the_results_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_on_mapped(monkeypatch, KeyboardInterrupt())
    disk, kept = tmp_path / "disk", tmp_path / "kept.json"
    disk.mkdir()
    setups = ("--setup", "mapped", "--setup", "mapped-cold")
    status, out, _ = answer(capsys, str(disk), "--quick", "--memory", *setups, "--json", str(kept))
    assert status == 128 + signal.SIGINT
    assert "INTERRUPTED" in out
    saved = json.loads(kept.read_text())
    assert saved["interrupted"] is True
    assert [len(case["samples"]) for case in saved["cases"]] == [1, 0]
    assert os.listdir(disk) == []
