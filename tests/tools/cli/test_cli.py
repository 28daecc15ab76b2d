"""The command line: its output, and its exit status."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commitlog.tools.cli import group
from tests.log_files import HEADER, LogFiles, numbered
from tests.tools.cli.program import ROOT, run


@pytest.fixture
def log(files: LogFiles) -> str:
    files.create(0)
    files.checkpoint(files.records(0, numbered(10)), clean=True)
    return str(files.path)


def commitlog(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    done = run(*arguments)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def interpreter(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program, or code, in a new interpreter."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_verify_of_a_sound_log_has_status_0(log: str) -> None:
    done = commitlog("verify", log)
    assert (done.returncode, done.stderr) == (0, "")
    assert "10 records" in done.stdout
    assert done.stdout.endswith("sound\n")


def test_verify_prints_damage_with_its_position(files: LogFiles, log: str) -> None:
    files.flip(0, HEADER + 3 * 32 + 20)
    done = commitlog("verify", log)
    assert done.returncode == 1
    assert f"position {HEADER + 96} to {HEADER + 128}" in done.stdout


def test_verify_prints_json(files: LogFiles, log: str) -> None:
    files.flip(0, HEADER + 20)
    done = commitlog("verify", "--json", log)
    report = json.loads(done.stdout)
    assert (done.returncode, report["sound"], report["records"], report["path"]) == (
        1,
        False,
        9,
        log,
    )
    assert report["segments"][0]["damage"][0]["position"] == HEADER


def test_repair_mends_and_names_the_copy(files: LogFiles, log: str) -> None:
    files.flip(0, HEADER + 20)
    planned = commitlog("repair", "--dry-run", log)
    assert (planned.returncode, planned.stdout.startswith("would be: ")) == (1, True)
    assert not list(files.path.glob("*.broken"))
    done = commitlog("repair", log)
    assert done.returncode == 0
    assert f"copy: {files.file(0)}.broken" in done.stdout
    assert commitlog("verify", log).returncode == 0
    assert commitlog("repair", log).stdout == "nothing is wrong, nothing was written\n"


def test_repair_prints_json(files: LogFiles, log: str) -> None:
    files.flip(0, HEADER + 20)
    report = json.loads(commitlog("repair", "--json", log).stdout)
    assert report["sound"] is True
    assert report["actions"][0]["position"] == HEADER


def test_verify_accepts_a_lone_segment_file(files: LogFiles, log: str, tmp_path: Path) -> None:
    copy = tmp_path / "x.seg"
    copy.write_bytes(files.get(0))
    done = commitlog("verify", str(copy))
    end = HEADER + 10 * 32
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout
        == f"{copy}: 10 records in 1 segment, ends at position {end}, not finished\nsound\n"
    )
    files.claim(0, end, 40)
    files.records(0, numbered(2), end + 40)
    files.flip(0, HEADER + 3 * 32 + 20)
    copy.write_bytes(files.get(0))
    done = commitlog("verify", str(copy))
    assert done.returncode == 1
    assert f"position {HEADER + 96} to {HEADER + 128}" in done.stdout
    assert (
        done.stdout.splitlines()[-1]
        == "NOT sound: copy it from its log again, and repair that log with `commitlog repair`"
    )
    report = json.loads(commitlog("verify", "--json", str(copy)).stdout)
    assert (report["kind"], report["sound"], report["records"]) == ("segment", False, 11)


def test_verify_of_a_copied_segment_explains_its_torn_tail(files: LogFiles, tmp_path: Path) -> None:
    files.create(0)
    files.records(0, numbered(2), files.claim(0, HEADER, 40))
    done = commitlog("verify", str(files.file(0)))
    assert done.returncode == 0
    assert (
        f"torn tail: position {HEADER} to {HEADER + 104}, 2 valid records in it; the file "
        "was copied before a claim in it was published" in done.stdout
    )


def test_missing_extra_is_named_in_one_line(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = sys.modules['pyarrow.fs'] = None\nfrom "
        "commitlog.tools.cli import main; main()"
    )
    done = interpreter("-c", code, "info", "memory://nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr == "commitlog: an archive at an address needs pyarrow: pip install "
        "'commitlog-engine[archive]'\n"
    )


def test_failure_prints_one_line_and_returns_status_1(tmp_path: Path) -> None:
    done = commitlog("verify", str(tmp_path / "absent"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("commitlog: there is no log here")
    assert done.stderr.count("\n") == 1


def test_unknown_command_or_option_suggests_a_known_one() -> None:
    assert "No such command 'verfy'. Did you mean 'verify'?" in commitlog("verfy", "log").stderr
    assert (
        "No such option '--jsno'. Did you mean '--json'?"
        in commitlog("verify", "--jsno", "log").stderr
    )


def test_typo_is_never_answered_by_a_command_that_deletes() -> None:
    for typo in ("demo", "removed", "remvoe", "prun", "promot", "repare", "archiv", "restor"):
        said = commitlog(typo, "log").stderr
        assert f"No such command {typo!r}." in said
        for name in ("remove", "prune", "promote", "repair", "archive", "restore"):
            assert repr(name) not in said


@pytest.mark.parametrize("module", ["commitlog.errors", "click", "commitlog.tools.cli.group"])
def test_ctrl_c_during_an_import_prints_no_stack_trace(module: str) -> None:
    program = f"""
