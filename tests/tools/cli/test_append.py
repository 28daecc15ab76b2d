"""`commitlog append`: the records made from its input, when they are appended, and what it
prints.
"""

from __future__ import annotations

import json
import os
import signal
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog.tools.cli.intake import pieces
from commitlog.tools.cli.interrupt import Stop
from tests.tools.cli.program import (
    LIMIT_S,
    SEGMENT,
    interrupted,
    on_terminal,
    read_rest,
    run,
    shell,
    started,
)

Until = Callable[..., None]


def values(path: Path) -> list[bytes]:
    with commitlog.open(path, "r") as log:
        return list(log.tailer().values())


def has(path: Path, expected: list[bytes]) -> bool:
    """Return whether a log exists and holds these values."""
    return (path / "cursors").exists() and values(path) == expected


def frames(*contents: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(content)) + content for content in contents)


@pytest.mark.parametrize(
    ("options", "feed", "expected"),
    [
        ((), b"one\ntwo\n", [b"one", b"two"]),
        ((), b"one\n\nlast", [b"one", b"", b"last"]),
        ((), b"cr\r\nnul\0in\xff\n", [b"cr\r", b"nul\0in\xff"]),
        (("--format", "null"), b"a\nb\0c\0", [b"a\nb", b"c"]),
        (("--format", "frames"), frames(b"one", b"", b"a\nb\0"), [b"one", b"", b"a\nb\0"]),
        ((), b"", []),
        (("--format", "frames"), b"", []),
    ],
)
def test_standard_input_is_split_into_records(
    tmp_path: Path, options: tuple[str, ...], feed: bytes, expected: list[bytes]
) -> None:
    done = run("append", *options, tmp_path / "log", feed=feed)
    assert (done.returncode, done.stdout) == (0, b"")
    assert values(tmp_path / "log") == expected


def test_records_that_span_many_reads_stay_whole(tmp_path: Path) -> None:
    """Input is read in pieces of up to 256 KiB: some records are longer, and some end inside a
    piece.
    """
    contents = [bytes([65 + index % 26]) * (index * 7919 % 700_000) for index in range(12)]
    for options, feed in (
        ((), b"\n".join(contents) + b"\n"),
        (("--format", "frames"), frames(*contents)),
    ):
        name = f"log{len(options)}"
        done = run("append", *options, tmp_path / name, feed=feed)
        assert done.returncode == 0, done.stderr
        assert values(tmp_path / name) == contents


