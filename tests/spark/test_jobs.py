"""The Spark jobs: their results, and that a resumed run gives the same result as an uninterrupted
one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import commitlog
from commitlog.base import failpoint
from commitlog.errors import InvalidOptionError, IOFailureError, NotALogError
from commitlog.spark.jobs import compact, export, verify, verifying
from commitlog.tools import cli
from tests.conftest import ROOT
from tests.spark.logs_in_spark import archive
from tests.tools.cli import program
from tests.topics.golden import log_with_deltas

SIZE = 65536
STEPS = ("step noted", "file moved", "step done")  # of an export
DAY_NS = 86400 * 10**9


def fill(path: Path, count: int, first: int = 0) -> None:
    """Append records, ten a day, every seventh without a key."""
    with commitlog.open(path, segment_size=SIZE) as log:
        for number in range(first, first + count):
            key = None if number % 7 == 0 else b"k%d" % (number % 50)
            log.append(
                b"value %d" % number + b"." * 300,
                key=key,
                type=number % 3,
                timestamp_ns=number * DAY_NS // 1000,
            )


def rows_of(destination: Path) -> pa.Table:
    return (
        ds.dataset(
            destination, partitioning=ds.partitioning(flavor="hive"), exclude_invalid_files=False
        )
        .to_table()
        .sort_by("offset")
    )


def test_interrupted_export_resumes_with_each_record_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "log", 900)
    steps = list(STEPS)
    told: list[str] = []

    def passed(step: str) -> None:
        if step in STEPS:
            told.append(step)
        if steps and step == steps[0]:
            del steps[0]
            raise KeyboardInterrupt

    monkeypatch.setattr(failpoint, "hook", passed)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            export(spark, str(tmp_path / "log"), str(tmp_path / "out"))
    done = export(spark, str(tmp_path / "log"), str(tmp_path / "out"))
    assert done.records == 900
    table = rows_of(tmp_path / "out")
    assert [value.decode().rstrip(".") for value in table["value"].to_pylist()] == [
        f"value {number}" for number in range(900)
    ]
    assert {str(date) for date in table["date"].to_pylist()} == {"1970-01-01"}
    assert done.files == len(list((tmp_path / "out").glob("date=*/*.parquet")))
    fill(tmp_path / "log", 500, first=900)
    done = export(spark, str(tmp_path / "log"), str(tmp_path / "out"), text=True, step=2 * SIZE)
    assert done.records == 1400
    dates = {path.parent.name for path in (tmp_path / "out").glob("date=*/*.parquet")}
    assert dates == {"date=1970-01-01", "date=1970-01-02"}
    told.clear()
    assert export(spark, str(tmp_path / "log"), str(tmp_path / "out")) == done
    assert told == []


def test_export_to_directory_in_use_raises(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "log", 1)
    fill(tmp_path / "other", 1)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(InvalidOptionError, match="holds something else"):
        export(spark, str(tmp_path / "log"), str(tmp_path / "taken"))
    export(spark, str(tmp_path / "log"), str(tmp_path / "out"))
    with pytest.raises(InvalidOptionError, match="has the export of"):
        export(spark, str(tmp_path / "other"), str(tmp_path / "out"))
    shutil.rmtree(tmp_path / "log")
    fill(tmp_path / "log", 1)
    with pytest.raises(InvalidOptionError, match="of another log that was at"):
        export(spark, str(tmp_path / "log"), str(tmp_path / "out"))
    note = next((tmp_path / "out" / "_commitlog").glob("*.json"))
    note.write_text('{"position": "x"}')
    with pytest.raises(InvalidOptionError, match="does not say how far"):
        export(spark, str(tmp_path / "log"), str(tmp_path / "out"))


def test_compaction_keeps_latest_record_of_each_key_in_order(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "log", 400)
    with commitlog.open(tmp_path / "log") as log:
        log.append(b"", key=b"k3")
        log.append(b"", key=b"k4")
        log.append(b"again", key=b"k4", type=9, timestamp_ns=5000)
        log.append(b"", key=b"")
    with commitlog.open(tmp_path / "log", "r") as log:
        records = list(log.tailer())
    latest = {record.key: record for record in records if record.key is not None}
    expected = [
        record
        for record in records
        if record.key is None or (record is latest[record.key] and record.value)
    ]
    done = compact(spark, str(tmp_path / "log"), str(tmp_path / "new"), segment_size=SIZE)
    assert (done.read, done.kept, done.tombstones, done.repeated) == (404, len(expected), 2, False)
    assert done.superseded == 404 - len(expected) - 2
    with commitlog.open(tmp_path / "new", "r") as log:
        found = list(log.tailer())
    assert [(record.key, record.value, record.type) for record in found] == [
        (record.key, record.value, record.type) for record in expected
    ]
    assert [record.timestamp_ns // 1000 for record in found] == [
        record.timestamp_ns // 1000 for record in expected
    ]
    again = compact(spark, str(tmp_path / "log"), str(tmp_path / "new"))
    assert (again.repeated, again.kept) == (True, done.kept)
    fill(tmp_path / "log", 1, first=400)
    with pytest.raises(InvalidOptionError, match="other records in it"):
        compact(spark, str(tmp_path / "log"), str(tmp_path / "new"))


def test_jobs_carry_headers(spark: Any, tmp_path: Path) -> None:
    log, compacted = tmp_path / "log", tmp_path / "compacted"
    with commitlog.open(log, segment_size=SIZE) as opened:
        opened.append(b"old", key=b"k", headers={"a": b"1"})
        opened.append(b"new", key=b"k", headers={"a": b"2"})
        opened.append(b"bare", headers={"b": b""})
        opened.append(b"plain")
        opened.flush()
    compact(spark, str(log), str(compacted))
    with commitlog.open(compacted, "r") as opened:
        found = [(record.value, record.headers) for record in opened.tailer()]
    assert found == [(b"new", {"a": b"2"}), (b"bare", {"b": b""}), (b"plain", {})]
    export(spark, str(log), str(tmp_path / "with"), headers=True)
    assert rows_of(tmp_path / "with").column("headers").to_pylist() == [
        [{"key": "a", "value": b"1"}],
        [{"key": "a", "value": b"2"}],
        [{"key": "b", "value": b""}],
        None,
    ]
    export(spark, str(log), str(tmp_path / "without"))
    assert "headers" not in rows_of(tmp_path / "without").column_names


def test_compaction_refuses_messages_bound_to_their_log(spark: Any, tmp_path: Path) -> None:
    path = log_with_deltas(tmp_path)
    with pytest.raises(InvalidOptionError, match="only this log .* topics sealed, states: read"):
        compact(spark, str(path), str(tmp_path / "new"))
    assert [each.name for each in tmp_path.iterdir()] == ["deltas"]


def test_interrupted_compaction_resumes_with_same_result(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "log", 700)
    log, new, kept = str(tmp_path / "log"), str(tmp_path / "new"), tmp_path / "new.compaction"
    whole = compact(spark, log, str(tmp_path / "whole"))
    starts: list[int] = []

    def passed(step: str) -> None:
        if step != "step done":
            return
        starts.append(json.loads((kept / "note.json").read_text())["position"])
        if len(starts) in (1, 3):
            raise KeyboardInterrupt

    monkeypatch.setattr(failpoint, "hook", passed)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            compact(spark, log, new, step=SIZE)
        assert kept.is_dir()
    # No step ran twice.
    done = compact(spark, log, new, step=SIZE)
    assert len(starts) > 3
    assert starts == sorted(set(starts))
    assert (done.read, done.kept, done.superseded, done.tombstones) == (
        whole.read,
        whole.kept,
        whole.superseded,
        whole.tombstones,
    )
    with commitlog.open(new, "r") as ended, commitlog.open(tmp_path / "whole", "r") as at_once:
        assert [(record.key, record.value) for record in ended.tailer()] == [
            (record.key, record.value) for record in at_once.tailer()
        ]
    assert not kept.exists()


def test_compaction_ignores_steps_of_another_compaction(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "log", 10)
    fill(tmp_path / "other", 20)

    def end(step: str) -> None:
        if step == "step done":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(failpoint, "hook", end)
        with pytest.raises(KeyboardInterrupt):
            compact(spark, str(tmp_path / "other"), str(tmp_path / "new"))
    assert compact(spark, str(tmp_path / "log"), str(tmp_path / "new")).read == 10
    (tmp_path / "empty.compaction").mkdir()
    (tmp_path / "empty.compaction" / "note.json").write_text("{}")
    (tmp_path / "empty.compaction" / "mine").write_text("a file of the user")
    commitlog.open(tmp_path / "nothing").close()
    with pytest.raises(InvalidOptionError, match="it holds another file .mine."):
        compact(spark, str(tmp_path / "nothing"), str(tmp_path / "empty"))
    assert (tmp_path / "empty.compaction" / "mine").read_text() == "a file of the user"
    (tmp_path / "empty.compaction" / "mine").unlink()
    assert compact(spark, str(tmp_path / "nothing"), str(tmp_path / "empty")).kept == 0


def test_spark_verify_of_many_logs_matches_verify_of_each(spark: Any, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        fill(path, 900)
    state = tmp_path / "state"
    done = verify(spark, paths, state=state)
    assert done.sound
    assert done.reports == [commitlog_verify(path) for path in paths]
    assert [report.records for report in done.reports] == [900] * 3
    segments = [len(report.segments) for report in done.reports]
    sealed = len(state.read_text().splitlines())
    assert 0 < sealed < sum(segments)
    state.write_text(state.read_text() + '{"uuid": "cut off in the midd')
    again = verify(spark, paths, state=state)
    assert (again.resumed, again.reports) == (sealed, done.reports)
    damage(paths[1])
    os.unlink(sorted(paths[2].glob("*.seg"))[2])
    found = verify(spark, paths)
    assert found.reports == [commitlog_verify(path) for path in paths]
    assert [report.sound for report in found.reports] == [True, False, False]
    assert found.reports[1].damage[0].position // SIZE == 1
    assert found.reports[2].holes == [(2 * SIZE, 3 * SIZE)]
    state.write_text("something else\n")
    with pytest.raises(InvalidOptionError, match="not the state of a verification"):
        verify(spark, paths, state=state)
    with pytest.raises(NotALogError):
        verify(spark, [tmp_path])
    with pytest.raises(InvalidOptionError, match="has a credential in it"):
        verify(spark, ["s3://me:hidden@bucket/orders"])


def test_spark_verify_checks_archives_and_single_segments(spark: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    fill(log, 900)
    packed = archive(log, tmp_path / "packed")
    paths = [log, packed, min(log.glob("*.seg"))]
    done = verify(spark, paths)
    assert done.sound
    assert [report.kind for report in done.reports] == ["log", "archive", "segment"]
    assert done.reports == [commitlog_verify(path) for path in paths]


def test_verify_state_of_a_log_does_not_apply_to_its_archive(spark: Any, tmp_path: Path) -> None:
    log, state = tmp_path / "log", tmp_path / "state"
    fill(log, 900)
    packed = archive(log, tmp_path / "packed")
    assert verify(spark, [log], state=state).sound
    checked = verify(spark, [packed], state=state)
    assert (checked.sound, checked.resumed) == (True, 0)
    second = sorted(packed.glob("*.seg.zst"))[1]
    content = bytearray(second.read_bytes())
    content[0] ^= 1
    second.write_bytes(content)
    found = verify(spark, [log, packed], state=state)
    assert [report.sound for report in found.reports] == [True, False]
    assert found.reports[1] == commitlog_verify(packed)


def commitlog_verify(path: Path) -> Any:
    from commitlog.repair.verification import verify as alone

    return alone(path)


def damage(path: Path) -> None:
    second = sorted(path.glob("*.seg"))[1]
    content = bytearray(second.read_bytes())
    content[10000] ^= 1
    second.write_bytes(content)


def test_spark_commands_report_result_and_exit_status(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    fill(tmp_path / "log", 900)

    def run(*arguments: object) -> tuple[int, str, str]:
        status = cli.run(["spark", *map(str, arguments)])
        said = capfd.readouterr()
        return status, said.out, said.err

    status, out, _ = run("export", tmp_path / "log", tmp_path / "out", "--json")
    assert (status, json.loads(out)["records"]) == (0, 900)
    status, out, _ = run("compact", tmp_path / "log", tmp_path / "new")
    assert (status, " kept in " in out) == (0, True)
    status, out, _ = run("verify", tmp_path / "log", tmp_path / "new")
    assert (status, out.count("\nsound")) == (0, 2)
    damage(tmp_path / "log")
    status, out, _ = run("verify", tmp_path / "log", "--json")
    assert (status, json.loads(out)["sound"]) == (1, False)
    status, out, err = run("export", tmp_path / "absent", tmp_path / "out2")
    assert (status, out, "there is no log here" in err) == (1, "", True)
    # Spark wraps the message of a task's or the driver's exception in a traceback of the JVM.
    status, out, err = run("compact", tmp_path / "new", tmp_path / "out")
    assert status == 1
    assert "holds something else" in err
    assert "Traceback" not in err


@pytest.mark.long
def test_spark_verify_runs_as_separate_program(tmp_path: Path) -> None:
    def verified() -> subprocess.CompletedProcess[bytes]:
        # A new process and not a fork: this process may have a Spark session.
        command = [
            *program.PROGRAM,
            "spark",
            "verify",
            str(tmp_path / "log"),
            "--master",
            "local[1]",
        ]
        return subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            timeout=300,
            check=False,
        )

    fill(tmp_path / "log", 900)
    assert verified().returncode == 0
    damage(tmp_path / "log")
    shown = verified()
    assert (shown.returncode, b"damage: " in shown.stdout) == (1, True)


def test_verification_state_that_is_no_regular_file_raises(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(IOFailureError, match="this is a FIFO, and not a regular file"):
        verifying._SoundSegments(str(tmp_path / "fifo"))
    with open(tmp_path / "endless", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InvalidOptionError, match="not the state of a verification"):
        verifying._SoundSegments(str(tmp_path / "endless"))
