"""The demo, run as users run it: a separate process at a reduced size."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "demo" / "demo.py"
SHARED_MEMORY = Path("/dev/shm")
# A buffer of the demo with its header page; buffers of other logs on this machine have other sizes.
BUFFER_FILE_SIZE = (2 << 20) + 4096
PATIENCE_S = 100.0

# A writer that omits the first line and counts it: for the accounting, a log that lost its first
# record.
SABOTAGE = f"""
import sys
sys.path.insert(0, {str(DEMO.parent)!r})
import crash_run, demo, processes

# Two lines: one would be made up for by an append that was under way when the writer was killed.
crash_run.Job = lambda *values, **named: processes.Job(*values, **{{**named, "first": 2}})
demo.SCENARIOS = [each for each in demo.SCENARIOS if each.backing == "shm"]
sys.exit(demo.main())
"""


def own_shared_memory() -> set[str]:
    names = set()
    for entry in SHARED_MEMORY.glob("commitlog-*"):
        try:
            if entry.stat().st_size == BUFFER_FILE_SIZE:
                names.add(entry.name)
        except FileNotFoundError:
            # A buffer of another log, closed meanwhile.
            continue
    return names


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[Path]:
    """Return a directory for the demo; check afterwards that it is empty and that no buffer is left
    in shared memory.
    """
    before = own_shared_memory()
    yield tmp_path
    assert list(tmp_path.iterdir()) == []
    # Tests in other processes create such buffers too, and remove them at their end.
    left = own_shared_memory() - before
    deadline = time.monotonic() + 60
    while left & own_shared_memory() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left & own_shared_memory()


def start(arguments: list[str], directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments, "--lines", "20000", "--dir", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def verdicts(output: str) -> list[str]:
    return [
        line.split(":")[0].strip()
        for line in output.splitlines()
        if line.strip().startswith(("KEPT:", "BROKEN:"))
    ]


def test_demo_reports_every_promise_kept(nothing_left: Path) -> None:
    with start([str(DEMO), "--seconds", "0.5", "--seed", "7"], nothing_left) as demo:
        output, errors = demo.communicate(timeout=PATIENCE_S)
    assert (demo.returncode, errors) == (0, "")
    assert verdicts(output) == ["KEPT"] * 4
    assert output.splitlines()[-1].startswith("All promises were kept")
    words = " ".join(output.split())
    assert "The seed: 7 " in words
    assert words.count("read on and has seen 20,000 lines.") == 2
    assert "read on at its position and has seen 1,000." in words


def test_demo_reports_a_lost_line(nothing_left: Path) -> None:
    with start(["-c", SABOTAGE, "--seconds", "0.5", "--seed", "7"], nothing_left) as demo:
        output, errors = demo.communicate(timeout=PATIENCE_S)
    assert (demo.returncode, errors) == (1, "")
    assert verdicts(output) == ["BROKEN"]
    # The demo wraps the text, and the place of the break depends on the figures.
    words = " ".join(output.split())
    assert "(line 0 differs)" in words
    assert "none is lost" in words
    assert output.splitlines()[-1] == "1 of 1 scenarios broke a promise."


def test_ctrl_c_leaves_no_files_and_no_shared_memory(nothing_left: Path) -> None:
    before = own_shared_memory()
    with start([str(DEMO), "--seconds", "0.3"], nothing_left) as demo:
        assert demo.stdout is not None
        assert any(line.startswith("Scenario 2") for line in demo.stdout)
        deadline = time.monotonic() + PATIENCE_S
        while not own_shared_memory() - before:
            assert time.monotonic() < deadline
            assert demo.poll() is None
        children = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGINT)
        output, _ = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 130
    assert "Interrupted." in output
    assert psutil.wait_procs(children, PATIENCE_S)[1] == []


def test_demo_without_directory_prints_one_error(tmp_path: Path) -> None:
    with start([str(DEMO)], tmp_path / "missing") as demo:
        output, errors = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 1
    assert output == ""
    assert "The demo failed" in errors
    assert "missing" in errors
