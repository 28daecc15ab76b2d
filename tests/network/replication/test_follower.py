"""A follower copies a log byte for byte, live, and goes on after any interruption."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import (
    FencedError,
    InvalidOptionError,
    LogLockedError,
    NotALogError,
    ReplicationError,
)
from commitlog.network.replication import follower as follower_module
from commitlog.network.replication import primary as primary_module
from commitlog.network.replication.promise import Asked
from commitlog.network.replication.sender import Sender
from commitlog.network.replication.served import Served
from commitlog.network.replication.wire import Chunk
from commitlog.recovery.lineage import Rank
from tests.forks import forked_child
from tests.host import start_code
from tests.network.replication.scene import LIMIT_S, SEGMENT, check_same, fill, records

_FOLLOW = """
import sys
from commitlog import replication
from commitlog.base import failpoint
import os, signal
steps = int(sys.argv[3])
def passed(name):
    global steps
    steps -= 1
    if steps == 0:
        os.kill(os.getpid(), signal.SIGKILL)
failpoint.hook = passed
with replication.follow(sys.argv[1], sys.argv[2]) as follower:
    follower.wait(int(sys.argv[4]), 30)
"""


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[commitlog.CommitLog]:
    with commitlog.open(tmp_path / "orders", segment_size=SEGMENT) as log:
        yield log


def test_copy_has_the_bytes_of_its_primary(primary: commitlog.CommitLog, tmp_path: Path) -> None:
    fill(primary, 1000)
    copy = tmp_path / "copy"
    with replication.serve(primary.path) as server:
        with replication.follow(server.url(), copy) as follower:
            assert follower.wait(primary.flushed_position, LIMIT_S)
            assert follower.lag_bytes == 0
        check_same(Path(primary.path), copy, primary.flushed_position)
        assert records(copy) == records(Path(primary.path))


def test_reader_of_a_copy_sees_live_records(primary: commitlog.CommitLog, tmp_path: Path) -> None:
    with (
        replication.serve(primary.path) as server,
        replication.follow(server.url(), tmp_path / "copy"),
        commitlog.open(tmp_path / "copy", "r") as copy,
        copy.tailer() as tailer,
    ):
        for number in range(200):  # across several segments
            value = str(number).encode() * 1000
            primary.append(value, sync=True)
            record = tailer.read(timeout=LIMIT_S)
            assert record is not None
            assert bytes(record.value) == value


@pytest.mark.parametrize("call", ["describe", "acknowledge"])
def test_close_does_not_wait_for_an_answer(
    primary: commitlog.CommitLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., None],
    call: str,
) -> None:
    """In a partition, a call takes its whole time."""
    asks, released = threading.Event(), threading.Event()
    answer = Served.answer

    def silent(served: Served, action: str, *rest: Any) -> dict[str, Any]:
        if action == call:
            asks.set()
            released.wait(10 * LIMIT_S)
        return answer(served, action, *rest)

    with replication.serve(primary.path) as server:
        follower = replication.follow(server.url(), tmp_path / "copy")
        primary.append(b"x", sync=True)
        assert follower.wait(primary.flushed_position, LIMIT_S)  # the stream runs
        monkeypatch.setattr(Served, "answer", silent)
        monkeypatch.setattr(follower_module, "_DESCRIBED_S", 10 * LIMIT_S)
        monkeypatch.setattr(primary_module, "SILENCE_S", 10 * LIMIT_S)
        if call == "acknowledge":  # a copy that has promised an epoch tells it to the old primary
            follower._promise(Asked(Rank(1, "a" * 32)))
            follower._promise(Asked(Rank(1, "a" * 32), state="begun"))

        def is_asked() -> bool:
            if call == "describe":  # it connects again; perhaps it just begins a stream
                follower._cancel()
            assert follower.error is None
            return asks.wait(0.1)

        try:
            until(is_asked, LIMIT_S)
            began_s = time.monotonic()
            follower.close()
            assert time.monotonic() - began_s < LIMIT_S
        finally:
            released.set()


def test_follower_that_returns_goes_on_where_it_stopped(
    primary: commitlog.CommitLog, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    with replication.serve(primary.path) as server:
        for turn in range(3):
            fill(primary, 150, f"turn {turn}")
            with replication.follow(server.url(), copy) as follower:
                assert follower.wait(primary.flushed_position, LIMIT_S)
    assert not list(copy.glob("*.cut"))
    check_same(Path(primary.path), copy, primary.flushed_position)


def test_follower_reconnects_to_a_server_that_returns(
    primary: commitlog.CommitLog, tmp_path: Path
) -> None:
    with replication.serve(primary.path) as server:
        port = server.port
        follower = replication.follow(server.url(), tmp_path / "copy")
    with follower:
        fill(primary, 100)
        with replication.serve(primary.path, listen=f"127.0.0.1:{port}"):
            assert follower.wait(primary.flushed_position, LIMIT_S)


def test_follower_killed_at_each_step_goes_on(primary: commitlog.CommitLog, tmp_path: Path) -> None:
    fill(primary, 60)
    end = primary.flushed_position
    with replication.serve(primary.path) as server:
        for step in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12):
            copy = tmp_path / f"copy-{step}"
            child = start_code(
                _FOLLOW, server.url(), copy, step, end, imports=("commitlog.replication",)
            )
            assert child.wait(LIMIT_S) in (0, -signal.SIGKILL)
            with replication.follow(server.url(), copy) as follower:
                assert follower.wait(end, LIMIT_S)
            check_same(Path(primary.path), copy, end)


def test_copy_of_a_copy_has_the_same_records(primary: commitlog.CommitLog, tmp_path: Path) -> None:
    with (
        replication.serve(primary.path) as first,
        replication.follow(first.url(), tmp_path / "near"),
        replication.serve(tmp_path / "near") as second,
        replication.follow(second.url(), tmp_path / "far") as far,
    ):
        fill(primary, 300)
        assert far.wait(primary.flushed_position, LIMIT_S)
    assert records(tmp_path / "far") == records(Path(primary.path))


def test_pooled_primary_is_copied(tmp_path: Path) -> None:
    pool = commitlog.TransientStorePool(buffers=3, buffer_size=SEGMENT)
    with pool, commitlog.open(tmp_path / "orders", pool=pool) as log:
        with (
            replication.serve(tmp_path / "orders") as server,
            replication.follow(server.url(), tmp_path / "copy") as follower,
        ):
            fill(log, 300)
            assert follower.wait(log.flushed_position, LIMIT_S)
        check_same(tmp_path / "orders", tmp_path / "copy", log.flushed_position)


def test_copy_cannot_be_opened_for_writing(primary: commitlog.CommitLog, tmp_path: Path) -> None:
    with replication.serve(primary.path) as server:
        with replication.follow(server.url(), tmp_path / "copy"):
            with pytest.raises(FencedError, match="promote"):
                commitlog.open(tmp_path / "copy")
            with pytest.raises(LogLockedError, match="a follower"):
                replication.follow(server.url(), tmp_path / "copy")
        with pytest.raises(FencedError, match="promote"):
            commitlog.open(tmp_path / "copy")


def test_wrong_token_or_log_is_refused(primary: commitlog.CommitLog, tmp_path: Path) -> None:
    with replication.serve(primary.path, token="right") as server:
        for token in (None, "wrong", "rightly"):
            with pytest.raises(ReplicationError, match="token"):
                replication.follow(server.url(), tmp_path / "copy", token=token)
        with pytest.raises(ReplicationError, match="no log"):
            replication.follow(f"{server.url()}s", tmp_path / "copy", token="right")
        assert not (tmp_path / "copy").exists()
        replication.follow(server.url(), tmp_path / "copy", token="right").close()


def test_directory_of_another_log_is_refused(primary: commitlog.CommitLog, tmp_path: Path) -> None:
    commitlog.open(tmp_path / "other").close()
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "letter").write_text("hello")
    with replication.serve(primary.path) as server:
        with pytest.raises(ReplicationError, match="another log"):
            replication.follow(server.url(), tmp_path / "other")
        with pytest.raises(NotALogError):
            replication.follow(server.url(), tmp_path / "files")
        with pytest.raises(FencedError, match="primary"):
            replication.follow(server.url(), primary.path)
    assert os.listdir(tmp_path / "files") == ["letter"]


def test_port_without_a_server_of_logs_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ReplicationError, match="not reached"):
            replication.follow(f"tcp://127.0.0.1:{port}/a", tmp_path / "copy", connect_timeout=0.3)


def test_pruned_primary_refuses_a_late_follower(
    primary: commitlog.CommitLog, tmp_path: Path
) -> None:
    fill(primary, 100)
    with replication.serve(primary.path) as server:
        with replication.follow(server.url(), tmp_path / "copy") as follower:
            assert follower.wait(primary.flushed_position, LIMIT_S)
        fill(primary, 400)
        primary.delete_before(primary.flushed_position - SEGMENT)
        with (
            replication.follow(server.url(), tmp_path / "copy") as follower,
            pytest.raises(ReplicationError, match="no longer has"),
        ):
            follower.wait(timeout=LIMIT_S)
        with replication.follow(server.url(), tmp_path / "new") as follower:
            assert follower.wait(primary.flushed_position, LIMIT_S)
    assert records(tmp_path / "new") == records(Path(primary.path))


def test_server_closes_although_a_follower_is_stopped(
    primary: commitlog.CommitLog, tmp_path: Path
) -> None:
    fill(primary, 3000)
    server = replication.serve(primary.path)
    arguments = [sys.executable, "-c", _FOLLOW, server.url(), tmp_path / "copy", "0", str(1 << 40)]
    with subprocess.Popen(arguments) as child:
        try:
            while not server.followers():  # it has written its first frames
                assert child.poll() is None
            os.kill(child.pid, signal.SIGSTOP)
            server.close()
        finally:
            os.kill(child.pid, signal.SIGKILL)


@pytest.mark.parametrize("url", ["a", "http://a:1/b", "tcp://:7/b", "tcp://a/b", "tcp://a:x/b"])
def test_wrong_url_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="HOST:PORT"):
        replication.follow(url, tmp_path / "copy")


def test_plain_text_beyond_this_machine_needs_consent(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "orders").close()
    with pytest.raises(InvalidOptionError, match="plain text"):
        replication.follow("tcp://192.0.2.1:7070/orders", tmp_path / "copy")
    with pytest.raises(InvalidOptionError, match="plain text"):
        replication.serve(tmp_path / "orders", listen="0.0.0.0:0")


def test_follower_leaves_a_silent_stream(
    primary: commitlog.CommitLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.network.remote.endpoint.SILENCE_S", 1.0)
    silent = iter([True, False, True])  # for the first segment, and for the frames

    def chunks(self: Sender) -> Iterator[Chunk]:
        if next(silent, False):
            self._served.stopping.wait(LIMIT_S)
        yield from chunks_of(self)

    chunks_of = Sender.chunks
    monkeypatch.setattr(Sender, "chunks", chunks)
    fill(primary, 10)
    with (
        replication.serve(primary.path) as server,
        replication.follow(server.url(), tmp_path / "copy") as follower,
    ):
        assert follower.wait(primary.flushed_position, LIMIT_S / 2)


_WITHOUT_EXTRAS = """
import sys
sys.modules["pyarrow"] = None
import commitlog
from commitlog import replication
with commitlog.open(sys.argv[1]) as log, replication.serve(log.path) as server:
    log.append(b"one")
    log.flush()
    with replication.follow(server.url(), sys.argv[1] + "-copy") as copy:
        assert copy.wait(log.flushed_position, 30)
    with commitlog.open(server.url(), "r") as far:
        assert list(far.tailer().values()) == [b"one"]
