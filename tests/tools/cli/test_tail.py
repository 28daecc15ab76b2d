"""`commitlog tail`: the last records as lines, and new ones as they are appended."""

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
from commitlog.tools.cli.record_format import escaped
from tests.log_files import HEADER, LogFiles, numbered
from tests.tools.cli.program import (
    LIMIT_S,
    SEGMENT,
    interrupted,
    on_terminal,
    read_until,
    run,
    shell,
    started,
)

PIPE_CLOSED = 141
Until = Callable[..., None]
STAMP_NS = 1_700_000_000_000_000_007


def shown(output: bytes) -> list[bytes]:
    """Return the values in the printed lines."""
    return [line.split(b"\t")[4] for line in output.splitlines()]


def test_record_is_printed_as_five_fields(tmp_path: Path) -> None:
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


def test_escaped_values_are_distinct_and_printable() -> None:
    values = [bytes([byte]) for byte in range(256)] + [
        b"\\n",
        b"\\x1b",
        "\u00a0".encode(),
        "\u0085".encode(),
        "\U000e0001".encode(),
    ]
    lines = [escaped(value) for value in values]
    assert len(set(lines)) == len(values)
    assert all(line.isprintable() for line in lines)


def test_json_lines_distinguish_text_from_bytes(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append("Ü\n".encode(), timestamp_ns=STAMP_NS)
        log.append(b"\xff\0", key=b"\xfe", type=3, timestamp_ns=STAMP_NS)
        log.append(b"", key=b"", timestamp_ns=STAMP_NS)
    found = [
        json.loads(line) for line in run("tail", "--json", tmp_path / "log").stdout.splitlines()
    ]
    same = {"timestamp": "2023-11-14T22:13:20.000000007Z", "timestamp_ns": STAMP_NS}
    assert found == [
        {"position": 4096, "sequence": 0, "type": 0, "key": None, "value": "Ü\n", **same},
        {
            "position": 4120,
            "sequence": 1,
            "type": 3,
            "key": base64.b64encode(b"\xfe").decode(),
            "key_encoding": "base64",
            "value": base64.b64encode(b"\xff\0").decode(),
            "value_encoding": "base64",
            **same,
        },
        {"position": 4152, "sequence": 2, "type": 0, "key": "", "value": "", **same},
    ]


def test_last_n_records_are_found_across_segments(tmp_path: Path) -> None:
    values = numbered(10_000)  # several segments
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        positions = log.append_many(values).tolist()
        log.roll()
        log.append_many([b"x", b"y"])
    values += [b"x", b"y"]
    for count in (0, 3, 2_500, 20_000):
        assert (
            shown(run("tail", "-n", count, tmp_path / "log").stdout)
            == values[len(values) - min(count, len(values)) :]
        ), count
    assert shown(run("tail", tmp_path / "log").stdout) == values[-10:]
    assert (
        shown(run("tail", "--from", hex(positions[9_990]), tmp_path / "log").stdout)
        == values[9_990:]
    )
    assert shown(run("tail", "--from", "first", tmp_path / "log").stdout) == values


def test_empty_log_prints_no_record(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log").close()
    done = run("tail", tmp_path / "log")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_damage_is_reported_when_it_is_read(files: LogFiles) -> None:
    files.create(0)
    files.checkpoint(files.records(0, numbered(10)), clean=True)
    files.flip(0, HEADER + 3 * 32 + 20)
    values = numbered(10)
    # the damage lies before them
    assert shown(run("tail", "-n", 5, files.path).stdout) == values[5:]
    done = run("tail", "--from", "first", files.path)
    assert (done.returncode, shown(done.stdout)) == (1, values[:3])
    done = run("tail", "--on-damage", "skip", files.path)
    assert (done.returncode, shown(done.stdout)) == (1, values[:3] + values[4:])
    assert b"damage: skipped position" in done.stderr


# --- start, filters and end -----------------------------------------------------------------------


@pytest.fixture
def hours(tmp_path: Path) -> Path:
    """Twenty-four records in several segments, an hour apart from 2026-05-01T00:00Z; every third is
    an error.
    """
    began_ns = 1_777_593_600 * 10**9
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        for hour in range(24):
            log.append(
                b"%s hour %d" % (b"ERROR" if hour % 3 == 0 else b"INFO", hour),
                timestamp_ns=began_ns + hour * 3600 * 10**9,
            )
            if hour % 7 == 6:
                log.roll()
    return tmp_path / "log"


def hours_of(*arguments: object) -> list[int]:
    """Return the hours that are printed, in order."""
    done = run("tail", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return [int(value.split()[-1]) for value in shown(done.stdout)]


def test_filters_apply_before_the_count(hours: Path) -> None:
    assert hours_of("--include", "ERROR", hours) == [0, 3, 6, 9, 12, 15, 18, 21]
    assert hours_of("--include", "ERROR", "-n", 2, hours) == [18, 21]
    assert hours_of("--exclude", "ERROR", "-n", 3, hours) == [20, 22, 23]
    assert hours_of("--include", "ERROR", "--include", "1.$", "--exclude", "12", hours) == [15, 18]
    assert hours_of("--include", "ERROR", "--limit", 2, hours) == [0, 3]
    assert hours_of("--include", "none such", hours) == []


def test_start_is_a_position_a_sequence_or_a_time(hours: Path) -> None:
    positions = [line.split(b"\t")[0] for line in run("tail", "-n", 24, hours).stdout.splitlines()]
    assert hours_of("--from", positions[21].decode(), hours) == [21, 22, 23]
    assert hours_of("--from-sequence", 22, hours) == [22, 23]
    assert hours_of("--since", "2026-05-01T20:30", hours) == [21, 22, 23]
    assert hours_of("--since", "2026-05-01 23:00:00.000000000Z", hours) == [23]
    assert hours_of("--since", "2026-05-01T23:00", "-z", "Europe/Berlin", hours) == [21, 22, 23]
    assert hours_of("--since", f"@{1_777_593_600 + 22 * 3600}.5", hours) == [23]
    assert hours_of("--since", "-1m", hours) == []
    assert hours_of("--from", "end", hours) == []


def test_reverse_prints_the_same_records_newest_first(hours: Path) -> None:
    assert hours_of("--reverse", "-n", 3, hours) == [23, 22, 21]
    assert hours_of("--reverse", "--from", "first", hours) == list(reversed(range(24)))
    assert hours_of("--reverse", "--from-sequence", 20, hours) == [23, 22, 21, 20]
    assert hours_of("--reverse", "--since", "2026-05-01T22:00", hours) == [23, 22]
    assert hours_of("--reverse", "--since", "2026-05-01", "--until", "2026-05-01T02:00", hours) == [
        1,
        0,
    ]
    assert hours_of("--reverse", "--from", "end", hours) == []
    assert hours_of("--reverse", "--include", "ERROR", "-n", 2, hours) == [21, 18]
    assert hours_of(
        "--reverse", "--from", "first", "--stop-at", "hour 21", "--limit", 2, hours
    ) == [23, 22]


def test_stop_at_ends_with_the_first_match(hours: Path) -> None:
    assert hours_of("--from", "first", "--stop-at", "hour 2", hours) == [0, 1, 2]
    assert hours_of("--from", "first", "--stop-at", "hour 2", "--include", "ERROR", hours) == [0]
    assert hours_of("-f", "--from", "first", "--stop-at", "hour 23", hours) == list(range(24))
    assert hours_of("-f", "--from", "first", "--limit", 3, hours) == [0, 1, 2]


def test_filters_apply_to_followed_records(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append(b"old ERROR")
        with started(
            "tail", "-f", "--include", "ERROR", "--stop-at", "END", tmp_path / "log"
        ) as process:
            assert process.stdout is not None
            read_until(process.stdout.fileno(), b"\n")
            log.append_many([b"INFO", b"new ERROR", b"DEBUG"])
            assert shown(read_until(process.stdout.fileno(), b"\n")) == [b"new ERROR"]
            log.append_many([b"last ERROR", b"END", b"ERROR after it"])
            output, errors = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, shown(output), errors) == (0, [b"last ERROR"], b"")


def test_follower_without_matches_exits_when_pipe_closes(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append_many([b"one", b"two"])
        with started("tail", "-f", "--include", "one", tmp_path / "log") as process:
            assert process.stdout is not None
            read_until(process.stdout.fileno(), b"\n")
            process.stdout.close()
            assert process.wait(LIMIT_S) == PIPE_CLOSED


# --- named tailers --------------------------------------------------------------------------------


def place_of(path: Path, name: str) -> int:
    """Return the sequence of the record at which a named tailer resumes."""
    with commitlog.open(path, "r") as log, log.tailer(name) as tailer:
        record = log.tailer(start=tailer.position).read()
        return 24 if record is None else record.sequence


def test_named_tailer_moves_past_the_printed_records(hours: Path) -> None:
    assert hours_of("--name", "billing", "--limit", 3, hours) == [0, 1, 2]
    assert hours_of("--name", "billing", "--limit", 2, hours) == [3, 4]
    assert hours_of("--name", "billing", "--include", "ERROR", "--limit", 2, hours) == [6, 9]
    assert hours_of("--name", "billing", "--stop-at", "hour 12", hours) == [10, 11, 12]
    assert hours_of("--name", "billing", "--exclude", "", hours) == []
    assert hours_of("--name", "billing", hours) == []
    assert hours_of("--name", "billing", "--from-sequence", 5, "--limit", 1, hours) == [5]
    assert hours_of("--name", "other", "-n", 2, hours) == [22, 23]
    assert hours_of("--name", "billing", "--from", "end", hours) == []
    assert hours_of("--name", "billing", hours) == []


def test_named_tailer_moves_during_a_replay(hours: Path, until: Until) -> None:
    with (
        commitlog.open(hours, "r") as log,
        started("tail", "--name", "billing", "--speed", 1, hours) as process,
    ):
        first = log.tailer(start="first").read()
        assert first is not None
        until(lambda: any((tailer.position or 0) > first.position for tailer in log.tailers()))
        assert interrupted(process)[0] == 130
    assert place_of(hours, "billing") == 1


def test_records_lost_at_the_output_are_printed_again(hours: Path) -> None:
    done = shell('c tail --name billing "$1" >&-; c tail --name billing "$1" > /dev/full', hours)
    assert done.returncode != 0
    assert place_of(hours, "billing") == 0


def test_name_in_use_is_refused(hours: Path) -> None:
    with commitlog.open(hours, "r") as log, log.tailer("billing"):
        done = run("tail", "--name", "billing", hours)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"commitlog: tailer 'billing' is read by")


# --- output formats -------------------------------------------------------------------------------


def printed(path: Path, template: str, *arguments: object) -> bytes:
    done = run("tail", "--format", template, *arguments, path)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_template_selects_and_orders_fields(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        log.append(b"one\ttwo\x1b", key=b'k"', type=3, timestamp_ns=STAMP_NS)
        log.append(b"")
    first = ("-n", 2, "--limit", 1)
    assert (
        printed(tmp_path / "log", r"{sequence}:{type} {key}={value}\n", *first)
        == b'0:3 "k\\""=one\\ttwo\\x1b\n'
    )
    assert (
        printed(tmp_path / "log", r"{position:>6}|{value:.3}|{timestamp_ns}\0", *first)
        == b"  4096|one|1700000000000000007\0"
    )
    assert (
        printed(tmp_path / "log", r"{value:x} {key:x} 100% {{}}\x21", *first)
        == b'6f6e650974776f1b "6b22" 100% {}!'
    )
    assert printed(tmp_path / "log", r"{{}}\t") == b"{}\t{}\t"


def test_until_ends_before_the_first_record_of_that_time(hours: Path) -> None:
    assert hours_of("--from", "first", "--until", "2026-05-01T03:00", hours) == [0, 1, 2]
    assert hours_of("--since", "2026-05-01T21:00", "--until", "2026-05-01T22:30", hours) == [21, 22]
    assert hours_of("-n", 2, "--until", "2026-05-01T05:00", hours) == [3, 4]
    assert hours_of("-n", 1, "--include", "ERROR", "--until", "2026-05-01T05:00", hours) == [3]
    assert hours_of("-f", "--from-sequence", 20, "--until", "2026-05-01T22:00", hours) == [20, 21]


def test_until_ends_a_follower_at_a_later_record(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append(b"before", timestamp_ns=STAMP_NS)
        with started("tail", "-f", "--until", "@1700000001", tmp_path / "log") as process:
            assert process.stdout is not None
            assert shown(read_until(process.stdout.fileno(), b"\n")) == [b"before"]
            log.append(b"too late", timestamp_ns=STAMP_NS + 10**9)
            assert process.wait(LIMIT_S) == 0
            assert process.stdout.read() == b""


def test_lines_are_cut_to_columns_of_the_terminal(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        log.append_many(
            [b"short", b"x" * 50, "\u6f22\u5b57\u6f22\u5b57\u6f22\u5b57".encode(), b"a\tb"]
        )
    lines = (
        run("tail", "--max-width", 10, "--format", r"{value}\n", tmp_path / "log")
        .stdout.decode()
        .splitlines()
    )
    assert lines == ["short", "x" * 9 + "\u2026", "\u6f22\u5b57\u6f22\u5b57 \u2026", "a\\tb"]


@pytest.mark.parametrize(("no_color", "term"), [("1", "xterm-256color"), ("", "dumb")])
def test_no_color_is_printed_where_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_color: str, term: str
) -> None:
    run("append", tmp_path / "log", feed=b"an ERROR here\n")
    monkeypatch.setenv("NO_COLOR", no_color)
    with on_terminal("tail", "-i", "ERROR", tmp_path / "log", term=term) as (_, terminal):
        assert b"\x1b" not in read_until(terminal, b"here\r\n")
    with on_terminal("doctor", tmp_path, term=term) as (_, terminal):
        assert b"\x1b[" not in read_until(terminal, b" FAILED\r\n")


def test_range_that_ends_before_it_starts_is_refused(tmp_path: Path) -> None:
    run("append", tmp_path / "log", feed=b"line\n")
    for command in ("tail", "cat"):
        done = run(command, "--since", "2026-05-02", "--until", "2026-05-01", tmp_path / "log")
        assert done.returncode == 2
        assert b"--until (2026-05-01) is before --since (2026-05-02): swap them" in done.stderr
        equal = run(command, "--since", "2026-05-02", "--until", "2026-05-02", tmp_path / "log")
        assert (equal.returncode, equal.stdout) == (0, b"")


def test_matches_are_highlighted_on_a_terminal_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    run("append", tmp_path / "log", feed=b"an ERROR\xc3\x9c here\n")
    arguments = (
        "tail",
        "--include",
        "ERROR",
        "--include",
        "\u00dc",
        "--format",
        r"{value}\n",
        tmp_path / "log",
    )
    with on_terminal(*arguments) as (_, terminal):
        seen = read_until(terminal, b"here\r\n")
    red = "\x1b[31m\x1b[1m"
    assert seen == f"an {red}ERROR\x1b[0m{red}\u00dc\x1b[0m here\r\n".encode()
    assert run(*arguments).stdout == "an ERROR\u00dc here\n".encode()


def test_times_are_printed_in_a_zone_with_its_daylight_saving(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        # The last Sunday of March 2026, one o'clock UTC.
        for second in (
            1_774_745_999,
            1_774_746_000,
        ):
            log.append(b"x", timestamp_ns=second * 10**9 + 5)
    assert run(
        "tail", "-z", "Europe/Berlin", "--format", r"{timestamp}\n", tmp_path / "log"
    ).stdout.decode().splitlines() == [
        "2026-03-29T01:59:59.000000005+01:00",
        "2026-03-29T03:00:00.000000005+02:00",
    ]
    found = json.loads(
        run("tail", "-z", "America/New_York", "-n", 1, "--json", tmp_path / "log").stdout
    )
    assert (found["timestamp_ns"], found["timestamp"]) == (
        1_774_746_000_000_000_005,
        "2026-03-28T21:00:00.000000005-04:00",
    )


# --- replay ---------------------------------------------------------------------------------------


def test_replay_prints_each_record_before_the_pause_after_it(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        for second in (0, 1, 1_000_000):
            log.append(b"%d" % second, timestamp_ns=second * 10**9)
    with started("tail", "--speed", "1000", tmp_path / "log") as process:
        assert process.stdout is not None
        assert shown(read_until(process.stdout.fileno(), b"\t1\n")) == [b"0", b"1"]
        assert process.poll() is None
        assert interrupted(process)[:2] == (130, b"")
    assert shown(run("tail", "--speed", "1", "--max-pause", "1ms", tmp_path / "log").stdout) == [
        b"0",
        b"1",
        b"1000000",
    ]


def test_replay_ends_in_a_pause_when_its_pipe_closes(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        for second in (0, 1_000_000):
            log.append(b"%d" % second, timestamp_ns=second * 10**9)
    done = shell('c tail --speed 1 "$1" | head -1', tmp_path / "log")
    assert (done.returncode, shown(done.stdout), done.stderr) == (PIPE_CLOSED, [b"0"], b"")


# --- following ------------------------------------------------------------------------------------


def test_follower_prints_each_new_record_immediately(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append_many([b"old", b"last"])
        with started("tail", "-f", "-n", 1, tmp_path / "log") as process:
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


def test_two_followers_read_the_appends_of_a_third_process(tmp_path: Path) -> None:
    path = tmp_path / "log"
    run("append", path)
    with (
        started("tail", "-f", path) as one,
        started("tail", "-f", "--json", path) as two,
        started("append", path) as writer,
    ):
        assert one.stdout is not None
        assert two.stdout is not None
        assert writer.stdin is not None
        writer.stdin.write(b"hello\n")
        assert shown(read_until(one.stdout.fileno(), b"\n")) == [b"hello"]
        assert json.loads(read_until(two.stdout.fileno(), b"\n"))["value"] == "hello"


def test_follower_reads_the_records_of_a_later_writer(tmp_path: Path) -> None:
    """No process has the log open and its live state is gone, as after a reboot."""
    path = tmp_path / "log"
    run("append", path, feed=b"before\n")
    (path / "cursors").unlink()
    with started("tail", "-f", path) as process:
        assert process.stdout is not None
        assert shown(read_until(process.stdout.fileno(), b"\n")) == [b"before"]
        run("append", path, feed=b"after\n")
        assert shown(read_until(process.stdout.fileno(), b"\n")) == [b"after"]


def test_wait_option_awaits_the_creation_of_the_log(tmp_path: Path, until: Until) -> None:
    path = tmp_path / "log"
    with started("tail", "-f", "--wait", path) as follower:
        assert follower.stdout is not None
        # The follower polls repeatedly.
        status = Path(f"/proc/{follower.pid}/status")
        until(
            lambda: (
                int(status.read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0]) > 100
            )
        )
        assert not path.exists()
        with commitlog.open(path, segment_size=SEGMENT) as log:
            log.append(b"the first")
            assert read_until(follower.stdout.fileno(), b"\n").endswith(b"the first\n")
        assert interrupted(follower)[0] == 130


def test_idle_follower_ends_when_its_pipe_closes(tmp_path: Path) -> None:
    """`head` ends after the first line; without a second record, no failing write would reveal
    that.
    """
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


def test_follower_of_a_removed_log_fails(tmp_path: Path) -> None:
    run("append", tmp_path / "log", feed=b"one\n")
    with started("tail", "-f", tmp_path / "log") as process:
        assert process.stdout is not None
        read_until(process.stdout.fileno(), b"\n")
        shutil.rmtree(tmp_path / "log")
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert errors.startswith(b"commitlog: the log was removed while it was followed")


def test_follower_continues_after_a_killed_writer(tmp_path: Path) -> None:
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


def test_missing_log_is_reported(tmp_path: Path) -> None:
    done = run("tail", "-f", tmp_path / "absent")
    assert done.returncode == 1
    assert re.match(rb"commitlog: there is no log here.*absent\)\n$", done.stderr)
