"""Readers that are open while their log is cut at a fork get an error, and never other records."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import FencedError, SyncTimeoutError
from commitlog.repair.verification import verify
from tests.copies import copy_log
from tests.host import start_code
from tests.network.replication.scene import (
    LIMIT_S,
    SEGMENT,
    copy_of,
    fill,
    killed_process,
    records,
)

Found = list[tuple[int, int, bytes]]

# Follows a log in another process, and says what it reads and how it ends.
_TAIL = """
import sys
import commitlog
from commitlog.errors import FencedError
with commitlog.open(sys.argv[1], "r") as log:
    with log.tailer(sys.argv[2] or None) as tailer:
        try:
            for record in tailer.follow(idle="block"):
                print(record.position, bytes(record.value).split()[0].decode(), flush=True)
        except FencedError as error:
            print("fenced", error.position, flush=True)
"""


@pytest.fixture
def fork(tmp_path: Path) -> int:
    return make_fork(tmp_path, "new")


def make_fork(tmp_path: Path, name: str) -> int:
    """Make a former primary, "orders", with records that the new one, "copy", lacks; return from
    where on.
    """
    copy_of(tmp_path / "orders", tmp_path / "copy")
    epoch = replication.promote(tmp_path / "copy")
    with commitlog.open(tmp_path / "orders") as old:
        fill(old, 100, "late")
    with commitlog.open(tmp_path / "copy") as log:
        fill(log, 300, name)
    return epoch.start


def cut(tmp_path: Path, name: str = "orders") -> None:
    """Have a log follow the new primary, which is far beyond where it diverged."""
    with (
        commitlog.open(tmp_path / "copy") as log,
        replication.serve(tmp_path / "copy") as server,
        replication.follow(server.url(), tmp_path / name) as follower,
    ):
        assert follower.wait(log.flushed_position, LIMIT_S)


def read_on(tailer: commitlog.Tailer, found: Found, most: int = 1 << 30) -> Found:
    for record in itertools.islice(iter(tailer.read, None), most):
        found.append((record.position, record.timestamp_ns, bytes(record.value)))
    return found


def open_at(path: Path, stack: ExitStack, count: int, **how: Any) -> tuple[Any, Found]:
    """Open a reader that has read so many records."""
    log = stack.enter_context(commitlog.open(path, "r"))
    tailer = log.tailer(**how)
    return tailer, read_on(tailer, [], count)


# 150 common records, then 100 late ones.
@pytest.mark.parametrize("visibility", ["committed", "flushed"])
def test_open_reader_is_fenced_wherever_it_is(tmp_path: Path, fork: int, visibility: str) -> None:
    before = records(tmp_path / "orders")
    ends = {number for number in range(len(before)) if before[number][0] % SEGMENT == 4096}
    with ExitStack() as stack:
        readers = [
            open_at(tmp_path / "orders", stack, count, visibility=visibility)
            for count in sorted({0, 1, 149, 150, 151, 200, 249, 250, *ends})
        ]
        cut(tmp_path)
        for tailer, found in readers:
            with pytest.raises(FencedError, match="open the log again") as caught:
                read_on(tailer, found)
            assert caught.value.position == fork
            assert found == before[: len(found)]
            for again in (tailer.read, lambda tailer=tailer: tailer.seek("end")):
                with pytest.raises(FencedError):
                    again()
    assert records(tmp_path / "orders") == records(tmp_path / "copy")


def test_reader_from_before_the_first_writer_is_fenced(tmp_path: Path, fork: int) -> None:
    before = records(tmp_path / "orders")
    (tmp_path / "orders" / "cursors").unlink()  # as after a start of the machine
    with ExitStack() as stack:
        readers = [open_at(tmp_path / "orders", stack, count) for count in (0, 150, 200, 250)]
        cut(tmp_path)
        for tailer, found in readers:
            with pytest.raises(FencedError, match="open the log again"):
                read_on(tailer, found)
            assert found == before[: len(found)]


def test_handle_of_before_a_cut_shows_no_watermarks(tmp_path: Path, fork: int) -> None:
    with commitlog.open(tmp_path / "orders", "r") as log, log.tailer() as tailer:
        record = tailer.read()
        assert record is not None
        cut(tmp_path)
        for ask in (
            lambda: log.committed_position,
            lambda: log.flushed_position,
            lambda: log.tail_position,
            log.stats,
            lambda: log.tailer(start="end"),
            log.to_arrow,
            lambda: list(tailer.follow(timeout=LIMIT_S)),
            lambda: asyncio.run(_follow(log)),
        ):
            with pytest.raises(FencedError):
                ask()


async def _follow(log: commitlog.CommitLog) -> None:
    async for _ in log.tailer().follow(timeout=LIMIT_S):
        pass


def test_views_of_a_cut_log_keep_their_bytes(tmp_path: Path, fork: int) -> None:
    with commitlog.open(tmp_path / "orders", "r") as log:
        views = [(record.view(), bytes(record.value)) for record in log.tailer()]
        cut(tmp_path)
        assert all(bytes(view) == value for view, value in views)
        views.clear()


def start_tail(path: Path, name: str) -> subprocess.Popen[str]:
    return start_code(_TAIL, path, name, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("name", ["", "billing"])
def test_tailer_of_another_process_ends_at_a_cut(tmp_path: Path, fork: int, name: str) -> None:
    before = records(tmp_path / "orders")
    with start_tail(tmp_path / "orders", name) as reading:
        lines = [reading.stdout.readline() for _ in before]
        cut(tmp_path)
        assert [int(line.split()[0]) for line in lines] == [each[0] for each in before]
        assert reading.stdout.read().split() == ["fenced", str(fork)]


@pytest.mark.parametrize("ends", ["at its error", "after the cut", "before"])
def test_named_tailer_goes_on_where_the_log_was_cut(tmp_path: Path, fork: int, ends: str) -> None:
    path = tmp_path / "orders"
    with start_tail(path, "billing") as reading:
        for _ in records(path):
            reading.stdout.readline()
        if ends == "before":
            reading.kill()
            reading.wait(LIMIT_S)
        if ends == "after the cut":
            os.kill(reading.pid, signal.SIGSTOP)
        cut(tmp_path)
        if ends == "after the cut":
            reading.kill()
    with commitlog.open(path, "r") as log, log.tailer("billing") as tailer:
        assert read_on(tailer, []) == [each for each in records(path) if each[0] >= fork]


def test_replicated_reader_sees_nothing_of_a_fork(tmp_path: Path) -> None:
    rule = replication.Replication(require=1, timeout=0.1)
    with ExitStack() as stack:
        with commitlog.open(tmp_path / "orders", segment_size=SEGMENT, replicate=rule) as log:
            with replication.follow(rule.server.url("orders"), tmp_path / "copy") as follower:
                fill(log, 50)
                assert follower.wait(log.flushed_position, LIMIT_S)
            tailer, found = open_at(tmp_path / "orders", stack, 1 << 30, visibility="replicated")
            with pytest.raises(SyncTimeoutError):
                fill(log, 50, "late")
        replication.promote(tmp_path / "copy", others=[], force=("promises", "copies"))
        with commitlog.open(tmp_path / "copy") as log:
            fill(log, 100, "new")
        cut(tmp_path)
        with pytest.raises(FencedError):
            read_on(tailer, found)
    assert found == records(tmp_path / "copy")[:50]


def test_cut_that_is_killed_at_any_step_shows_no_mixture(tmp_path: Path, fork: int) -> None:
    before, whole = records(tmp_path / "orders"), records(tmp_path / "copy")
    with replication.serve(tmp_path / "copy") as server:
        for step in itertools.count(1):
            path = tmp_path / str(step)
            copy_log(tmp_path / "orders", path)
            with ExitStack() as stack:
                readers = [open_at(path, stack, count) for count in (0, 150, 200, 250)]
                killed = killed_process(step, "follow", path, server.url())
                between = open_at(path, stack, 1 << 30)
                named = stack.enter_context(commitlog.open(path, "r")).tailer("billing")
                seen = read_on(named, [])
                cut(tmp_path, str(step))
                for tailer, found in (*readers, between):
                    with contextlib.suppress(FencedError):
                        read_on(tailer, found)
                    assert found in (before[: len(found)], whole[: len(found)]), step
                assert verify(path).sound
                assert records(path) == whole
            with commitlog.open(path, "r") as log, log.tailer("billing") as again:
                kept = [each for each in seen if each in whole]
                assert read_on(again, kept) == whole, step
            if not killed:
                break
    assert step > 10


def test_remote_tailer_of_a_cut_log_loses_no_record(tmp_path: Path) -> None:
    fork = make_fork(tmp_path, "next")  # which begin where the late ones do
    with ExitStack() as stack:
        with replication.serve(tmp_path / "orders") as source:
            port = source.port
            middle = replication.follow(source.url(), tmp_path / "middle", listen="127.0.0.1:0")
            stack.callback(middle.close)
            with commitlog.open(tmp_path / "orders", "r") as log:
                assert middle.wait(log.committed_position, LIMIT_S)
        assert middle.server is not None
        url = middle.server.url()
        reader = stack.enter_context(commitlog.open(url, "r"))
        with reader.tailer("billing") as tailer:
            assert len(read_on(tailer, [])) == 250
        tailer = reader.tailer("billing")
        (tmp_path / "orders").rename(tmp_path / "old")
        (tmp_path / "copy").rename(tmp_path / "orders")
        stack.enter_context(replication.serve(tmp_path / "orders", listen=f"127.0.0.1:{port}"))
        whole = records(tmp_path / "orders")
        with commitlog.open(tmp_path / "orders", "r") as log:
            assert middle.wait(log.committed_position, LIMIT_S)
        tailer.close()  # which must not take its place of before to the other records
        with commitlog.open(url, "r") as log, log.tailer("billing") as again:
            assert read_on(again, []) == [each for each in whole if each[0] >= fork]


@pytest.mark.parametrize("served", ["by its follower", "alone"])
def test_server_of_a_copy_goes_on_after_a_cut(tmp_path: Path, fork: int, served: str) -> None:
    listen = "127.0.0.1:0" if served == "by its follower" else None
    with ExitStack() as stack:
        with replication.serve(tmp_path / "orders") as source:
            port, middle = (
                source.port,
                replication.follow(source.url(), tmp_path / "middle", listen=listen),
            )
            stack.callback(middle.close)
            with commitlog.open(tmp_path / "orders", "r") as log:
                assert middle.wait(log.committed_position, LIMIT_S)
            server = middle.server or stack.enter_context(replication.serve(tmp_path / "middle"))
            if listen:  # a copy of the copy is there all the time
                last = stack.enter_context(replication.follow(server.url(), tmp_path / "last"))
                assert last.wait(middle.position, LIMIT_S)
        (tmp_path / "orders").rename(tmp_path / "old")
        (tmp_path / "copy").rename(tmp_path / "orders")
        stack.enter_context(replication.serve(tmp_path / "orders", listen=f"127.0.0.1:{port}"))
        with commitlog.open(tmp_path / "orders", "r") as log:
            end = log.committed_position
        assert middle.wait(end, LIMIT_S)
        if not listen:
            last = stack.enter_context(replication.follow(server.url(), tmp_path / "last"))
        assert last.wait(end, LIMIT_S)
    whole = records(tmp_path / "orders")
    assert records(tmp_path / "middle") == records(tmp_path / "last") == whole
    assert list((tmp_path / "middle").glob("*.fork"))
