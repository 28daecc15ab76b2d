"""Servers that die, stall, lose or harm what they send: a reader goes on, or says why not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import replication
from commitlog.base.polling import attempts
from commitlog.errors import FencedError, NotALogError, PositionError, ReplicationError
from commitlog.log.parts import parts_of
from commitlog.network.remote import connection, wire
from commitlog.network.remote.endpoint import Endpoint
from commitlog.network.remote.server_source import ServerSource
from commitlog.network.remote.update import UPDATE_BYTES
from commitlog.source.source_directory import SourceDirectory
from commitlog.source.tiered_directory import TieredDirectory
from tests.copies import copy_log
from tests.faults.small_disk import launcher
from tests.network.remote.server import FlippingProxy, free_port, garbage_port, serving
from tests.network.replication.scene import LIMIT_S, SEGMENT, fill

COUNT = 1500


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[commitlog.CommitLog]:
    with commitlog.open(tmp_path / "orders", segment_size=SEGMENT) as log:
        fill(log, COUNT)
        yield log


def wait_for_store(log: commitlog.CommitLog) -> None:
    """Wait until retention may delete all whole segments."""
    writer = parts_of(log).writer
    assert writer is not None
    assert writer.store is not None
    for _ in attempts(LIMIT_S, "the store"):
        if writer.store.kept_position >= log.flushed_position - SEGMENT:
            break


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", 0.5)


def read_on(tailer: commitlog.Tailer) -> None:
    """Read and wait until an error comes."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        tailer.read(timeout=0.05)
    raise AssertionError("no error came")