def test_files_append_in_order_and_dash_reads_standard_input(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2")
    (tmp_path / "b").write_bytes(b"4\n")
    done = run("append", tmp_path / "log", tmp_path / "a", "-", tmp_path / "b", feed=b"3")
    assert done.returncode == 0
    assert values(tmp_path / "log") == [b"1", b"2", b"3", b"4"]


def test_key_and_type_options_apply_to_every_record(tmp_path: Path) -> None:
    run("append", "--key", "lena", "--type", 7, tmp_path / "log", feed=b"one\ntwo\n")
    run("append", "--key", "", "--sync", tmp_path / "log", feed=b"three\n")
    with commitlog.open(tmp_path / "log", "r") as log:
        assert [(r.value, r.key, r.type) for r in log.tailer()] == [
            (b"one", b"lena", 7),
            (b"two", b"lena", 7),
            (b"three", b"", 0),
        ]


def test_summary_has_counts_and_positions(tmp_path: Path) -> None:
    done = run("append", tmp_path / "log", feed=b"one\ntwo\n")
    assert done.stderr == b"appended 2 records, 6 B, first position 4096, last position 4120\n"
    done = run("append", "--json", tmp_path / "log", feed=b"three\n")
    assert done.stderr == b""
    expected = {
        "records": 1,
        "bytes": 5,
        "first_position": 4144,
        "last_position": 4144,
        "interrupted": False,
        "error": None,
    }
    assert json.loads(done.stdout) == {"path": str(tmp_path / "log"), **expected}
    assert run("append", tmp_path / "log").stderr == b"appended nothing\n"


@pytest.mark.parametrize("options", [("--sync",), ()])
def test_every_record_is_durable_at_the_end(tmp_path: Path, options: tuple[str, ...]) -> None:
    feed = b"".join(b"record %06d\n" % number for number in range(20_000))  # several segments
    done = run("append", *options, "--segment-size", "64KiB", tmp_path / "log", feed=feed)
    assert done.returncode == 0, done.stderr
    with commitlog.open(tmp_path / "log", "r") as log:
        assert log.segment_size == SEGMENT
        assert log.flushed_position == log.tail_position
        assert b"".join(value + b"\n" for value in log.tailer().values()) == feed


def test_no_create_refuses_a_missing_log(tmp_path: Path) -> None:
    done = run("append", "--no-create", tmp_path / "log", feed=b"one\n")
    assert done.returncode == 1
    assert b"there is no log here: leave out --no-create" in done.stderr
    assert list(tmp_path.iterdir()) == []


# --- open input -----------------------------------------------------------------------------------


def test_line_is_appended_before_the_next_one_arrives(tmp_path: Path, until: Until) -> None:
    with started("append", tmp_path / "log") as process:
        assert process.stdin is not None
        sent: list[bytes] = []
        for number in range(3):
            process.stdin.write(b"line %d\n" % number)
            sent.append(b"line %d" % number)
            until(lambda: has(tmp_path / "log", sent), LIMIT_S)


def test_line_typed_at_a_terminal_is_appended_at_once(tmp_path: Path, until: Until) -> None:
    with on_terminal("append", tmp_path / "log") as (process, terminal):
        os.write(terminal, b"typed\n")
        until(lambda: has(tmp_path / "log", [b"typed"]), LIMIT_S)
        os.write(
            # The first Ctrl-D hands the line over, the second one ends the input.
            terminal,
            b"unended\x04\x04",
        )
        assert (
            read_rest(terminal)
            == b"appended 2 records, 12 B, first position 4096, last position 4120\r\n"
        )
        assert process.wait(LIMIT_S) == 0
    assert values(tmp_path / "log") == [b"typed", b"unended"]


def test_ctrl_c_at_a_terminal_keeps_the_typed_lines(tmp_path: Path, until: Until) -> None:
    with on_terminal("append", tmp_path / "log") as (process, terminal):
        os.write(terminal, b"typed\n")
        until(lambda: has(tmp_path / "log", [b"typed"]), LIMIT_S)
        os.write(terminal, b"\x03")
        assert read_rest(terminal).endswith(
            b"appended 1 record, 5 B, first position 4096, last position 4096, interrupted\r\n"
        )
        assert process.wait(LIMIT_S) == 130
    assert run("verify", "--json", tmp_path / "log").returncode == 0
    assert json.loads(run("info", "--json", tmp_path / "log").stdout)["state"] == "closed"


def test_ctrl_c_appends_the_lines_read_and_reports_the_rest(tmp_path: Path, until: Until) -> None:
    with started("append", "--json", tmp_path / "log") as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\nunfin")
        until(lambda: has(tmp_path / "log", [b"one", b"two"]), LIMIT_S)
        status, output, errors = interrupted(process)
    assert status == 130
    assert errors == b"commitlog: 5 bytes of an incomplete record were not appended\n"
    said = json.loads(output)
    assert (said["records"], said["interrupted"], said["error"]) == (2, True, None)
    assert values(tmp_path / "log") == [b"one", b"two"]


def test_ctrl_c_ends_the_wait_for_a_fifo(tmp_path: Path, until: Until) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_bytes(b"one\n")
    with started("append", tmp_path / "log", tmp_path / "file", tmp_path / "fifo") as process:
        until(lambda: has(tmp_path / "log", [b"one"]), LIMIT_S)
        status, _, errors = interrupted(process)
    assert (status, errors.endswith(b"last position 4096, interrupted\n")) == (130, True)


def test_ctrl_c_just_before_opening_a_fifo_ends_the_input(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with Stop() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert list(pieces(str(tmp_path / "fifo"), stop)) == []
        assert stop.requested


def test_ignored_ctrl_c_stays_ignored(tmp_path: Path, until: Until) -> None:
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    with started("append", tmp_path / "log", before=ignore) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\n")
        until(lambda: has(tmp_path / "log", [b"one"]), LIMIT_S)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(b"two\n", timeout=LIMIT_S)
    assert (process.returncode, errors.startswith(b"appended 2 records")) == (0, True)


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"line\n" * 200_000)
    with on_terminal("append", tmp_path / "log", tmp_path / "input") as (process, terminal):
        shown = read_rest(terminal)
        assert process.wait(LIMIT_S) == 0
    assert b"200000 records" in shown
    assert b"\x1b[" in shown
    assert shown.endswith(b"last position 4804072\r\n")
    assert b"\x1b[" not in run("append", tmp_path / "log", tmp_path / "input").stderr


def test_concurrent_appends_of_two_processes_keep_each_order(tmp_path: Path) -> None:
    with (
        started("append", tmp_path / "log") as first,
        started("append", tmp_path / "log") as second,
    ):
        for number in range(200):
            for name, process in ((b"a", first), (b"b", second)):
                assert process.stdin is not None
                process.stdin.write(b"%b %d\n" % (name, number))
        outcomes = [process.communicate(timeout=LIMIT_S)[1] for process in (first, second)]
        assert (first.returncode, second.returncode) == (0, 0)
    assert all(errors.startswith(b"appended 200 records") for errors in outcomes)
    found = values(tmp_path / "log")
    for name in (b"a", b"b"):
        assert [value for value in found if value.startswith(name)] == [
            b"%b %d" % (name, number) for number in range(200)
        ]


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("half", "what"),
    [
        (
            frames(b"four")[:6],
            b"ends inside the frame at offset 14: it has 6 of 8 bytes",
        ),
        (
            b"\x04\x00",
            b"ends inside the frame at offset 14: it has 2 of at least 4 bytes",
        ),
        (
            frames(b"x" * 20_000)[:5],
            b"frame at offset 14 has a length of 20000 bytes; the limit of this log is 8176",
        ),
    ],
)
def test_partial_frame_is_refused_and_earlier_records_stay(
    tmp_path: Path, half: bytes, what: bytes
) -> None:
    done = run(
        "append",
        "--format",
        "frames",
        "--segment-size",
        SEGMENT,
        tmp_path / "log",
        feed=frames(b"one", b"two") + half,
    )
    assert done.returncode == 1
    summary, refusal = done.stderr.splitlines()
    assert summary == b"appended 2 records, 6 B, first position 4096, last position 4120"
    assert refusal.startswith(b"commitlog: standard input: ")
    assert what in refusal
    assert values(tmp_path / "log") == [b"one", b"two"]


