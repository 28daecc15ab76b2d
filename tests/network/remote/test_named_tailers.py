"""Named tailers of readers on other machines keep their places at the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import InUseError, TailerNotFoundError, UnsupportedError
from commitlog.network.replication import tailer_leases
from commitlog.network.replication.permits import Permit
from tests.network.replication.scene import LIMIT_S, SEGMENT

COUNT = 900
_READ_AND_DIE = """
import os, signal, sys, time
import commitlog
far = commitlog.open(sys.argv[1], "r")
tailer = far.tailer("billing")
for _ in range(500):
    tailer.read()
place = tailer.position
while far.tailers()[0].position != place:
    time.sleep(0.01)
print(place, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[commitlog.CommitLog]:
    with commitlog.open(tmp_path / "orders", segment_size=SEGMENT) as log:
        log.append_many([b"%d" % number * 300 for number in range(COUNT)])
        yield log


@pytest.fixture
def server(primary: commitlog.CommitLog) -> Iterator[replication.Server]:
    with replication.serve(primary.path) as server:
        yield server


def test_named_tailer_goes_on_where_it_was_closed(
    primary: commitlog.CommitLog, server: replication.Server
) -> None:
    seen = []
    for _ in range(3):
        with commitlog.open(server.url(), "r") as far, far.tailer("billing") as tailer:
            seen += [getattr(tailer.read(), "sequence", None) for _ in range(300)]
    assert seen == list(range(COUNT))
    with primary.tailer("billing") as near:
        assert near.read() is None


def test_place_of_a_killed_reader_is_at_the_server(
    primary: commitlog.CommitLog,
    server: replication.Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = subprocess.run(
        [sys.executable, "-c", _READ_AND_DIE, server.url()],
        stdout=subprocess.PIPE,
        timeout=LIMIT_S,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    with commitlog.open(server.url(), "r") as far:
        with pytest.raises(InUseError):
            far.tailer("billing")  # its lease has not ended
        monkeypatch.setattr(tailer_leases, "LEASE_S", 0)
        with far.tailer("billing") as tailer:
            assert tailer.position == int(child.stdout)
            record = tailer.read()
            assert record is not None
            assert record.sequence == 500


def test_name_in_use_is_refused_on_both_sides(
    primary: commitlog.CommitLog, server: replication.Server
) -> None:
    with commitlog.open(server.url(), "r") as far, commitlog.open(server.url(), "r") as other:
        with far.tailer("billing"):
            for log in (other, primary):
                with pytest.raises(InUseError):
                    log.tailer("billing")
        with primary.tailer("billing"), pytest.raises(InUseError):
            far.tailer("billing")


def test_required_tailer_holds_retention_at_its_place(
    primary: commitlog.CommitLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokens").write_text("secret required:bill orders\n")
    monkeypatch.setenv("COMMITLOG_TOKEN", "secret")
    with (
        replication.serve(primary.path, tokens=tmp_path / "tokens") as server,
        commitlog.open(server.url(), "r") as far,
    ):
        with far.tailer("billing", required=True, max_lag="1GiB", durable="1s") as tailer:
            for _ in range(COUNT // 2):
                tailer.read()
        (state,) = far.tailers()
        assert (state.name, state.required, state.max_lag_bytes) == ("billing", True, 1 << 30)
        primary.flush()
        primary.delete_before(primary.tail_position)
        assert primary.first_position <= (state.position or 0)
        assert far.evict_tailer("billing")
        primary.delete_before(primary.tail_position)
        assert primary.first_position > (state.position or 0)


def test_remote_reader_moves_and_deletes_tailers(
    primary: commitlog.CommitLog, server: replication.Server
) -> None:
    with commitlog.open(server.url(), "r") as far:
        with far.tailer("billing") as tailer:
            tailer.seek("end")
            with pytest.raises(InUseError):
                far.reset_tailer("billing", "first")
        far.reset_tailer("billing", "first")
        assert [state.position for state in far.tailers()] == [primary.first_position]
        far.delete_tailer("billing")
        assert far.tailers() == primary.tailers() == []
        with pytest.raises(TailerNotFoundError):
            far.delete_tailer("billing")
        with pytest.raises(UnsupportedError, match="durable='1s'"):
            far.tailer("billing", durable=True)


def test_tailer_keeps_its_name_when_the_server_restarts(
    primary: commitlog.CommitLog,
) -> None:
    with replication.serve(primary.path) as server:
        port, url = server.port, server.url()
        far = commitlog.open(url, "r")
        tailer = far.tailer("billing")
        for _ in range(10):
            tailer.read()
    with far, replication.serve(primary.path, listen=f"127.0.0.1:{port}"):
        tailer.read()
        place = tailer.position
        tailer.close()
        assert [state.position for state in primary.tailers()] == [place]


def test_child_of_a_fork_leaves_the_place_to_its_parent(
    primary: commitlog.CommitLog, server: replication.Server
) -> None:
    with commitlog.open(server.url(), "r") as far:
        tailer = far.tailer("billing")
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        tailer.read()
        tailer.close()
        assert far.tailers()[0].position == tailer.position


def test_silent_readers_release_their_tailers(
    primary: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = tailer_leases.TailerLeases(primary)
    held.answer({"what": "open", "name": "billing", "start": primary.first_position}, Permit())
    with pytest.raises(InUseError):
        primary.tailer("billing")
    monkeypatch.setattr(tailer_leases, "LEASE_S", 0)
    held.answer({"what": "open", "name": "audit", "start": primary.first_position}, Permit())
    primary.tailer("billing").close()
    held.answer({"what": "delete", "name": "audit"}, Permit())
