"""A store on S3: one connection, uploads in parts, missing rights, and no conditional put."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import Store
from commitlog.errors import InvalidOptionError, IOFailureError
from commitlog.keep import archive_segments, restore
from commitlog.log.parts import parts_of
from commitlog.repair.verification import verify
from commitlog.replication import promote
from commitlog.stores import object_target
from commitlog.stores.store_session import sessions_in
from commitlog.stores.target import LocalTarget, target_of
from tests.setups import Logs, values
from tests.stores.s3_server import S3Server, served_bucket
from tests.stores.test_store import SOON, is_stored, service_of, stored_of

pytest.importorskip("obstore.store")
pytest.importorskip("zstandard")
ADDRESS = "s3://bucket/orders"
Until = Callable[..., None]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setattr(object_target, "_TRIES_MOST", 2)
    monkeypatch.setattr(object_target, "_PAUSE_S", 0.01)
    with served_bucket(monkeypatch) as server:
        yield server


# --- one client -----------------------------------------------------------------------------------


def test_rounds_of_an_idle_log_use_one_connection(s3: S3Server, logs: Logs, until: Until) -> None:
    log = logs.open(store=Store(ADDRESS, every=SOON))
    log.append(b"one")
    until(lambda: is_stored(log))
    connections, requests = s3.connections, len(s3.requests)
    until(lambda: len(s3.requests) >= requests + 30)
    assert s3.connections == connections
    assert stored_of(log).requests >= 30


def test_figures_follow_the_store(s3: S3Server, logs: Logs, until: Until) -> None:
    log = logs.open(store=Store(ADDRESS, every=SOON))
    log.append(b"one")
    until(lambda: is_stored(log))
    until(lambda: (stored_of(log).last_error, stored_of(log).lag_ms) == (None, 0.0))
    assert service_of(log).stored() is not None
    assert (stored_of(log).position, stored_of(log).lag_bytes) == (log.tail_position, 0)
    s3.fault = lambda method, key: "500"
    log.append(b"two")
    until(lambda: stored_of(log).last_error is not None)
    assert stored_of(log).failed_rounds > 0
    assert stored_of(log).lag_bytes > 0
    assert stored_of(log).lag_ms > 0.0
    s3.heal()
    until(lambda: (stored_of(log).last_error, stored_of(log).lag_bytes) == (None, 0))


# --- uploads in parts -----------------------------------------------------------------------------


def large_segment(logs: Logs, size: int = 32 << 20) -> tuple[list[bytes], commitlog.CommitLog]:
    log = logs.open(segment_size=size)
    everything = [random.randbytes(1 << 20) for _ in range((size >> 20) + 8)]
    log.append_many(everything)
    log.close()
    return everything, log


@pytest.mark.parametrize("address", [ADDRESS, "gs://bucket/orders", "az://bucket/orders"])
def test_large_segment_is_stored_in_parts(s3: S3Server, logs: Logs, address: str) -> None:
    everything, log = large_segment(logs, 16 << 20)
    logs.open(segment_size=16 << 20, store=Store(address)).close()
    assert max(s3.received) < 12 << 20
    name = f"orders/{0:020d}.seg.zst"
    assert name in s3.objects
    assert not s3.parts
    assert not [key for key in s3.objects if key.endswith(".tmp")]
    with commitlog.open(address, "r") as copy:
        assert values(copy) == everything
    assert verify(address).sound
    # A second put finds the same one.
    assert not target_of(address).put(
        f"{0:020d}.seg.zst", lambda file: file.write(random.randbytes(9 << 20)), replace=False
    )
    assert not [key for key in s3.objects if key.endswith(".tmp")]
    with commitlog.open(log.path, store=Store(address)) as again:
        again.append(b"on")


def test_parts_that_are_uploaded_are_not_sent_again(s3: S3Server, logs: Logs) -> None:
    everything, _ = large_segment(logs)
    failures = iter(range(7))

    def failing(method: str, key: str) -> str | None:
        """Fail more often than any other request may, in the midst of the upload."""
        of_upload = method == "PUT" and key.endswith(".tmp")
        sent = sum(size > 1 << 20 for size in s3.received)
        return "500" if of_upload and sent > 3 and next(failures, None) is not None else None

    s3.fault = failing
    log = logs.open(segment_size=32 << 20, store=Store(ADDRESS))
    log.close()
    large = sum(size for size in s3.received if size > 1 << 20)
    assert next(failures, None) is None
    assert large < (31 + 9 + 7 * 5 + 2) << 20
    s3.heal()
    with commitlog.open(ADDRESS, "r") as copy:
        assert values(copy) == everything


def test_upload_without_a_conditional_copy_is_one_request(
    s3: S3Server, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obstore.store import S3Store

    everything, _ = large_segment(logs)
    plain = S3Store("bucket", prefix="orders", endpoint=s3.url, client_options={"allow_http": True})
    log = logs.open(segment_size=32 << 20, store=Store("orders", filesystem=plain))
    log.close()
    assert f"orders/{0:020d}.seg.zst" in s3.objects
    with commitlog.open(ADDRESS, "r") as copy:
        assert values(copy) == everything


def test_what_a_killed_upload_left_is_deleted(s3: S3Server, logs: Logs) -> None:
    s3.objects["orders/.00000000000000000000.seg.zst.0123456789abcdef.tmp"] = b"x"
    log = logs.open(store=Store(ADDRESS))
    log.append(b"one")
    log.close()
    assert not [key for key in s3.objects if key.endswith((".tmp", ".rights"))]


# --- rights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "refused"),
    [
        ("s3:ListBucket", lambda method, key: method == "GET" and key == ""),
        ("s3:GetObject", lambda method, key: method == "GET" and key != ""),
        ("s3:PutObject", lambda method, key: method == "PUT"),
    ],
)
def test_missing_right_is_named_when_the_log_is_opened(
    s3: S3Server, logs: Logs, until: Until, right: str, refused: Callable[[str, str], bool]
) -> None:
    s3.fault = lambda method, key: "403" if refused(method, key) else None
    log = logs.open(store=Store(ADDRESS, every=SOON))
    log.append(b"one")
    until(lambda: right in str(stored_of(log).last_error))
    s3.heal()
    until(lambda: is_stored(log))
    with commitlog.open(ADDRESS, "r") as copy:
        assert values(copy) == [b"one"]


def test_store_goes_on_without_the_right_to_delete(
    s3: S3Server, logs: Logs, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    """As with object lock, too, and with a policy of a bucket that denies deletions."""
    deleting = ("DELETE", "POST")
    s3.fault = lambda method, key: "403" if method in deleting else None
    log = logs.open(store=Store(ADDRESS, every=SOON))
    everything = []
    for number in range(40):
        everything.append(b"%d" % number * 100)
        log.append(everything[-1])
        until(lambda: is_stored(log))
    log.roll()
    log.append(b"last")
    until(lambda: is_stored(log))
    assert caplog.text.count("lack the right to delete objects (s3:DeleteObject)") == 1
    log.close()
    with commitlog.open(ADDRESS, "r") as copy:
        assert values(copy) == [*everything, b"last"]
    assert verify(ADDRESS).sound
    s3.heal()
    logs.open(store=Store(ADDRESS)).close()
    assert sum(key.endswith(".tail.zst") for key in s3.objects) <= 2


# --- stores without conditional put ---------------------------------------------------------------


def test_store_that_ignores_conditions_is_refused(
    s3: S3Server, logs: Logs, until: Until, tmp_path: Path
) -> None:
    s3.knows_conditions = False
    logs.open(store=Store(ADDRESS)).close()
    before = dict(s3.objects)
    log = logs.open(store=Store(ADDRESS, every=SOON))
    until(lambda: service_of(log).error is not None)
    assert "has no conditional put" in str(service_of(log).error)
    log.close()
    restore_place = tmp_path / "again"
    with pytest.raises(InvalidOptionError, match="has no conditional put"):
        promote(log.path, store=Store(ADDRESS))
    assert s3.objects == before
    log = logs.open(store=Store(ADDRESS, every=SOON, single_writer=True))
    log.append(b"one")
    log.close()
    restore(ADDRESS, restore_place)
    with commitlog.open(restore_place, "r") as again:
        assert values(again) == [b"one"]


def test_target_without_conditional_put_is_refused(logs: Logs, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    place = {"target": str(tmp_path / "store"), "filesystem": fsspec.filesystem("file")}
    with pytest.raises(InvalidOptionError, match="no conditional put"):
        logs.open(store=Store(**place))
    log = logs.open(store=Store(**place, single_writer=True))
    log.append(b"one")
    log.close()
    with pytest.raises(InvalidOptionError, match="no conditional put"):
        promote(log.path, store=Store(**place))
    assert promote(log.path, store=Store(**place, single_writer=True)).number == 1
    logs.open(store=Store(**place, single_writer=True)).close()
    assert len(sessions_in(target_of(tmp_path / "store").names())) == 3
    assert archive_segments(log.path, Store(**place)).complete is not None
    with pytest.raises(InvalidOptionError, match="single_writer must be"):
        Store(tmp_path, single_writer=1)  # type: ignore[arg-type]


def test_file_system_that_raises_its_own_errors_is_tried_again(
    logs: Logs, tmp_path: Path, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    class SlowDownError(Exception):
        """As those of s3fs and gcsfs, which are no `OSError`."""

    fsspec = pytest.importorskip("fsspec")
    failures = [SlowDownError("503 slow down")] * 3

    class Busy(fsspec.get_filesystem_class("file")):  # type: ignore[misc]
        def info(self, path: object, **given: object) -> object:
            if failures and str(path).endswith(".tail.zst"):
                raise failures.pop()
            return super().info(path, **given)

    place = Store(
        str(tmp_path / "store"), filesystem=Busy(auto_mkdir=True), every=SOON, single_writer=True
    )
    log = logs.open(store=place)
    log.append(b"one")
    until(lambda: is_stored(log))
    assert stored_of(log).failed_rounds == 3
    assert "is stored as soon as it can be: the archive cannot be written: 503" in caplog.text
    log.close()
    restore(tmp_path / "store", tmp_path / "again")
    with commitlog.open(tmp_path / "again", "r") as again:
        assert values(again) == [b"one"]


# --- addresses and sizes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/or#ders",
        "s3://bucket/orders?x=1",
        "gs://bucket/a#b",
        "az://bucket/a?b",
        "file:///tmp/or#ders",
        "file:///tmp/or?ders",
        "memory://bucket/a#b",
    ],
)
def test_address_that_would_be_cut_short_is_refused(address: str) -> None:
    with pytest.raises(InvalidOptionError, match="what follows is dropped"):
        Store(address)


def test_address_with_escaped_signs_is_its_own_place(s3: S3Server, logs: Logs) -> None:
    for name, address in (("one", "s3://bucket/or%23ders"), ("two", "s3://bucket/or")):
        log = logs.open(name, store=Store(address))
        log.append(name.encode())
        log.close()
        with commitlog.open(address, "r") as copy:
            assert values(copy) == [name.encode()]


def test_path_with_such_signs_is_a_directory(logs: Logs, tmp_path: Path) -> None:
    log = logs.open(store=Store(tmp_path / "or#d?rs"))
    log.append(b"one")
    log.close()
    with commitlog.open(tmp_path / "or#d?rs", "r") as copy:
        assert values(copy) == [b"one"]


def test_segment_that_is_cut_short_in_the_store_is_not_deleted(
    logs: Logs, tmp_path: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = LocalTarget.put

    def cut(self: LocalTarget, name: str, *given: Any, **named: Any) -> bool:
        placed = put(self, name, *given, **named)
        if name.endswith(".seg.zst"):
            path = Path(self.path_of(name))
            path.write_bytes(path.read_bytes()[:-1])
        return placed

    monkeypatch.setattr(LocalTarget, "put", cut)
    log = logs.open(store=Store(tmp_path / "store", every=SOON))
    for number in range(3):
        log.append(b"%d" % number)
        log.roll()
    log.flush()
    until(lambda: stored_of(log).last_error is not None)
    assert service_of(log).kept_position == 0
    assert parts_of(log).directory.segment_numbers()[0] == 0
    with pytest.raises(IOFailureError, match="bytes of an object of"):
        archive_segments(log.path, Store(tmp_path / "archive"), keep=True)
