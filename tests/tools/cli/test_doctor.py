"""`commitlog doctor`: a verdict per line, and no file left in the directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from commitlog.tools.doctor.checks import CHECKS
from tests.faults import small_disk
from tests.tools.cli.program import LIMIT_S, PROGRAM, ROOT, run, started
from tests.tools.doctor import lacking


def test_doctor_prints_each_verdict_and_leaves_no_files(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"kept")
    done = run("doctor", tmp_path)
    assert done.returncode == 0, done.stdout.decode()
    lines = done.stdout.decode().splitlines()
    verdicts = [line[:8].strip() for line in lines if not line.startswith(" ")][:-1]
    assert len(verdicts) == len(CHECKS)
    assert set(verdicts) <= {"ok", "warning"}
    for check in CHECKS:
        assert any(line[8:].startswith(check.name) and check.means in line for line in lines)
    assert lines[-1].endswith("0 FAILED")
    assert os.listdir(tmp_path) == ["mine"]


def test_json_has_every_finding(tmp_path: Path) -> None:
    report = json.loads(run("doctor", "--json", tmp_path).stdout)
    assert report["fine"] is True
    assert [finding["name"] for finding in report["findings"]] == [check.name for check in CHECKS]
    assert all(finding["found"] and finding["means"] for finding in report["findings"])
    assert all(finding["advice"] or finding["verdict"] == "ok" for finding in report["findings"])


def test_too_small_disk_fails_with_advice(tmp_path: Path) -> None:
    launcher = small_disk.launcher()
    if launcher is None:  # no small disk: simulate a full one
        library = lacking.build(tmp_path)
        command, environment = [], {"LD_PRELOAD": str(library), "COMMITLOG_LACKS": "allocation"}
    else:
        mount = f'mount -t tmpfs -o size={small_disk.SIZE} none "$0" && exec "$@"'
        command, environment = [*launcher, "sh", "-c", mount, str(tmp_path)], {}
    command += [*PROGRAM, "doctor", "--json", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    failed = {
        finding["name"]: finding["advice"]
        for finding in report["findings"]
        if finding["verdict"] == "failed"
    }
    assert report["fine"] is False
    assert failed
    assert set(failed) <= {"room", "allocation", "shared memory"}
    assert all(failed.values())


def test_missing_or_unwritable_directory_is_a_usage_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    for wrong in (file, tmp_path / "absent"):
        done = run("doctor", wrong)
        assert done.returncode == 2
        assert str(wrong).encode() in done.stderr
        assert done.stdout == b""
    done = run("doctor", "/proc/self")
    assert done.returncode == 2
    assert b"cannot create files in '/proc/self'" in done.stderr


# The last check waits for a signal.
NEVER_DONE = """
import signal
from commitlog.tools.doctor import checks
checks.CHECKS += (checks.Check("signal", "ends it", lambda ground: signal.pause()),)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_signal_leaves_the_directory_unchanged(tmp_path: Path, number: signal.Signals) -> None:
    with started("doctor", tmp_path, before=NEVER_DONE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ok")
        process.send_signal(number)
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert errors.strip() == b""
    assert os.listdir(tmp_path) == []