@pytest.mark.parametrize("key", [(), ("--key", "k" * 100)])
def test_too_large_record_is_refused_with_its_offset(tmp_path: Path, key: tuple[str, ...]) -> None:
    large = b"x" * (8069 if key else 8177)
    (tmp_path / "input").write_bytes(b"one\ntwo\n" + large + b"\nthree\n")
    done = run("append", *key, "--segment-size", SEGMENT, tmp_path / "log", tmp_path / "input")
    assert done.returncode == 1
    assert done.stderr.startswith(b"appended 2 records")
    limit = 8176 - 8 - 100 if key else 8176
    said = f"{tmp_path / 'input'}: the record at offset 8 is longer than {limit} bytes, the limit"
    assert said.encode() in done.stderr
    assert values(tmp_path / "log") == [b"one", b"two"]


def test_input_without_delimiter_is_refused_at_record_limit(tmp_path: Path) -> None:
    with (
        open("/dev/zero", "rb") as endless,
        started(
            "append", "--segment-size", SEGMENT, tmp_path / "log", feed=endless.fileno()
        ) as process,
    ):
        _, errors = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 1
    assert b"the record at offset 0 is longer than 8176 bytes" in errors


def test_roll_cycle_other_than_that_of_the_log_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"
    run("append", "--segment-size", SEGMENT, "--roll-cycle", "DAILY", log, feed=b"one\n")
    assert run("append", "--roll-cycle", "DAILY", log, feed=b"two\n").returncode == 0
    done = run("append", "--roll-cycle", "HOURLY", log, feed=b"three\n")
    assert done.returncode == 1
    assert b"roll_cycle is HOURLY (UTC), but the log was created with DAILY (UTC)" in done.stderr
    assert run("cat", log).stdout == b"one\ntwo\n"


