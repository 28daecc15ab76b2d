"""Sealed topics in copies: a reader with the key reads them, and no data key is used twice."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import commitlog
from commitlog import CommitLog, Store, replication
from commitlog.errors import KeyUnavailableError, UndecodableError
from commitlog.options import Options
from commitlog.stage.joining import join
from commitlog.topics.data_key import ID_BYTES, id_of
from commitlog.topics.key_ring import unwrapped_by
from tests.copies import copy_log
from tests.stage.making import stage
from tests.stores.test_tiered import drop_stored
from tests.topics.orders import Order
from tests.topics.sealed import RING, data_keys, messages, orders_of

pytest.importorskip("cryptography")
pytest.importorskip("zstandard")
SEGMENT = 64 << 10
COUNT = 2000
LIMIT_S = 30.0
Made = Callable[[CommitLog, Path], None]


def orders_in(log: CommitLog, first: int, count: int) -> None:
    """Append messages that are compressed with a dictionary, which is sealed, and are sealed; half
    of them have sealed record keys.
    """
    orders = commitlog.topic(log, Order, compress="zstd", keys=RING, seal_keys=True)
    written = [
        Order(number, hashlib.blake2b(b"%d" % number).hexdigest())
        for number in range(first, first + count)
    ]
    for order in written[: count // 2]:
        orders.append(order, key=b"%d" % order.id)
    orders.append_many(written[count // 2 :])
    log.flush()


def ids(log: CommitLog) -> list[int]:
    tailer = orders_of(log).tailer()
    found = []
    for order in tailer:
        assert tailer.key in (None, b"%d" % order.id)
        found.append(order.id)
    return found


def sealing(path: Path, first: int) -> set[bytes]:
    """Unwrap the data keys of the messages from the one with a number on."""
    with commitlog.open(path, "r") as log:
        used = {record.value[:ID_BYTES] for record in messages(log)[first:]}
        contents = [record.value for record in data_keys(log) if id_of(record.value) in used]
    wrapped = [json.loads(content) for content in contents]
    found = {
        unwrapped_by(RING, each["key_id"], base64.b64decode(each["wrapped"])) for each in wrapped
    }
    assert len(found) == len(used)
    return found


# --- copies that are read -------------------------------------------------------------------------


def archived(log: CommitLog, place: Path) -> None:
    log.roll()
    log.close()
    commitlog.keep.archive_segments(log.path, commitlog.Store(place), keep=True)


def followed(log: CommitLog, place: Path) -> None:
    with replication.serve(log.path) as server, replication.follow(server.url(), place) as follower:
        assert follower.wait(log.flushed_position, LIMIT_S)


def copied(log: CommitLog, place: Path) -> None:
    log.close()  # an open log may remove a file while it is copied
    copy_log(log.path, place)


@pytest.mark.parametrize("made", [archived, followed, copied])
def test_copy_is_read_with_the_key_alone(log: CommitLog, tmp_path: Path, made: Made) -> None:
    orders_in(log, 0, COUNT)
    made(log, tmp_path / "copy")
    with commitlog.open(tmp_path / "copy", "r") as copy:
        assert ids(copy) == list(range(COUNT))
        assert len(list(orders_of(copy).tailer(start="end"))) == 0
        with pytest.raises(KeyUnavailableError, match="2025"):
            next(iter(orders_of(copy, None).tailer()))


def test_copy_is_read_while_it_follows(log: CommitLog, tmp_path: Path) -> None:
    with (
        replication.serve(log.path) as server,
        replication.follow(server.url(), tmp_path / "copy") as follower,
        commitlog.open(tmp_path / "copy", "r") as copy,
    ):
        orders_in(log, 0, 1)
        assert follower.wait(log.flushed_position, LIMIT_S)
        tailer = orders_of(copy).tailer(start="end")
        for first in range(1, COUNT, COUNT // 4):
            orders_in(log, first, COUNT // 4)
            assert follower.wait(log.flushed_position, LIMIT_S)
            assert [order.id for order in tailer] == list(range(first, first + COUNT // 4))


def test_log_of_another_machine_is_read(log: CommitLog) -> None:
    orders_in(log, 0, COUNT)
    with replication.serve(log.path) as server, commitlog.open(server.url(), "r") as far:
        assert ids(far) == list(range(COUNT))


def test_tiered_reader_opens_what_only_the_store_has(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", every="10ms")
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT, store=store) as log:
        orders_in(log, 0, COUNT)
        drop_stored(log)
        assert ids(log)[0] > 0
        with commitlog.open(log.path, "r", store=store) as tiered:
            assert ids(tiered) == list(range(COUNT))
    with commitlog.open(tmp_path / "store", "r") as stored:
        assert ids(stored) == list(range(COUNT))


def test_staged_messages_are_read_in_their_log_only(log: CommitLog, tmp_path: Path) -> None:
    """A log's own records, staged and joined to it again and to another log."""
    orders_in(log, 0, COUNT)
    path = log.path
    with log.tailer() as tailer:
        read = list(iter(tailer.read, None))
    columns = {
        "type": pa.array([record.type for record in read], pa.int64()),
        "key": pa.array([record.key for record in read], pa.large_binary()),
    }
    values = [record.value for record in read]
    log.close()
    for place in (path, tmp_path / "other"):
        batch = pa.RecordBatch.from_pydict({"value": values, **columns})
        join(place, stage(tmp_path / "staged", batch), options=Options(segment_size=SEGMENT))
    with commitlog.open(path, "r") as joined:
        assert ids(joined) == [*range(COUNT), *range(COUNT)]
    with (
        commitlog.open(tmp_path / "other", "r") as other,
        pytest.raises(UndecodableError, match="another log"),
    ):
        ids(other)


