"""Shell completion: the program's answers to the requests of click's scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import commitlog
from tests.tools.cli.program import LIMIT_S, ROOT, hosted, run


def completed(*words: str) -> set[str]:
    """Return the completions of a line with these words, of which the last is being typed."""
    environment = os.environ | {
        "_COMMITLOG_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("commitlog", *words)),
        "COMP_CWORD": str(len(words)),
    }
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with hosted("run_program", [""], env=environment, **pipes) as process:
        output, errors = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, errors) == (0, "")
    return set(output.split())


def test_commands_options_and_choices_are_completed() -> None:
    assert completed("re") == {"plain,remove", "plain,repair", "plain,restore"}
    assert completed("tail", "--from-") == {"plain,--from-sequence"}
    assert completed("cat", "--format", "p") == {"plain,parquet"}
    assert completed("tail", "or") == {"file,or"}  # the shell completes paths


def test_tailer_names_are_completed_after_their_log(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        for name in ("billing", "backup", "shipping"):
            log.tailer(name).close()
    assert completed("tail", str(tmp_path / "log"), "--name", "b") == {
        "plain,billing",
        "plain,backup",
    }
    assert completed("tail", str(tmp_path / "absent"), "--name", "b") == set()
    assert completed("tail", "--name", "b") == set()


def test_queue_names_are_completed_after_their_log(tmp_path: Path) -> None:
    for name in ("mailer", "map", "other"):
        commitlog.queue(tmp_path / "log", name).close()
    log = str(tmp_path / "log")
    assert completed("queue", log, "ma") == {"plain,mailer", "plain,map"}
    assert completed("queue", log, "mailer", "pu") == {"plain,purge"}


def test_bash_completes_through_its_script(tmp_path: Path) -> None:
    program = tmp_path / "commitlog"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m commitlog.tools.cli "$@"\n')
    program.chmod(0o755)
    script = """
eval "$(_COMMITLOG_COMPLETE=bash_source commitlog)"
COMP_WORDS=(commitlog verif) COMP_CWORD=1
_commitlog_completion commitlog
echo "${COMPREPLY[@]}"
"""
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "verify\n", done.stderr


def test_help_names_the_line_that_turns_completion_on() -> None:
    said = " ".join(run("--help").stdout.decode().split())
    assert 'eval "$(_COMMITLOG_COMPLETE=bash_source commitlog)"' in said
    assert "zsh_source and fish_source are for zsh and fish" in said
