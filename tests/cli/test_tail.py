"""`commitlog tail`: the last records as lines, and those that come."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import cli
from commitlog.cli.printed import escaped
from tests.cli.program import LIMIT_S, SEGMENT, interrupted, on_terminal, read_until, run, shell, started
from tests.log_files import HEADER, LogFiles, numbered

PIPE_CLOSED = 141
Until = Callable[..., None]
STAMP_NS = 1_700_000_000_000_000_007


def shown(output: bytes) -> list[bytes]:
    """The values of what was printed."""
    return [line.split(b"\t")[4] for line in output.splitlines()]


def test_a_record_is_a_line_of_five_fields(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append(b"two lamps", timestamp_ns=STAMP_NS)
        log.append(b"a\tb\n\\\x1b[1m", key=b'le"na', type=7, timestamp_ns=STAMP_NS)
        log.append("Ü \u202e".encode() + b"\xff", key=b"", timestamp_ns=STAMP_NS)
    done = run("tail", tmp_path / "log")
    stamp = "2023-11-14T22:13:20.000000007Z"
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines() == [
        f"4096\t{stamp}\t0\t-\ttwo lamps",
        f'4128\t{stamp}\t7\t"le\\"na"\ta\\tb\\n\\\\\\x1b[1m',
        f'4168\t{stamp}\t0\t""\tÜ \\u202e\\xff',
    ]


def test_no_escaped_value_can_be_taken_for_another() -> None:
    values = [bytes([byte]) for byte in range(256)] + [b"\\n", b"\\x1b", "\u00a0".encode(), "\u0085".encode(), "\U000e0001".encode()]
    lines = [escaped(value) for value in values]
    assert len(set(lines)) == len(values)
    assert all(line.isprintable() for line in lines)


def test_json_lines_tell_text_from_bytes(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append("Ü\n".encode(), timestamp_ns=STAMP_NS)
        log.append(b"\xff\0", key=b"\xfe", type=3, timestamp_ns=STAMP_NS)
        log.append(b"", key=b"", timestamp_ns=STAMP_NS)
    found = [json.loads(line) for line in run("tail", "--json", tmp_path / "log").stdout.splitlines()]
    same = {"timestamp_ns": STAMP_NS}
    assert found == [
        {"position": 4096, "type": 0, "key": None, "value": "Ü\n", **same},
        {
            "position": 4120,
            "type": 3,
            "key": base64.b64encode(b"\xfe").decode(),
            "key_encoding": "base64",
            "value": base64.b64encode(b"\xff\0").decode(),
            "value_encoding": "base64",
            **same,
        },
        {"position": 4152, "type": 0, "key": "", "value": "", **same},
    ]


def test_the_last_n_are_found_across_segments(tmp_path: Path) -> None:
    values = numbered(10_000)  # several segments
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        positions = log.append_many(values).tolist()
        log.roll()
        log.append_many([b"x", b"y"])
    values += [b"x", b"y"]
    for count in (0, 3, 2_500, 20_000):
        assert shown(run("tail", "-n", count, tmp_path / "log").stdout) == values[len(values) - min(count, len(values)) :], count
    assert shown(run("tail", tmp_path / "log").stdout) == values[-10:]
    assert shown(run("tail", "--from", hex(positions[9_990]), tmp_path / "log").stdout) == values[9_990:]
    assert shown(run("tail", "--from", "first", tmp_path / "log").stdout) == values


def test_an_empty_log_has_no_last_records(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log").close()
    done = run("tail", tmp_path / "log")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_damage_is_told_where_it_is_met(files: LogFiles) -> None:
    files.create(0)
    files.checkpoint(files.records(0, numbered(10)), clean=True)
    files.flip(0, HEADER + 3 * 32 + 20)
    values = numbered(10)
    assert shown(run("tail", "-n", 5, files.path).stdout) == values[5:]  # it lies before them
    done = run("tail", "--from", "first", files.path)
    assert (done.returncode, shown(done.stdout)) == (1, values[:3])
    done = run("tail", "--on-damage", "skip", files.path)
    assert (done.returncode, shown(done.stdout)) == (1, values[:3] + values[4:])
    assert b"damage: skipped position" in done.stderr


# --- following --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("idle", ["backoff", "block"])
def test_records_are_followed_as_they_come_each_on_its_line_at_once(tmp_path: Path, idle: str) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append_many([b"old", b"last"])
        with started("tail", "-f", "-n", 1, "--idle", idle, tmp_path / "log") as process:
            assert process.stdout is not None
            out = process.stdout.fileno()
            assert shown(read_until(out, b"\n")) == [b"last"]
            for number in range(3):
                log.append(b"new %d" % number)
                assert shown(read_until(out, b"\n")) == [b"new %d" % number]
            log.roll()
            log.append(b"rolled")
            assert shown(read_until(out, b"\n")) == [b"rolled"]
            status, rest, errors = interrupted(process)
    assert (status, rest, errors.strip()) == (130, b"", b"")


def test_two_processes_follow_what_a_third_appends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    run("append", path)
    with started("tail", "-f", path) as one, started("tail", "-f", "--json", path) as two, started("append", path) as writer:
        assert one.stdout is not None
        assert two.stdout is not None
        assert writer.stdin is not None
        writer.stdin.write(b"hello\n")
        assert shown(read_until(one.stdout.fileno(), b"\n")) == [b"hello"]
        assert json.loads(read_until(two.stdout.fileno(), b"\n"))["value"] == "hello"


def test_a_writer_that_comes_later_is_followed(tmp_path: Path) -> None:
    """Nobody has the log open, and its live state is of no use: as after a reboot."""
    path = tmp_path / "log"
    run("append", path, feed=b"before\n")
    (path / "cursors").unlink()
    with started("tail", "-f", path) as process:
        assert process.stdout is not None
        assert shown(read_until(process.stdout.fileno(), b"\n")) == [b"before"]
        run("append", path, feed=b"after\n")
        assert shown(read_until(process.stdout.fileno(), b"\n")) == [b"after"]


@pytest.mark.parametrize("idle", ["backoff", "block"])
def test_a_log_that_is_yet_to_come_is_waited_for_if_so_told(tmp_path: Path, until: Until, idle: str) -> None:
    path = tmp_path / "log"
    with started("tail", "-f", "--wait", "--idle", idle, path) as follower:
        assert follower.stdout is not None
        status = Path(f"/proc/{follower.pid}/status")
        until(lambda: int(status.read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0]) > 100)  # it looks again and again
        assert not path.exists()
        with commitlog.open(path, segment_size=SEGMENT) as log:
            log.append(b"the first")
            assert read_until(follower.stdout.fileno(), b"\n").endswith(b"the first\n")
        assert interrupted(follower)[0] == 130


def test_a_follower_ends_with_its_reader_although_nothing_comes(tmp_path: Path) -> None:
    """`head` ends after the first line; without a second one nothing would be written to notice it by."""
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append_many([b"one", b"two"])
        done = shell('c tail -f "$1" | head -1', tmp_path / "log")
    assert (done.returncode, shown(done.stdout), done.stderr) == (PIPE_CLOSED, [b"one"], b"")


def test_ctrl_c_at_a_terminal_ends_a_follower(tmp_path: Path) -> None:
    run("append", tmp_path / "log", feed=b"one\n")
    with on_terminal("tail", "-f", tmp_path / "log") as (process, terminal):
        read_until(terminal, b"\tone\r\n")
        os.write(terminal, b"\x03")
        assert process.wait(LIMIT_S) == 130


def test_a_log_that_is_removed_is_not_waited_for(tmp_path: Path) -> None:
    run("append", tmp_path / "log", feed=b"one\n")
    with started("tail", "-f", tmp_path / "log") as process:
        assert process.stdout is not None
        read_until(process.stdout.fileno(), b"\n")
        shutil.rmtree(tmp_path / "log")
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert errors.startswith(b"commitlog: the log was removed while it was followed")


def test_a_killed_writer_is_followed_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    run("append", path)
    with started("tail", "-f", path) as process:
        assert process.stdout is not None
        out = process.stdout.fileno()
        for word in (b"one", b"two"):
            with started("append", path) as writer:
                assert writer.stdin is not None
                writer.stdin.write(word + b"\n")
                assert shown(read_until(out, b"\n")) == [word]
                writer.send_signal(signal.SIGKILL)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("-n", "-1"), "expected a whole number of at least 0, not '-1'"),
        (("--from", "end"), "expected 'first' or a position"),
        (("-n", "3", "--from", "first"), "-n and --from both say where to begin"),
        (("--idle", "block"), "--idle says how to wait, which only --follow does"),
        (("--wait",), "--wait waits for records that are yet to come, which only --follow shows"),
        (("-f", "--idle", "nap"), "'nap' is not one of"),
    ],
)
def test_wrong_options_are_refused_with_what_was_expected(
    tmp_path: Path, arguments: tuple[str, ...], what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    status = cli.run(["tail", *arguments, str(tmp_path / "log")])
    printed = capfd.readouterr()
    assert (status, printed.out) == (2, "")
    assert what in printed.err


def test_a_log_that_is_not_there_is_said(tmp_path: Path) -> None:
    done = run("tail", "-f", tmp_path / "absent")
    assert done.returncode == 1
    assert re.match(rb"commitlog: there is no log here.*absent\)\n$", done.stderr)