def test_missing_input_file_is_refused_before_any_append(tmp_path: Path) -> None:
    done = run("append", tmp_path / "log", tmp_path / "absent")
    assert done.returncode == 2
    assert b"does not exist" in done.stderr
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("options", [(), ("--no-create",)])
def test_path_of_a_file_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "file").write_bytes(b"")
    done = run("append", *options, tmp_path / "file", feed=b"one\n")
    assert done.returncode == 1
    assert done.stderr.startswith(b"commitlog: this path is a file, not a log")


def test_append_to_a_held_log_names_its_holder(tmp_path: Path) -> None:
    with (
        commitlog.TransientStorePool(buffers=1, buffer_size=SEGMENT) as pool,
        commitlog.open(tmp_path / "log", pool=pool),
    ):
        done = run("append", tmp_path / "log", feed=b"two\n")
    assert done.returncode == 1
    assert f"held by process {os.getpid()} ".encode() in done.stderr


def test_closed_standard_input_is_refused(tmp_path: Path) -> None:
    done = shell('c append "$1" <&-', tmp_path / "log")
    assert done.returncode == 2
    assert b"standard input is closed: give a FILE" in done.stderr


def test_cut_of_recovery_is_reported_on_standard_error(tmp_path: Path) -> None:
    path = tmp_path / "log"
    if os.fork() == 0:
        log = commitlog.open(path, flush="none")
        log.append_many([b"whole", b"torn"])
        os._exit(0)
    os.wait()
    (path / "cursors").unlink()
    segment = next(path.glob("*.seg"))
    segment.write_bytes(segment.read_bytes().replace(b"torn", b"TORN", 1))
    done = run("append", path, feed=b"next\n")
    assert done.returncode == 0
    lines = done.stderr.decode().splitlines()
    assert sum("were cut off as a torn tail" in line for line in lines) == 1
    assert all(line.startswith(f"commitlog: {path}") for line in lines[:-1])
    assert lines[-1].startswith("appended 1 record")
    assert run("cat", path).stdout == b"whole\nnext\n"


def test_header_is_given_to_every_record(tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = run("append", "--header", "source=till=3", "--header", "empty=", log, feed=b"a\nb\n")
    assert done.returncode == 0, done.stderr
    with commitlog.open(log, "r") as opened:
        assert opened.tailer().read_batch(9).headers == [{"source": b"till=3", "empty": b""}] * 2
    lines = run("cat", "--json", log).stdout.splitlines()
    assert [json.loads(line)["headers"] for line in lines] == [
        {"source": "till=3", "empty": ""}
    ] * 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["name"], b"expected NAME=VALUE, not 'name'"),
        (["=value"], b"expected NAME=VALUE, not '=value'"),
        (["a=1", "a=2"], b"--header names a header twice"),
        (["a" * 256 + "=1"], b"must have 1 to 255 bytes"),
    ],
)
def test_bad_header_is_refused(tmp_path: Path, given: list[str], says: bytes) -> None:
    options = [part for each in given for part in ("--header", each)]
    done = run("append", *options, tmp_path / "log", feed=b"a\n")
    assert done.returncode != 0
    assert says in done.stderr
