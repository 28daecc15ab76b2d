"""Every command, given invalid paths, options or numbers, a pipe closed early or no terminal,
prints one line, exits with a status and changes no file.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog.tools import cli
from commitlog.tools.cli import group
from tests.log_files import numbered
from tests.tools.cli.program import SEGMENT, hosted, run

# Arguments besides the path that make each command finish quickly and without a prompt.
COMMANDS: dict[str, tuple[str, ...]] = {
    "append": (),
    "call": ("--file", "-"),
    "cat": (),
    "tail": (),
    "info": (),
    "list": (),
    "dump": (),
    "top": ("--json", "--interval", "0.1"),
    "export-metrics": (),
    "tailers": (),
    "queue": (),
    "topics": (),
    "history": (),
    "verify": (),
    "repair": (),
    "prune": ("--min-free", "1"),
    "archive": ("--dry-run",),
    "backup": (),
    "restore": (),
    "promote": ("--primary",),
    "remove": ("--yes",),
    "doctor": (),
    "bench": ("--quick", "--memory", "-w", "sustained", "--setup", "mapped"),
}
# Arguments after the path.
BEHIND = {"archive": ("archived",), "backup": ("backup",), "restore": ("restored",)}
NUMBERS = {
    "append": ("--type", "--segment-size"),
    "cat": ("--from", "--to", "--since", "--until", "--limit"),
    "dump": ("--from", "--to"),
    "info": ("--since", "--until"),
    "history": ("--from", "--from-sequence", "--to", "--since", "--until"),
    "tail": (
        "--last",
        "--from",
        "--from-sequence",
        "--since",
        "--until",
        "--limit",
        "--speed",
        "--max-width",
    ),
    "top": ("--interval",),
    "export-metrics": ("--listen",),
    "prune": ("--older-than", "--max-bytes", "--min-free"),
    "archive": ("--older-than", "--level"),
    "bench": ("--turns", "--seconds", "--rate", "--size"),
}
NO_NUMBERS = (
    "",
    " ",
    "x",
    "-1",
    "1e400",
    "nan",
    "0x",
    "99999999999999999999",
    "1,5",
    "\u0663",
    "--",
)
CHOICES = {
    "append": ("--format",),
    "cat": ("--visibility", "--on-damage", "--format"),
    "tail": ("--visibility", "--on-damage", "--format"),
    "bench": ("--setup", "--workload"),
}
ABOUT_DIRECTORIES = ("doctor", "bench", "list")  # the others take a log
GROUPS = ("spark",)  # their commands take seconds to start: tests/spark/test_jobs.py
# Run until Ctrl-C: test_replication.py, test_mirror.py, test_outbox.py.
ENDLESS = ("serve", "follow", "mirror", "outbox")
ABOUT_MANY = ("export-metrics",)  # takes any number of logs
ABOUT_STORES = ("restore",)  # refuses a log: tests/tools/cli/test_restore.py
commands = pytest.mark.parametrize("command", COMMANDS)
on_logs = pytest.mark.parametrize(
    "command", [name for name in COMMANDS if name not in ABOUT_STORES]
)


def test_table_of_commands_is_complete() -> None:
    assert {*COMMANDS, *GROUPS, *ENDLESS} == set(group.own_commands())


def all_of(folder: Path) -> dict[str, str]:
    """Return the names and digests of all files below a folder."""
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def created(folder: Path) -> Path:
    """Create a log of a few segments."""
    with commitlog.open(folder / "log", segment_size=SEGMENT) as opened:
        opened.append_many(numbered(5_000))
    return folder / "log"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of a few segments."""
    return created(tmp_path)