# --- copies that are appended to ------------------------------------------------------------------


def promoted(log: CommitLog, place: Path) -> None:
    followed(log, place)
    replication.promote(place)


def restored_from_archive(log: CommitLog, place: Path) -> None:
    archived(log, place.parent / "archive")
    commitlog.keep.restore(place.parent / "archive", place)


def restored_from_store(log: CommitLog, place: Path) -> None:
    log.close()
    store = Store(place.parent / "store", every="10ms")
    with commitlog.open(log.path, store=store) as opened:
        opened.append(b"stored")
    commitlog.keep.restore(place.parent / "store", place)


@pytest.mark.parametrize("made", [promoted, restored_from_archive, restored_from_store, copied])
def test_copy_and_original_seal_with_other_data_keys(
    log: CommitLog, tmp_path: Path, made: Made
) -> None:
    orders_in(log, 0, COUNT)
    made(log, tmp_path / "copy")
    log.close()
    for place in (tmp_path / "log", tmp_path / "copy"):
        with commitlog.open(place) as opened:
            orders_in(opened, COUNT, COUNT)
            assert ids(opened) == list(range(2 * COUNT))
    original, copy = (sealing(tmp_path / name, COUNT) for name in ("log", "copy"))
    shared = sealing(tmp_path / "copy", 0) - copy
    assert original
    assert copy
    assert not original & copy
    assert not shared & (original | copy)


def test_plain_messages_are_read_after_a_cut_of_sealed_ones(tmp_path: Path) -> None:
    """What an old primary knows of its topics goes with the records that are cut."""
    orders, copy = tmp_path / "orders", tmp_path / "copy"
    with commitlog.open(orders, segment_size=SEGMENT) as log:
        log.append(b"one")
        log.flush()
        with (
            replication.serve(log.path) as server,
            replication.follow(server.url(), copy) as follower,
        ):
            assert follower.wait(log.flushed_position, LIMIT_S)
    replication.promote(copy)
    with commitlog.open(orders) as old:
        commitlog.topic(old, Order, keys=RING).append(Order(1, "lost"))
    with commitlog.open(copy) as log:
        commitlog.topic(log, Order).append(Order(2, "plain"))
        log.flush()
        with (
            replication.serve(copy) as server,
            replication.follow(server.url(), orders) as follower,
        ):
            assert follower.wait(log.flushed_position, LIMIT_S)
    with commitlog.open(orders, "r") as old:
        assert list(orders_of(old).tailer()) == [Order(2, "plain")]
