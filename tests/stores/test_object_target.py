"""Object stores: obstore's own, and S3 with failed, lost, torn and refused requests."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import commitlog
from commitlog import Store
from commitlog.errors import CommitLogError, InvalidOptionError, IOFailureError
from commitlog.keep import archive_segments, open_segment_bytes, read_identity, restore
from commitlog.log.parts import parts_of
from commitlog.repair.verification import verify
from commitlog.stores import object_target
from commitlog.stores.archived import read_header
from commitlog.stores.target import Target, target_of
from tests.setups import HEADER, Logs, values
from tests.stores.s3_server import S3Server, served_bucket

stores = pytest.importorskip("obstore.store")
pytest.importorskip("zstandard")
ADDRESS = "s3://bucket/orders"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setattr(object_target, "_TRIES_MOST", 3)
    monkeypatch.setattr(object_target, "_PAUSE_S", 0.01)
    with served_bucket(monkeypatch) as server:
        yield server


def _local(folder: Path) -> Target:
    return target_of(folder)


def _obstore_local(folder: Path) -> Target:
    folder.mkdir()
    return target_of("local", stores.LocalStore(str(folder)))


def _memory(folder: Path) -> Target:
    return target_of("memory", stores.MemoryStore())


def _fsspec(folder: Path) -> Target:
    return target_of(str(folder), pytest.importorskip("fsspec").filesystem("file"))


@pytest.mark.parametrize("opened", [_local, _obstore_local, _memory, _fsspec])
def test_put_without_replace_keeps_the_object(
    tmp_path: Path, opened: Callable[[Path], Target]
) -> None:
    target = opened(tmp_path / "place")

    def content(data: bytes) -> Callable[[BinaryIO], object]:
        return lambda file: file.write(data)

    assert target.put("one", content(b"first"), replace=False)
    assert not target.put("one", content(b"second"), replace=False)
    with target.open("one") as file:
        assert file.read() == b"first"
    assert target.put("one", content(b"third"))
    with target.open("one") as file:
        assert file.read() == b"third"
    assert target.sizes() == {"one": 5}
    target.delete(["one", "none"])
    assert target.names() == []
    with pytest.raises(FileNotFoundError):
        target.open("one")


@pytest.mark.parametrize("address", [ADDRESS, "gs://bucket/orders", "az://bucket/orders"])
def test_log_is_stored_read_and_restored_in_a_bucket(
    s3: S3Server, logs: Logs, tmp_path: Path, address: str
) -> None:
    log = logs.open(store=Store(address))
    everything = [b"%d" % number * 300 for number in range(300)]
    log.append_many(everything)
    log.close()
    assert "orders/log.json" in s3.objects
    with commitlog.open(address, "r") as copy:
        assert values(copy) == everything
    assert verify(address).sound
    target = target_of(address)
    assert not target.put("log.json", lambda file: file.write(b"{}"), replace=False)
    target.delete([f"{1:010d}.epoch"])  # which is not there
    restore(address, tmp_path / "again")
    with commitlog.open(tmp_path / "again") as again:
        assert values(again) == everything


@pytest.mark.parametrize("fault", ["500", "drop", "lost"])
def test_faults_of_puts_lose_and_duplicate_nothing(s3: S3Server, logs: Logs, fault: str) -> None:
    """A lost answer of a conditional put is tried again, and then refused: it was this put."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    failed: list[str] = []

    def sometimes(method: str, key: str) -> str | None:
        if method != "PUT" or rng.random() < 0.5 or failed.count(key) >= 2:
            return None
        failed.append(key)
        return fault

    s3.fault = sometimes
    everything = []
    for run in range(3):
        log = logs.open(store=Store(ADDRESS))
        everything += [b"%d-%d" % (run, number) * 150 for number in range(100)]
        log.append_many(everything[-100:])
        log.close()
        assert parts_of(log).writer.store.error is None  # type: ignore[union-attr]
    s3.fault = lambda method, key: None
    assert failed
    with commitlog.open(ADDRESS, "r") as copy:
        assert values(copy) == everything
    assert verify(ADDRESS).sound


def test_torn_body_is_read_again_or_reported(s3: S3Server, logs: Logs) -> None:
    log = logs.open(store=Store(ADDRESS))
    log.append_many([b"%d" % number * 300 for number in range(300)])
    log.close()
    torn: list[str] = []

    def first_time(method: str, key: str) -> str | None:
        if method != "GET" or not key.endswith(".zst") or key in torn:
            return None
        torn.append(key)
        return "torn"

    s3.fault = first_time
    try:
        with commitlog.open(ADDRESS, "r") as copy:
            seen = values(copy)
        assert len(seen) == 300
    except IOFailureError:
        pass
    assert torn
    s3.fault = lambda method, key: "torn" if key.endswith(".zst") else None
    with pytest.raises(IOFailureError), commitlog.open(ADDRESS, "r") as copy:
        values(copy)


