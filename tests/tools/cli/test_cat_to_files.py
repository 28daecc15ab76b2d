"""`commitlog cat` with all fields: each file holds every record of the log, or is not created."""

from __future__ import annotations

import base64
import json
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import commitlog
from commitlog.tools import cli
from tests.log_files import HEADER, LogFiles, numbered
from tests.tools.cli.program import LIMIT_S, SEGMENT, run, shell, started

BEGAN_NS = 1_777_593_600 * 10**9  # 2026-05-01T00:00Z
Until = Callable[..., None]
Record = dict[str, Any]


@pytest.fixture
def records(tmp_path: Path) -> list[Record]:
    """Create the log `tmp_path / "log"`, several segments of records a second apart; return its
    records.
    """
    expected = []
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        for number in range(3000):
            key = None if number % 3 == 0 else b"" if number % 3 == 1 else b"key\xff"
            value = b"%d \xff" % number * 10 if number % 2 else b"text %d\n" % number
            timestamp_ns = BEGAN_NS + number * 10**9 + 7
            position = log.append(value, key=key, type=number, timestamp_ns=timestamp_ns)
            expected.append(
                {
                    "position": position,
                    "sequence": number,
                    "timestamp": timestamp_ns,
                    "type": number,
                    "key": key,
                    "value": value,
                }
            )
    return expected


def from_json(content: bytes) -> list[Record]:
    """Return the records of JSON lines."""

    def content_of(found: Record, name: str) -> bytes | None:
        text = found[name]
        if text is None:
            return None
        return base64.b64decode(text) if f"{name}_encoding" in found else text.encode()

    return [
        {name: found[name] for name in ("position", "sequence", "type")}
        | {
            "timestamp": found["timestamp_ns"],
            "key": content_of(found, "key"),
            "value": content_of(found, "value"),
        }
        for found in map(json.loads, content.splitlines())
    ]


def from_table(table: pa.Table) -> list[Record]:
    """Return the records of an Arrow table."""
    assert table.schema.field("timestamp").type == pa.timestamp("ns", tz="UTC")
    at = table.schema.get_field_index("timestamp")
    found: list[Record] = table.set_column(
        at, "timestamp", table["timestamp"].cast(pa.int64())
    ).to_pylist()
    return found


