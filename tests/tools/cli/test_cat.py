"""`commitlog cat`: raw values, and the options that select records."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import commitlog
from tests.log_files import HEADER, LogFiles, numbered
from tests.tools.cli.program import LIMIT_S, SEGMENT, run, shell, started

PIPE_CLOSED = 141


@pytest.fixture
def log(tmp_path: Path) -> tuple[Path, list[int]]:
    """Create a closed log of ten records of 24 bytes; return its path and their positions."""
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT) as opened:
        positions = opened.append_many(numbered(10))
    return path, positions.tolist()


def lines(values: list[bytes]) -> bytes:
    return b"".join(value + b"\n" for value in values)


def test_values_are_printed_unchanged(tmp_path: Path) -> None:
    values = [b"", b"a\nb", b"\0\xff", b"x" * 5000, "Ü".encode()]
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as opened:
        opened.append_many(values)
    for options, expected in (
        ((), lines(values)),
        (("--format", "raw"), b"".join(values)),
        (("--format", "null"), b"\0".join(values) + b"\0"),
    ):
        done = run("cat", *options, tmp_path / "log")
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, b"")


def test_frames_pass_from_log_to_log_unchanged(tmp_path: Path) -> None:
    values = [b"", b"a\nb\0", os.urandom(3000), b"\xff" * 100]
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as opened:
        opened.append_many(values)
    done = shell(
        'c cat --format frames "$1" | c append --format frames "$2"',
        tmp_path / "log",
        tmp_path / "copy",
    )
    assert done.returncode == 0, done.stderr
    with commitlog.open(tmp_path / "copy", "r") as copy:
        assert list(copy.tailer().values()) == values


def test_range_is_chosen_by_positions_and_limit(log: tuple[Path, list[int]]) -> None:
    path, positions = log
    values = numbered(10)
    for options, expected in (
        (("--from", positions[3]), values[3:]),
        (("--from", hex(positions[3]), "--limit", 2), values[3:5]),
        (("--from", "first", "--to", positions[3] + 1), values[:4]),
        (("--from", positions[2], "--to", positions[2]), []),
        (("--limit", 100, "--to", 1 << 60), values),
    ):
        done = run("cat", *options, path)
        assert (done.returncode, done.stdout) == (0, lines(expected)), options


def test_template_writes_bytes_unchanged(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as opened:
        opened.append(b"\xff\x1b\n", key=b"k\xfe")
        opened.append(b"")
    done = run("cat", "--format", r"{key}={value};", tmp_path / "log")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"k\xfe=\xff\x1b\n;=;", b"")


def test_include_and_exclude_filter_records(log: tuple[Path, list[int]]) -> None:
    done = run("cat", "--include", "[02468]$", "--exclude", "4", "--limit", 3, log[0])
    assert done.stdout == lines([numbered(10)[number] for number in (0, 2, 6)])


def test_many_segments_are_printed_in_order(tmp_path: Path) -> None:
    values = numbered(30_000)
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as opened:
        opened.append_many(values)
    assert run("cat", tmp_path / "log").stdout == lines(values)


def test_visibility_flushed_prints_durable_records_only(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT, flush="none") as opened:
        opened.append(b"durable", sync=True)
        opened.append(b"seen")
        assert run("cat", tmp_path / "log").stdout == b"durable\nseen\n"
        assert run("cat", "--visibility", "flushed", tmp_path / "log").stdout == b"durable\n"


def test_damage_ends_the_output_or_is_skipped_and_reported(files: LogFiles) -> None:
    files.create(0)
    files.checkpoint(files.records(0, numbered(10)), clean=True)
    files.flip(0, HEADER + 3 * 32 + 20)
    values = numbered(10)
    done = run("cat", files.path)
    assert (done.returncode, done.stdout) == (1, lines(values[:3]))
    assert f"position {HEADER + 96}".encode() in done.stderr
    done = run("cat", "--on-damage", "skip", files.path)
    assert (done.returncode, done.stdout) == (1, lines(values[:3] + values[4:]))
    assert (
        done.stderr
        == f"commitlog: damage: skipped position {HEADER + 96} to {HEADER + 128}\n".encode()
    )


def test_pipe_closed_by_its_reader_prints_no_error(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as opened:
        opened.append_many(numbered(200_000))
    done = shell('c cat "$1" | head -1', tmp_path / "log")
    assert (done.returncode, done.stdout, done.stderr) == (PIPE_CLOSED, b"value 000000\n", b"")


def test_closed_output_is_refused(log: tuple[Path, list[int]]) -> None:
    done = shell('c cat "$1" >&-', log[0])
    assert (done.returncode, done.stderr) == (
        1,
        b"commitlog: standard output is closed: redirect it to a file or a pipe\n",
    )


def test_cat_stops_at_the_log_end_seen_at_start(tmp_path: Path) -> None:
    """The output exceeds the pipe, so the command blocks while more records are appended, which it
    must not print.
    """
    values = numbered(20_000)
    with commitlog.open(tmp_path / "log") as opened:
        opened.append_many(values)
        with started("cat", tmp_path / "log") as process:
            assert process.stdout is not None
            began = process.stdout.read(1)
            opened.append_many([b"late"] * 1000)
            output, _ = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0
    assert began + output == lines(values)


def test_position_without_record_or_absent_log_is_refused(
    log: tuple[Path, list[int]],
) -> None:
    path, positions = log
    done = run("cat", "--from", positions[0] + 8, path)
    assert done.returncode == 1
    assert done.stderr.startswith(
        b"commitlog: no record starts here: the log's positions go from 0 to "
    )
    done = run("cat", path / "absent")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"commitlog: there is no log here")


def test_json_has_headers_of_records_that_have_some(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append(b"one")
        log.append(b"two", headers={"a": b"x", "b": b""})
        log.append(b"three", headers={"a": b"x", "b": b"\xff"})
    found = [
        json.loads(line) for line in run("cat", "--json", tmp_path / "log").stdout.splitlines()
    ]
    assert "headers" not in found[0]
    assert found[1]["headers"] == {"a": "x", "b": ""}
    assert (found[2]["headers"], found[2]["headers_encoding"]) == (
        {"a": "eA==", "b": "/w=="},
        "base64",
    )
    assert "headers_encoding" not in found[1]


def test_template_has_headers_and_one_of_them(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append(b"one")
        log.append(b"two", headers={"a": b"x", "b c": b"\xff"})
    template = "{headers} [{headers[a]}] {headers[b c]:x} {headers[absent]}.\\n"
    assert run("cat", "--format", template, tmp_path / "log").stdout.splitlines() == [
        b"{} []  .",
        b'{"a": "x", "b c": "\\\\xff"} [x] ff .',
    ]
    done = run("cat", "--format", "{header}", tmp_path / "log")
    assert b"there is no field {header}" in done.stderr


def test_csv_and_tables_have_headers_on_request(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT) as log:
        log.append(b"one")
        log.append(b"two", headers={"a": b'"x"'})
    first, one, two = run("cat", "--headers", "--format", "csv", path).stdout.splitlines()
    assert first == b"position,sequence,timestamp,type,key,value,headers"
    assert one.endswith(b',,"one",')
    assert two.endswith(b',,"two","{""a"": ""\\""x\\""""}"')
    for name, read in (("a.parquet", pq.read_table), ("a.arrow", pa.ipc.open_file)):
        run("cat", "--headers", "--include", "two", "-o", tmp_path / name, path)
        found = read(tmp_path / name)
        table = found.read_all() if name == "a.arrow" else found
        assert table.column("headers").to_pylist() == [[("a", b'"x"')]]
    with commitlog.open(path) as log:
        log.append(b"three", headers={"b": b"\xff"})
    done = run("cat", "--headers", "--format", "csv", path)
    assert b"the header 'b' of the record at position" in done.stderr
    done = run("cat", "--headers", path)
    assert b"--headers is for csv, parquet and arrow, not for lines" in done.stderr


@pytest.mark.parametrize("command", ["cat", "tail"])
def test_damaged_headers_are_reported_and_skipped(tmp_path: Path, command: str) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT) as log:
        log.append(b"one", headers={"a": b"x"})
        position = log.append(b"two", headers={"name": b"content"})
        log.append(b"three")
        log.flush()
    file = min(path.glob("0*"))
    content = bytearray(file.read_bytes())
    content[content.index(b"content")] ^= 1
    file.write_bytes(content)
    done = run(command, "--json", path)
    assert (done.returncode, b"the headers of this record are damaged" in done.stderr) == (1, True)
    done = run(command, "--json", "--on-damage", "skip", path)
    assert done.returncode == 1
    assert f"damage: no headers of the record at {position}".encode() in done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["value"] for row in found] == ["one", "two", "three"]
    assert [row.get("headers", "none") for row in found] == [{"a": "x"}, None, "none"]
    assert run(command, "--format", "{value}\\n", path).returncode == 0