def test_stale_listing_is_read_up_to_its_last_object(
    s3: S3Server, logs: Logs, until: Callable[..., None]
) -> None:
    log = logs.open(store=Store(ADDRESS, every=0.01))
    log.append(b"one")
    until(lambda: any(f"-{log.tail_position:020d}-" in key for key in s3.objects))
    s3.listed = dict(s3.objects)
    log.append(b"two")
    log.close()
    with commitlog.open(ADDRESS, "r") as copy:
        assert values(copy) == [b"one"]
    # A handle that sees an old listing puts again what is there, and finds it the same.
    log = logs.open(store=Store(ADDRESS))
    log.append(b"three")
    log.close()
    s3.listed = None
    with commitlog.open(ADDRESS, "r") as copy:
        assert values(copy) == [b"one", b"two", b"three"]


@pytest.mark.parametrize("fault", ["500", "403", "drop"])
def test_store_out_of_reach_is_reported_in_one_line(
    s3: S3Server, logs: Logs, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    s3.fault = lambda method, key: fault
    log = logs.open(store=Store(ADDRESS, every=0.01))
    log.append(b"one")
    log.close()
    assert caplog.text.count("the log cannot be stored now") == 1
    assert all("\n" not in record.getMessage() for record in caplog.records)
    with pytest.raises(IOFailureError, match="cannot be read") as caught:
        commitlog.open(ADDRESS, "r")
    assert "\n" not in str(caught.value)
    assert not s3.objects


@pytest.mark.parametrize("address", ["s3://", "gs://", "az://x"])
def test_address_without_a_bucket_is_refused(address: str) -> None:
    with pytest.raises(InvalidOptionError, match="target must be an address"):
        Store(address)


@pytest.mark.parametrize(
    "address", ["s3://b/x", "s3a://b/x", "gs://b/x", "abfss://b@c.dfs.core.windows.net/x"]
)
def test_address_without_credentials_names_the_variables(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(object_target, "_TRIES_MOST", 0)
    monkeypatch.setattr(object_target, "_CONNECT_S", 0.5)
    with pytest.raises(IOFailureError, match="no credentials") as caught:
        commitlog.open(address, "r")
    assert "\n" not in str(caught.value)


def test_segment_of_a_known_position_is_read_without_a_listing(s3: S3Server, logs: Logs) -> None:
    log = logs.open(store=Store(ADDRESS), segment_size=1 << 20)
    for _ in range(40):
        log.append(random.randbytes(1 << 16))
    log.close()
    base, target = 1 << 20, target_of(ADDRESS)
    name = f"orders/{base:020d}.seg.zst"
    assert len(s3.objects[name]) > 1 << 19
    before = len(s3.requests)
    whole = open_segment_bytes(ADDRESS, base)
    assert s3.requests[before:] == [("GET", "orders/log.json"), ("GET", name)]
    s3.sent = 0
    assert read_header(target, base, read_identity(target)) == whole[:HEADER]
    assert s3.sent < 1 << 18


@pytest.mark.parametrize("fault", [None, "500", "drop"])
def test_large_segment_is_archived_in_parts(
    s3: S3Server, logs: Logs, fault: str | None, tmp_path: Path
) -> None:
    failed: list[tuple[str, str]] = []

    def first_time(method: str, key: str) -> str | None:
        if (method, key) in failed or not key.endswith(".zst"):
            return None
        failed.append((method, key))
        return fault

    s3.fault = first_time
    log = logs.open(segment_size=8 << 20)
    everything = [random.randbytes(1 << 19) for _ in range(20)]
    log.append_many(everything)
    log.close()
    done = archive_segments(log.path, Store(ADDRESS), keep=True)
    assert len(done.segments) == 1
    name = f"orders/{0:020d}.seg.zst"
    assert s3.requests.count(("PUT", name)) > 1
    assert s3.requests.count(("POST", name)) > 1
    assert not s3.parts
    with commitlog.open(ADDRESS, "r") as copy:
        assert values(copy) == everything[:15]


def test_other_log_in_s3_is_refused(s3: S3Server, logs: Logs, tmp_path: Path, caplog: Any) -> None:
    for name in ("log", "other"):
        log = logs.open(name, store=Store(ADDRESS))
        log.append(name.encode())
        log.close()
    assert "archive of another log" in caplog.text
    with commitlog.open(ADDRESS, "r") as copy:
        assert values(copy) == [b"log"]
    with pytest.raises(CommitLogError):
        restore("s3://bucket/nothing", tmp_path / "again")