def from_csv(content: bytes) -> list[Record]:
    """Return the records of CSV, read by Polars, which distinguishes an empty string from null."""
    frame = pl.read_csv(content, try_parse_dates=False)
    columns = [
        frame["position"],
        frame["sequence"],
        frame["timestamp"]
        .str.strptime(pl.Datetime("ns", "UTC"), "%Y-%m-%dT%H:%M:%S%.9fZ")
        .cast(pl.Int64),
        frame["type"],
        frame["key"].cast(pl.Binary),
        frame["value"].cast(pl.Binary),
    ]
    return [dict(zip(frame.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def read(path: Path) -> list[Record]:
    """Return the records of an exported file."""
    if path.suffix == ".jsonl":
        return from_json(path.read_bytes())
    return from_table(
        pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()
    )


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow", "out.jsonl"])
def test_file_has_every_record_in_order(tmp_path: Path, records: list[Record], name: str) -> None:
    done = run("cat", tmp_path / "log", "-o", tmp_path / name)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        b"",
        f"3000 records to {tmp_path / name}\n".encode(),
    )
    assert read(tmp_path / name) == records
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o666 & ~current_mask()
    assert sorted(os.listdir(tmp_path)) == ["log", name]


def current_mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("format", ["parquet", "arrow", "jsonl"])
def test_standard_output_gets_the_same_records(
    tmp_path: Path, records: list[Record], format: str
) -> None:
    done = run("cat", "--format", format, tmp_path / "log")
    assert (done.returncode, done.stderr) == (0, b"")
    (tmp_path / f"out.{format}").write_bytes(done.stdout)
    assert read(tmp_path / f"out.{format}") == records


def test_range_is_chosen_by_position_and_time(tmp_path: Path, records: list[Record]) -> None:
    log = tmp_path / "log"

    def sequences(*arguments: object) -> range:
        found = [
            record["sequence"]
            for record in from_json(run("cat", "--format", "jsonl", *arguments, log).stdout)
        ]
        assert found == list(range(found[0], found[-1] + 1)) if found else True
        return range(found[0], found[-1] + 1) if found else range(0)

    assert sequences(
        "--from", records[1000]["position"], "--to", records[2000]["position"]
    ) == range(1000, 2000)
    assert sequences("--from", "first", "--to", 0) == range(0)
    assert sequences("--since", "2026-05-01T00:10", "--until", "2026-05-01T00:20") == range(
        600, 1200
    )
    assert sequences("--since", "2026-05-01T02:10", "-z", "Europe/Berlin") == range(600, 3000)
    assert sequences("--until", "now", "--from", records[2999]["position"]) == range(2999, 3000)
    assert sequences("--since", "now") == range(0)
    assert sequences("--since", "2026-05-01T00:20", "--until", "2026-05-01T00:10") == range(0)


def test_csv_has_every_record_of_text(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        log.append(b'{"a": "b, c"}\nnext line', timestamp_ns=BEGAN_NS + 7)
        log.append("é".encode(), key=b"", type=3, timestamp_ns=BEGAN_NS + 8)
        log.append(b"", key=b"k", timestamp_ns=BEGAN_NS + 9)
        expected = [
            {
                "position": one.position,
                "sequence": one.sequence,
                "timestamp": one.timestamp_ns,
                "type": one.type,
                "key": one.key,
                "value": one.value,
            }
            for one in log.tailer()
        ]
    assert run("cat", tmp_path / "log", "-o", tmp_path / "out.csv").returncode == 0
    content = (tmp_path / "out.csv").read_bytes()
    assert content.startswith(
        b"position,sequence,timestamp,type,key,value\n4096,0,2026-05-01T00:00:00.000000007Z,0,,"
    )
    assert from_csv(content) == expected


def test_csv_of_values_that_are_not_text_is_refused(tmp_path: Path, records: list[Record]) -> None:
    done = run("cat", tmp_path / "log", "-o", tmp_path / "out.csv")
    assert done.returncode == 1
    position = records[1]["position"]
    assert f"the value of the record at position {position} is not UTF-8".encode() in done.stderr
    assert not (tmp_path / "out.csv").exists()


def test_empty_log_gives_a_file_without_records(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log").close()
    for name in ("out.parquet", "out.arrow", "out.jsonl"):
        assert run("cat", tmp_path / "log", "-o", tmp_path / name).returncode == 0
        assert read(tmp_path / name) == []


def test_existing_file_is_replaced_only_with_overwrite(
    tmp_path: Path, records: list[Record]
) -> None:
    target = tmp_path / "out.jsonl"
    target.write_bytes(b"mine")
    done = run("cat", tmp_path / "log", "-o", target)
    assert done.returncode == 2
    assert b"exists: choose another name, or add --overwrite" in done.stderr
    assert target.read_bytes() == b"mine"
    assert run("cat", tmp_path / "log", "-o", target, "--overwrite").returncode == 0
    assert read(target) == records


# `link` and `replace` block, so the signal always arrives before the file is in place.
NEVER_DONE = "import os, signal; os.link = os.replace = lambda *given, **named: signal.pause()"


def test_interrupted_export_leaves_no_file(tmp_path: Path, until: Until) -> None:
    with commitlog.open(tmp_path / "log") as log:
        log.append_many(numbered(1_000_000))
    with started(
        "cat", tmp_path / "log", "-o", tmp_path / "out.jsonl", before=NEVER_DONE
    ) as process:
        until(lambda: any(path.stat().st_size for path in tmp_path.glob(".out.jsonl.*.tmp")))
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == cli.INTERRUPTED
    assert os.listdir(tmp_path) == ["log"]


def test_damage_leaves_no_file_unless_skipped(files: LogFiles, tmp_path: Path) -> None:
    files.create(0)
    files.checkpoint(files.records(0, numbered(10)), clean=True)
    files.flip(0, HEADER + 3 * 32 + 20)
    target = tmp_path / "out.jsonl"
    assert run("cat", files.path, "-o", target).returncode == 1
    assert not target.exists()
    done = run("cat", "--on-damage", "skip", files.path, "-o", target)
    assert (done.returncode, len(target.read_bytes().splitlines())) == (1, 9)
    assert b"damage: skipped position" in done.stderr


def test_full_disk_is_reported_in_one_line(tmp_path: Path, records: list[Record]) -> None:
    done = shell('c cat --format jsonl "$1" > /dev/full', tmp_path / "log")
    assert (done.returncode, done.stderr) == (
        1,
        b"commitlog: cannot write the output: No space left on device\n",
    )


def test_missing_pyarrow_error_says_what_to_install(
    tmp_path: Path,
    records: list[Record],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert cli.run(["cat", str(tmp_path / "log"), "-o", str(tmp_path / "out.parquet")]) == 2
    assert "needs pyarrow: pip install 'commitlog-engine[arrow]'" in capfd.readouterr().err
    assert os.listdir(tmp_path) == ["log"]
