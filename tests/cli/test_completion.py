"""`commitlog completion`: what a shell is told, asked as the script of each shell asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import commitlog
from commitlog import cli
from tests.cli.program import PROGRAM, ROOT, run


def completed(*words: str) -> set[str]:
    """What a line with these words could go on with, the last one being typed."""
    environment = os.environ | {
        "_COMMITLOG_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("commitlog", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(PROGRAM, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


def test_commands_options_and_choices_are_completed() -> None:
    assert completed("ex") == {"plain,export", "plain,export-metrics"}
    assert completed("tail", "--from-") == {"plain,--from-sequence", "plain,--from-time"}
    assert completed("export", "--format", "p") == {"plain,parquet"}
    assert completed("completion", "") == {"plain,bash", "plain,zsh", "plain,fish"}
    assert completed("tail", "or") == {"file,or"}  # the shell completes paths


def test_names_of_tailers_are_completed_behind_their_log(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        for name in ("billing", "backup", "shipping"):
            log.tailer(name).close()
    assert completed("tail", str(tmp_path / "log"), "--name", "b") == {"plain,billing", "plain,backup"}
    assert completed("tail", str(tmp_path / "absent"), "--name", "b") == set()
    assert completed("tail", "--name", "b") == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_its_script(shell: str) -> None:
    done = run("completion", shell)
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"_COMMITLOG_COMPLETE={shell}_complete".encode() in done.stdout
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=done.stdout, check=False).returncode == 0


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    program = tmp_path / "commitlog"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m commitlog.cli "$@"\n')
    program.chmod(0o755)
    script = """
eval "$(commitlog completion bash)"
COMP_WORDS=(commitlog verif) COMP_CWORD=1
_commitlog_completion commitlog
echo "${COMPREPLY[@]}"
"""
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "verify\n", done.stderr


def test_another_shell_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["completion", "csh"]) == 2
    assert "'csh' is not one of 'bash', 'zsh', 'fish'" in capfd.readouterr().err