@pytest.fixture(scope="module")
def same_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log for wrong usage, which changes nothing: each test checks that."""
    return created(tmp_path_factory.mktemp("same"))


def line_of(command: str, path: Path | str, *options: str) -> list[str]:
    """Return a command line of the command for a path."""
    behind = (str(Path(path).parent / name) for name in BEHIND.get(command, ()))
    return [command, *COMMANDS[command], *options, str(path), *behind]


def line_for(command: str, log: Path, *options: str) -> list[str]:
    """Return a command line of the command for a log, or for the directory of the log."""
    return line_of(command, log.parent if command in ABOUT_DIRECTORIES else log, *options)


# --- paths ----------------------------------------------------------------------------------------


def _absent(folder: Path) -> Path:
    """An append would create a log there."""
    return folder / "absent" / "log"


def _file(folder: Path) -> Path:
    (folder / "file").write_bytes(b"mine")
    return folder / "file"


def _below_a_file(folder: Path) -> Path:
    return _file(folder) / "log"


def _too_long(folder: Path) -> Path:
    return folder / ("x" * 300)


def _loop(folder: Path) -> Path:
    (folder / "loop").symlink_to(folder / "loop")
    return folder / "loop"


def _nothing(folder: Path) -> Path:
    return Path("/dev/null")


@pytest.mark.parametrize(
    "wrong",
    [_absent, _file, _below_a_file, _too_long, _loop, _nothing],
    ids=lambda made: made.__name__[1:],
)
@commands
def test_invalid_path_is_reported_in_one_line(
    command: str, wrong: Callable[[Path], Path], tmp_path: Path
) -> None:
    options = ["--no-create"] if (command, wrong) == ("append", _absent) else []
    path = wrong(tmp_path)
    before = all_of(tmp_path)
    done = run(*line_of(command, path, *options), feed=b"one\n")
    assert done.returncode == (2 if command in ABOUT_DIRECTORIES else 1), done
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr
    assert done.stderr.strip()
    assert all_of(tmp_path) == before


@pytest.mark.parametrize(
    "command", [name for name in COMMANDS if name not in ("append", *ABOUT_DIRECTORIES)]
)
def test_directory_without_a_log_is_left_unchanged(command: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_bytes(b"mine")
    done = run(*line_of(command, tmp_path / "folder"))
    assert (done.returncode, done.stdout) == (1, b""), done
    assert done.stderr.startswith(b"commitlog: "), done.stderr
    assert os.listdir(tmp_path / "folder") == ["notes.txt"]


# --- segments and archives ------------------------------------------------------------------------

# commands that read an archive or a segment like a log
READING = ("info", "verify", "dump", "cat", "tail")
reading = pytest.mark.parametrize("command", READING)


def _cut(content: bytes) -> bytes:
    return content[:10_000]


def _damaged_header(content: bytes) -> bytes:
    return content[:40] + bytes([content[40] ^ 1]) + content[41:]


def _newer(content: bytes) -> bytes:
    return content[:8] + b"\x09" + content[9:]


def _text(content: bytes) -> bytes:
    return b"some text\n"


def _empty(content: bytes) -> bytes:
    return b""


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_cut, "copy it again"),
        (_damaged_header, "header is damaged"),
        (_newer, "newer"),
        (_text, "not a segment of a log"),
        (_empty, "not a segment of a log"),
    ],
    ids=lambda made: getattr(made, "__name__", made),
)
@reading
def test_invalid_segment_file_is_reported_in_one_line(
    command: str, harm: Callable[[bytes], bytes], said: str, log: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "x.seg"
    copy.write_bytes(harm(min(log.glob("*.seg")).read_bytes()))
    before = all_of(tmp_path)
    done = run(command, *COMMANDS[command], copy)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"commitlog: ")
    assert done.stderr.count(b"\n") == 1
    assert said in done.stderr.decode()
    assert str(copy) in done.stderr.decode()
    assert all_of(tmp_path) == before


@pytest.mark.parametrize("command", ["repair", "remove", "prune", "append"])
def test_segment_path_is_refused_by_commands_for_whole_logs(command: str, log: Path) -> None:
    before = all_of(log)
    done = run(command, *COMMANDS[command], min(log.glob("*.seg")), feed=b"one\n")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"file, " in done.stderr  # not a log
    assert all_of(log) == before
    if command == "repair":
        assert b"can only be repaired in its log" in done.stderr


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine at which no process listens during the test."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@reading
def test_unreachable_archive_is_reported_in_one_line(command: str, closed_port: int) -> None:
    pytest.importorskip("fsspec")
    done = run(command, *COMMANDS[command], f"ftp://127.0.0.1:{closed_port}/orders")
    assert (done.returncode, done.stdout) == (1, b"")
    assert (
        done.stderr.decode() == "commitlog: the archive cannot be read: Connection refused (path "
        f"ftp://127.0.0.1:{closed_port}/orders)\n"
    )


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("memory://absent/orders", "there is no archive here"),
        ("file:///nowhere/orders", "there is no archive here"),
        ("file:///dev/null", "Not a directory"),
        ("nonsense://orders", "an address that pyarrow or fsspec can open"),
        ("file://elsewhere/orders", "an absolute local path"),
    ],
)
@reading
def test_address_without_an_archive_is_reported_in_one_line(
    command: str, address: str, said: str
) -> None:
    pytest.importorskip("fsspec")
    done = run(command, *COMMANDS[command], address)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"commitlog: ")
    assert done.stderr.count(b"\n") == 1
    assert said in done.stderr.decode()


@reading
def test_archive_without_identity_is_reported_in_one_line(
    command: str, log: Path, tmp_path: Path
) -> None:
    pytest.importorskip("zstandard")
    assert run("archive", "--keep", log, tmp_path / "place").returncode == 0
    for text, said in (("{}", "is not a log"), (None, "has no log.json")):
        (tmp_path / "place" / "log.json").unlink()
        if text is not None:
            (tmp_path / "place" / "log.json").write_text(text)
        done = run(command, *COMMANDS[command], tmp_path / "place")
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.count(b"\n") == 1
        assert said in done.stderr.decode()


# --- flags and numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [("--nonsense",), ("-Z",), ("--nonsense=yes",), ("one", "two", "three")], ids=" ".join
)
@commands
def test_unknown_option_is_a_usage_error(
    command: str, wrong: tuple[str, ...], same_log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if command in ABOUT_MANY:
        wrong = ("--nonsense", *wrong)
    before = all_of(same_log)
    status = cli.run([*line_for(command, same_log), *wrong])
    printed = capfd.readouterr()
    assert (status, printed.out) == (2, "")
    assert f"Usage: commitlog {command}" in printed.err
    assert all_of(same_log) == before


@pytest.mark.parametrize(
    "command", [name for name in COMMANDS if name not in ABOUT_DIRECTORIES + ABOUT_STORES]
)
def test_missing_log_argument_is_a_usage_error(
    command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([command]) == 2
    assert "Missing argument 'LOG" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("command", "option"),
    [(command, option) for command, options in NUMBERS.items() for option in options],
)
def test_invalid_number_is_a_usage_error_naming_the_option(
    command: str, option: str, same_log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = all_of(same_log)
    for number in NO_NUMBERS:
        status = cli.run(line_for(command, same_log, option, number))
        printed = capfd.readouterr()
        assert (status, printed.out) == (2, ""), (number, printed)
        assert option.strip("-") in printed.err, number
    assert all_of(same_log) == before


@pytest.mark.parametrize(
    ("command", "option"),
    [(command, option) for command, options in CHOICES.items() for option in options],
)
def test_unknown_choice_is_a_usage_error_naming_the_choices(
    command: str, option: str, same_log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for wrong in ("nonsense", "", "FIRST\n"):
        assert cli.run(line_for(command, same_log, option, wrong)) == 2
        printed = capfd.readouterr().err
        assert any(
            said in printed
            for said in ("is not one of", "expected one of", "there are", "did you mean")
        ), printed


@commands
def test_option_without_its_value_is_a_usage_error(
    command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for option in NUMBERS.get(command, ()) + CHOICES.get(command, ()):
        assert cli.run([command, option]) == 2
        assert "requires an argument" in capfd.readouterr().err


# --- pipes and terminals --------------------------------------------------------------------------


@on_logs
def test_pipe_closed_early_prints_no_error(command: str, log: Path, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    talkative = ["--json"] if command == "append" else []  # bench prints its table at the end
    with hosted(
        "run_program",
        ["", *line_for(command, log, *talkative)],
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
    ) as done:
        os.close(writer)
        errors = done.communicate(timeout=60)[1]
    assert done.returncode == cli.PIPE_CLOSED, errors
    said = errors.decode().splitlines()
    # The first turn; a warning that the log is no copy.
    assert len(said) <= (command in ("bench", "promote")), said
    assert not any(word in errors for word in (b"Traceback", b"Error", b"rror:"))
    assert list(tmp_path.glob("commitlog-bench-*")) == []


@commands
def test_closed_standard_descriptors_change_no_segment(
    command: str, log: Path, tmp_path: Path
) -> None:
    """A service manager may start a command like this: the first file that it opens gets the number
    of a closed descriptor.
    """
    before = all_of(log)
    with (tmp_path / "said").open("wb") as errors:
        done = hosted("run_without_streams", line_for(command, log), stderr=errors)
        done.wait(60)
    said = (tmp_path / "said").read_text()
    assert done.returncode in (0, 1, 2), said  # an append has no input
    assert "Traceback" not in said
    if command in ("cat", "tail", "info", "verify", "append"):
        assert {item for item in all_of(log).items() if item[0].endswith(".seg")} == {
            item for item in before.items() if item[0].endswith(".seg")
        }


@on_logs
def test_output_without_a_terminal_has_no_escape_sequences(command: str, log: Path) -> None:
    done = run(*line_for(command, log), feed=b"\n" if command == "call" else b"one\n")
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
@pytest.mark.parametrize(
    "command",
    [name for name in COMMANDS if name not in ("bench", "doctor", "remove", *ABOUT_STORES)],
)
def test_unprintable_path_fails_no_command(command: str, encoding: str, tmp_path: Path) -> None:
    """The command succeeds even if its output encoding cannot represent the path."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff") + "\u20ac"
    with commitlog.open(path, segment_size=SEGMENT) as log:
        log.append_many([b"1", b"2"])
    done = run(
        command,
        *COMMANDS[command],
        path,
        *(str(tmp_path / name) for name in BEHIND.get(command, ())),
        encoding=encoding,
    )
    assert (done.returncode, done.stderr.count(b"\n") <= 1) == (0, True), done.stderr.decode()