"""


def test_replication_and_remote_reading_need_no_extra(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", _WITHOUT_EXTRAS, str(tmp_path / "orders")]
    subprocess.run(arguments, check=True, timeout=LIMIT_S)


def test_forked_child_does_not_keep_the_port(primary: commitlog.CommitLog, tmp_path: Path) -> None:
    server = replication.serve(primary.path)
    with forked_child():
        server.close()
        replication.serve(primary.path, listen=f"127.0.0.1:{server.port}").close()


def test_running_follower_says_that_its_server_has_another_log(
    primary: commitlog.CommitLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    primary.append(b"one")
    primary.flush()
    with replication.serve(primary.path) as server:
        listen = f"127.0.0.1:{server.port}"
        follower = replication.follow(server.url(), tmp_path / "copy")
    with (
        commitlog.open(tmp_path / "other" / "orders") as other,
        replication.serve(other.path, listen=listen),
        follower,
        pytest.raises(ReplicationError, match="is another log than the one in this directory"),
    ):
        follower.wait(timeout=LIMIT_S)
    assert caplog.text.count("connecting again") == 1


def test_follower_says_that_its_server_is_lost_and_found(
    primary: commitlog.CommitLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with replication.serve(primary.path) as server:
        listen = f"127.0.0.1:{server.port}"
        follower = replication.follow(server.url(), tmp_path / "copy")
    with replication.serve(primary.path, listen=listen), follower:
        primary.append(b"one")
        assert follower.wait(primary.flush(), LIMIT_S)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text.partition(": ")[2][-16:] for text in said] == [
        "connecting again",
        "connected again",
    ]