def test_scan_goes_on_when_the_server_is_killed_and_restarted(
    primary: commitlog.CommitLog,
) -> None:
    port = free_port()
    with serving(primary.path, port) as (child, url):
        far = commitlog.open(url, "r")
        tailer = far.tailer()
        seen = [tailer.read() for _ in range(COUNT // 3)]
        child.kill()
        child.wait()
    with serving(primary.path, port), far:
        seen += list(iter(tailer.read, None))
        assert [record.sequence for record in seen if record is not None] == list(range(COUNT))
        primary.append(b"news")
        record = tailer.read(timeout=LIMIT_S)
        assert record is not None
        assert record.value == b"news"


@pytest.mark.usefixtures("impatient")
def test_reader_without_a_server_gets_an_error_until_it_is_back(
    primary: commitlog.CommitLog,
) -> None:
    port = free_port()
    with serving(primary.path, port) as (_, url):
        far = commitlog.open(url, "r")
        tailer, at_end = far.tailer(), far.tailer(start="end")
        assert tailer.read() is not None
        assert at_end.read() is None
    with far:
        with pytest.raises(ReplicationError, match="did not answer for 0.5 s"):
            list(tailer)
        with pytest.raises(ReplicationError, match="did not answer"):
            read_on(at_end)
        with serving(primary.path, port):
            primary.append(b"news")
            deadline, record = time.monotonic() + LIMIT_S, None
            while record is None and time.monotonic() < deadline:
                with suppress(ReplicationError):
                    record = at_end.read(timeout=0.1)
            assert record is not None
            assert record.value == b"news"
            assert list(tailer)[-1] == record


@pytest.mark.usefixtures("impatient")
def test_stalled_server_is_an_error_and_not_a_hang(primary: commitlog.CommitLog) -> None:
    with serving(primary.path) as (child, url), commitlog.open(url, "r") as far:
        tailer = far.tailer(start="end")
        assert tailer.read() is None
        os.kill(child.pid, signal.SIGSTOP)
        with pytest.raises(ReplicationError):
            read_on(tailer)
        os.kill(child.pid, signal.SIGCONT)


def anonymous_bytes(process: int) -> int:
    """Return the memory of a process without the files that it maps."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(status.partition("RssAnon:")[2].split()[0])


def test_stalled_readers_take_bounded_memory(tmp_path: Path) -> None:
    stalled, megabyte = 8, 1 << 20
    with commitlog.open(tmp_path / "big", segment_size=16 * megabyte) as log:
        for _ in range(64):
            log.append(bytes(megabyte))
        ranges = [[number * 16 * megabyte, (number + 1) * 16 * megabyte] for number in range(4)]
    with serving(str(tmp_path / "big")) as (child, url), ExitStack() as ends:
        before = anonymous_bytes(child.pid)
        server = Endpoint(url, None, None)
        for _ in range(stalled):
            channel = ends.enter_context(server.connect())
            server.request(channel, "read", {"read": ranges})
            channel.receive(wire.TEXT_LIMIT, UPDATE_BYTES)  # and never again
        with commitlog.open(url, "r") as far:  # another one is served meanwhile
            assert sum(len(value) for value in far.tailer().values()) == 64 * megabyte
        assert anonymous_bytes(child.pid) - before < stalled * 8 * megabyte


def test_port_with_something_else_is_an_error_in_time(tmp_path: Path) -> None:
    with garbage_port() as port:
        url = f"tcp://127.0.0.1:{port}/orders"
        with pytest.raises(ReplicationError, match=url):
            commitlog.open(url, "r", wait_for_log=1)


def test_log_that_was_created_again_is_refused(primary: commitlog.CommitLog) -> None:
    with replication.serve(primary.path) as server:
        url, port = server.url(), server.port
        far = commitlog.open(url, "r")
        tailer = far.tailer(start="end")
    primary.close()
    shutil.rmtree(primary.path)
    with (
        commitlog.open(primary.path, segment_size=SEGMENT) as other,
        replication.serve(other.path, listen=f"127.0.0.1:{port}"),
        far,
        pytest.raises(NotALogError, match="another log"),
    ):
        read_on(tailer)


def test_server_that_lost_records_is_refused(primary: commitlog.CommitLog, tmp_path: Path) -> None:
    primary.close()
    older = tmp_path / "older" / "orders"
    copy_log(primary.path, older)
    with commitlog.open(primary.path) as log, replication.serve(log.path) as server:
        url, port = server.url(), server.port
        log.append(b"lost")
        far = commitlog.open(url, "r")
        tailer = far.tailer(start="end")
    with (
        replication.serve(older, listen=f"127.0.0.1:{port}"),
        far,
        pytest.raises(FencedError, match="lost"),
    ):
        read_on(tailer)


def test_reader_behind_retention_gets_the_first_position(
    primary: commitlog.CommitLog,
) -> None:
    with (
        replication.serve(primary.path) as server,
        commitlog.open(server.url(), "r", tuning=commitlog.Tuning(archive_cache=0)) as far,
        far.tailer() as tailer,
    ):
        assert tailer.read() is not None
        primary.delete_before(primary.flushed_position)
        for _ in attempts(LIMIT_S, "the reader hears of it"):
            if far.first_position == primary.first_position:
                break
        with pytest.raises(PositionError) as raised:
            list(tailer)
        assert raised.value.first_position == primary.first_position // SEGMENT * SEGMENT
        tailer.seek("first")
        record = tailer.read()
        assert record is not None
        assert record.position == primary.first_position


def delete_before_reads(
    far: commitlog.CommitLog, primary: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delete the primary's oldest segments when the reader has decided to ask for some."""
    source = server_source(far)
    ask = source.connection.read

    def read(*arguments: Any) -> None:
        primary.delete_before(primary.flushed_position - SEGMENT)
        ask(*arguments)

    monkeypatch.setattr(source.connection, "read", read)


def server_source(far: commitlog.CommitLog) -> ServerSource:
    """Return the source of a log on another machine, which its directory or that below it has."""
    directory = parts_of(far).directory
    first = directory._first if isinstance(directory, TieredDirectory) else directory
    assert isinstance(first, SourceDirectory)
    assert isinstance(first.source, ServerSource)
    return first.source


def test_deletion_between_look_and_read_names_first_position(
    primary: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        replication.serve(primary.path) as server,
        commitlog.open(server.url(), "r", tuning=commitlog.Tuning(archive_cache=0)) as far,
    ):
        delete_before_reads(far, primary, monkeypatch)
        with pytest.raises(PositionError) as raised:
            far.tailer().read()
        assert raised.value.first_position == primary.first_position // SEGMENT * SEGMENT > 0
        assert far.first_position == primary.first_position


def test_deletion_between_look_and_read_passes_to_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("zstandard")
    store = commitlog.Store(tmp_path / "store", every="10ms")
    with commitlog.open(tmp_path / "orders", segment_size=SEGMENT, store=store) as primary:
        fill(primary, COUNT)
        wait_for_store(primary)
        with (
            replication.serve(primary.path) as server,
            commitlog.open(server.url(), "r", store=store) as far,
        ):
            delete_before_reads(far, primary, monkeypatch)
            tailer = far.tailer()
            found = [record.sequence for record in iter(tailer.read, None)]
            assert primary.first_sequence > 0
            assert found == list(range(COUNT))


@pytest.mark.parametrize("seed", range(2))
def test_flipped_bits_on_the_wire_reach_no_reader(primary: commitlog.CommitLog, seed: int) -> None:
    with replication.serve(primary.path) as server:
        proxy = FlippingProxy(server.port, 8, seed)
        url = f"tcp://127.0.0.1:{proxy.port}/orders"
        with commitlog.open(url, "r") as far, primary.tailer() as near:
            assert list(far.tailer()) == list(near)
            assert proxy.left == 0
        proxy.close()


_READ_ALL = """
import sys
import commitlog
with commitlog.open(sys.argv[1], "r") as far:
    print(sum(1 for _ in far.tailer()))
"""


def test_full_temporary_folder_is_an_error(primary: commitlog.CommitLog, tmp_path: Path) -> None:
    command = launcher()
    if command is None:
        pytest.skip("needs a mount namespace")
    script = 'mount -t tmpfs -o size=320k none "$1" && TMPDIR="$1" exec "${@:2}"'
    folder = tmp_path / "small"
    folder.mkdir()
    with replication.serve(primary.path) as server:
        done = subprocess.run(
            [*command, "bash", "-c", script, "-", folder, sys.executable, "-c", _READ_ALL,
             server.url()],
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "IOFailureError" in done.stderr
    assert "TMPDIR" in done.stderr
