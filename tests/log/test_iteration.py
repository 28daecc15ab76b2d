"""A log as an iterable, as a stream of Arrow, and as what notebooks and `help` show."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import commitlog
from commitlog.errors import ClosedError
from commitlog.options import OptionOverrides


def filled(path: Path, count: int = 5) -> commitlog.CommitLog:
    log = commitlog.open(path)
    log.append_many([b"%d" % number for number in range(count)])
    return log


def test_loop_ends_at_the_end_when_it_began(tmp_path: Path) -> None:
    with filled(tmp_path) as log:
        found = []
        for record in log:
            log.append(b"later")
            found.append(bytes(record.value))
        assert found == [b"0", b"1", b"2", b"3", b"4"]
        assert len(list(log)) == 10


def test_end_of_a_loop_is_that_of_its_call(tmp_path: Path) -> None:
    with filled(tmp_path) as log:
        records = iter(log)
        log.append(b"later")
        assert len(list(records)) == 5


def test_loop_over_a_closed_log_is_refused(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    with pytest.raises(ClosedError):
        iter(log)


def test_tools_query_an_open_log_by_its_name(tmp_path: Path) -> None:
    with filled(tmp_path) as log:
        for _ in range(2):  # each query reads it anew
            assert duckdb.sql("SELECT count(*), max(value) FROM log").fetchall() == [(5, b"4")]
        assert pl.DataFrame(log).height == 5
        assert pa.table(log).column("value").to_pylist() == [b"0", b"1", b"2", b"3", b"4"]


def test_stream_of_a_tailer_moves_it_to_the_end(tmp_path: Path) -> None:
    with filled(tmp_path) as log, log.tailer() as tailer:
        tailer.read()
        assert pa.table(tailer).column("value").to_pylist() == [b"1", b"2", b"3", b"4"]
        assert tailer.position == log.committed_position
        assert pa.table(tailer).num_rows == 0


def test_objects_say_what_they_are(tmp_path: Path) -> None:
    with filled(tmp_path) as log, log.tailer("mailer") as tailer:
        first = tailer.position
        assert repr(tailer) == f"<Tailer 'mailer', forward from {first}>"
        batch = tailer.read_batch()
        last = batch.positions[-1]
        assert repr(batch) == f"<Batch of 5 records, positions {first} to {last}>"
        assert repr(tailer.read_batch()) == "<Batch of 0 records>"


def test_notebooks_show_a_log_its_figures_and_batches(tmp_path: Path) -> None:
    with filled(tmp_path, 25) as log:
        log.append(b"<script>" + b"x" * 100)
        assert f"<td>{log.tail_position:,}</td>" in log._repr_html_()
        assert "committed" in log.stats()._repr_html_()
        shown = log.tailer().read_batch()._repr_html_()
        last = log.tailer(start=log.last_position).read_batch()._repr_html_()
    assert "<caption>26 records, the first:</caption>" in shown
    assert "b&#x27;19&#x27;" in shown
    assert "b&#x27;20&#x27;" not in shown
    assert "&lt;script&gt;" in last
    assert "and 48 bytes" in last
    assert "closed" in log._repr_html_()


def test_help_of_open_has_each_option() -> None:
    shown = inspect.signature(commitlog.open).parameters
    assert [*shown][3:] == list(OptionOverrides.__annotations__)
    assert shown["flush"].default == "async"
    assert shown["sync_timeout"].annotation == "Duration"
    text = inspect.getdoc(commitlog.open) or ""
    assert all(f"\n{name} : " in text for name in OptionOverrides.__annotations__)
    assert "overrides" not in text


def test_package_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "commitlog", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"commitlog {commitlog.__version__}")
