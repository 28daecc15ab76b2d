"""A log on another machine is read as one on disk: tailers, seeks, batches, its live end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import (
    ClosedError,
    ForkedError,
    InvalidOptionError,
    NotALogError,
    ReadOnlyError,
    ReplicationError,
)
from commitlog.keep import prune
from commitlog.log.parts import parts_of
from tests.network.replication.scene import LIMIT_S, SEGMENT, fill

# Importing pandas takes a second, for which a first reader would wait.
_WITHOUT_PANDAS = """
import sys
import commitlog
from commitlog import replication
with commitlog.open(sys.argv[1]) as log, replication.serve(log.path) as server:
    log.append(b"one")
    with commitlog.open(server.url(), "r") as far, far.tailer() as tailer:
        assert tailer.read(timeout=30).value == b"one"
sys.exit("pandas" in sys.modules)
"""
START_NS = 1_800_000_000 * 10**9


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[commitlog.CommitLog]:
    with commitlog.open(tmp_path / "orders", segment_size=SEGMENT) as log:
        yield log


@pytest.fixture
def server(primary: commitlog.CommitLog) -> Iterator[replication.Server]:
    with replication.serve(primary.path) as server:
        yield server


def fields(log: commitlog.CommitLog, **options: object) -> list[tuple[object, ...]]:
    with log.tailer(**options) as tailer:  # type: ignore[arg-type]
        return [
            (each.position, each.sequence, each.timestamp_ns, each.type, each.key, each.value)
            for each in iter(tailer.read, None)
        ]


def test_reader_gets_the_fields_of_each_record(
    primary: commitlog.CommitLog, server: replication.Server
) -> None:
    fill(primary, 2000)
    primary.append(b"typed", key=b"a key", type=7)
    with commitlog.open(server.url(), "r") as far:
        assert fields(far) == fields(primary)
        assert fields(far, direction="backward") == fields(primary, direction="backward")
        assert far.identity == primary.identity
        assert far.first_position == primary.first_position
        assert (far.first_sequence, far.last_sequence) == (0, 2000)


def test_seeks_land_where_they_do_on_disk(
    primary: commitlog.CommitLog, server: replication.Server
) -> None:
    positions = [
        primary.append(b"%d" % number * 400, timestamp_ns=START_NS + number)
        for number in range(1000)
    ]
    with commitlog.open(server.url(), "r") as far, far.tailer() as tailer:
        for number in (999, 500, 0, 731):
            for where in (
                {"position": positions[number]},
                {"sequence": number},
                {"timestamp": START_NS + number},
            ):
                assert tailer.seek(**where)  # type: ignore[arg-type]
                record = tailer.read()
                assert record is not None
                assert record.position == positions[number]
        assert far.count() == 1000


def test_batches_and_tables_equal_those_on_disk(
    primary: commitlog.CommitLog, server: replication.Server
) -> None:
    fill(primary, 1500)
    with (
        commitlog.open(server.url(), "r") as far,
        commitlog.open(primary.path, "r") as near,
        far.tailer() as tailer,
    ):
        assert far.to_arrow().equals(near.to_arrow())
        count = 0
        while len(batch := tailer.read_batch(100)):
            count += len(batch)
        assert count == 1500


@pytest.mark.parametrize("pooled", [False, True])
def test_reader_at_the_end_sees_records_across_rolls(tmp_path: Path, pooled: bool) -> None:
    with (
        commitlog.TransientStorePool(buffer_size=SEGMENT, buffers=3) as pool,
        commitlog.open(
            tmp_path / "orders", segment_size=SEGMENT, pool=pool if pooled else None
        ) as log,
        replication.serve(log.path) as server,
        commitlog.open(server.url(), "r") as far,
        far.tailer(start="end") as tailer,
    ):
        for number in range(300):
            log.append(b"%d" % number * 300)
            if pooled:
                log.commit()
            record = tailer.read(timeout=LIMIT_S, idle="block")
            assert record is not None
            assert record.value == b"%d" % number * 300


def test_flushed_reader_waits_for_the_flush(
    primary: commitlog.CommitLog, server: replication.Server
) -> None:
    with (
        commitlog.open(server.url(), "r") as far,
        far.tailer(visibility="flushed") as flushed,
        far.tailer() as committed,
    ):
        primary.append(b"a lamp")
        assert committed.read(timeout=LIMIT_S) is not None
        primary.flush()
        record = flushed.read(timeout=LIMIT_S)
        assert record is not None
        assert far.flushed_position >= record.position


def test_coroutines_follow_a_log_on_another_machine(
    primary: commitlog.CommitLog, server: replication.Server
) -> None:
    async def follow(far: commitlog.CommitLog) -> list[bytes]:
        seen = []
        async with asyncio.timeout(LIMIT_S):
            async for record in far.tailer().follow():
                seen.append(record.value)
                if len(seen) == 100:
                    break
                primary.append(b"%d" % len(seen) * 2000)
        return seen

    primary.append(b"first")
    with commitlog.open(server.url(), "r") as far:
        seen = asyncio.run(follow(far))
    assert seen == [b"first", *(b"%d" % number * 2000 for number in range(1, 100))]


def test_scan_keeps_the_folder_within_its_bound(
    primary: commitlog.CommitLog, server: replication.Server
) -> None:
    fill(primary, 3000)
    tuning = commitlog.Tuning(archive_cache=4 * SEGMENT)
    with commitlog.open(server.url(), "r", tuning=tuning) as far, far.tailer() as tailer:
        folder = Path(os.readlink(f"/proc/self/fd/{int(parts_of(far).directory.fd)}"))
        most = 0
        while tailer.read() is not None:
            most = max(most, len(list(folder.glob("*.seg"))))
        assert len(far.cycles()) > 10
        assert most <= 4
    assert not folder.exists()


def test_reader_of_an_empty_log_sees_its_first_record(
    primary: commitlog.CommitLog, server: replication.Server
) -> None:
    with commitlog.open(server.url(), "r") as far, far.tailer() as tailer:
        assert tailer.read() is None
        primary.append(b"a lamp")
        record = tailer.read(timeout=LIMIT_S)
        assert record is not None
        assert (record.value, record.sequence) == (b"a lamp", 0)


def test_waiting_reader_ends_when_its_log_is_closed(
    primary: commitlog.CommitLog, server: replication.Server
) -> None:
    far = commitlog.open(server.url(), "r")
    tailer = far.tailer()
    far.close()
    with pytest.raises(ClosedError):
        tailer.read(timeout=LIMIT_S)


def test_child_of_a_fork_raises_forked_error(
    primary: commitlog.CommitLog, server: replication.Server
) -> None:
    fill(primary, 500)
    with commitlog.open(server.url(), "r") as far:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                far.tailer().read()
            except ForkedError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert far.tailer().read() is not None


# --- refusals -------------------------------------------------------------------------------------


def test_log_on_another_machine_is_not_written(server: replication.Server) -> None:
    with pytest.raises(ReadOnlyError, match="another machine"):
        commitlog.open(server.url())
    with pytest.raises(NotALogError, match="another machine"):
        prune(server.url(), commitlog.Retention(max_age="1s"))


@pytest.mark.parametrize("url", ["tcp://192.0.2.1:7070/orders", "tcp://localhost", "tls://a/b"])
def test_unusable_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="TLS"):
        commitlog.open(url, "r")


def test_log_that_is_not_served_is_named(server: replication.Server) -> None:
    with pytest.raises(ReplicationError, match="no log 'trades'"):
        commitlog.open(server.url().replace("orders", "trades"), "r")


def test_token_comes_from_the_environment(
    primary: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    primary.append(b"a lamp")
    with replication.serve(primary.path, token="secret") as server:
        for token in ("wrong", None):
            monkeypatch.delenv("COMMITLOG_TOKEN", raising=False)
            if token is not None:
                monkeypatch.setenv("COMMITLOG_TOKEN", token)
            with pytest.raises(ReplicationError, match="COMMITLOG_TOKEN"):
                commitlog.open(server.url(), "r")
        monkeypatch.setenv("COMMITLOG_TOKEN", "secret")
        with commitlog.open(server.url(), "r") as far:
            assert far.tailer().read() is not None


def test_server_and_reader_import_no_pandas(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WITHOUT_PANDAS, tmp_path / "orders"]
    assert subprocess.run(command, check=False, timeout=LIMIT_S).returncode == 0


def test_remote_records_and_copies_have_their_headers(
    primary: commitlog.CommitLog, server: replication.Server, tmp_path: Path
) -> None:
    given = [{"n": b"%d" % number} if number % 2 else {} for number in range(600)]
    positions = primary.append_many([b"." * 200] * 600, headers=given)
    primary.flush()
    with commitlog.open(server.url(), "r") as far:
        assert far.tailer(start="first").read_batch(1000).headers == given
        assert far.read(int(positions[599])).headers == given[599]
        primary.append(b"later", headers={"n": b"later"})
        with far.tailer(start="end") as tailer:
            tailer.seek(position=int(positions[599]))
            tailer.read()
            record = tailer.read(timeout=LIMIT_S)
            assert record is not None
            assert record.headers == {"n": b"later"}
    with replication.follow(server.url(), tmp_path / "copy") as follower:
        assert follower.wait(primary.flushed_position, LIMIT_S)
    with commitlog.open(tmp_path / "copy", "r") as copy:
        assert copy.tailer(start="first").read_batch(600).headers == given