import signal, sys
from importlib.abc import MetaPathFinder
import commitlog_program

class Interrupt(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["commitlog", "--help"]
commitlog_program.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    "arguments", [["verify"], ["nonsense"], ["verify", "--nonsense", "log"], []]
)
def test_usage_error_has_status_2(arguments: list[str]) -> None:
    done = commitlog(*arguments)
    assert done.returncode == 2
    assert "Usage" in done.stderr


def test_help_and_version_have_status_0() -> None:
    listed = interpreter("-m", "commitlog.tools.cli", "--help")
    assert listed.returncode == 0
    for name in group.own_commands():
        assert name in listed.stdout
        assert commitlog(name, "--help").returncode == 0
    assert interpreter("-m", "commitlog.tools.cli", "--version").stdout.startswith("commitlog ")


def test_missing_click_prints_one_line_naming_the_package() -> None:
    done = interpreter(
        "-c",
        "import sys; sys.modules['click'] = None\nfrom commitlog.tools.cli import main; main()",
        "verify",
        "log",
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "commitlog: the command line needs click: pip install 'commitlog-engine[cli]'\n"
    )


def test_ctrl_c_has_status_130(log: str) -> None:
    code = """
import os, signal, sys
from commitlog.repair import survey
from commitlog.tools.cli import main
survey.Survey.run = lambda *given, **named: os.kill(os.getpid(), signal.SIGINT)
main()
"""
    done = interpreter("-c", code, "verify", log)
    assert done.returncode == 128 + signal.SIGINT
    assert "Traceback" not in done.stderr


def test_command_is_imported_only_when_it_is_run() -> None:
    code = (
        "import sys; from commitlog.tools import cli; cli.run(['--version']); "
        "print(sorted(m for m in sys.modules if m.startswith('commitlog.tools.cli.')))"
    )
    assert interpreter("-c", code).stdout.splitlines()[-1] == (
        "['commitlog.tools.cli.commands', 'commitlog.tools.cli.group']"
    )


@pytest.mark.parametrize("arguments", [[], ["spark"]])
def test_help_has_a_complete_sentence_for_each_command(arguments: list[str]) -> None:
    shown = run(*arguments, "--help").stdout.decode().partition("Commands:\n")[2]
    listed = shown.partition("\n\n")[0].splitlines()
    assert len(listed) == (3 if arguments else len(group.own_commands()))
    for line in listed:
        assert line.endswith("."), line
        assert not line.endswith("..."), line
