"""Logs that earlier code made: today's code reads each record of them, and continues them.

`make.py` made them; `early` has the format before 1.0.0, with no sessions of stores, members of
copies and durable parts of segments, and `1.0` that of 1.0.0.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec")
pytest.importorskip("google.protobuf")
pytest.importorskip("pyarrow")
pytest.importorskip("fastavro")
pytest.importorskip("cryptography")

import commitlog
from commitlog import Store, TransientStorePool, topics
from commitlog.errors import FencedError, ReadOnlyError
from commitlog.keep import restore
from commitlog.repair.verification import verify
from commitlog.replication import promote
from tests.golden import messages
from tests.golden.make import SEGMENT, contents, digest_of, values

HERE = Path(__file__).parent
MANIFESTS = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(HERE.glob("*.json"))
}
WRITABLE = (
    "archived", "bound", "cycles", "killed", "plain", "pooled", "primary", "sealed", "stored",
    "sync", "topics",
)  # fmt: skip
COPIES = ("copy", "replica")
RESTORED = ("promoted", "replicated")  # unpacked, they pass for restored backups
ARCHIVES = ("archive", "store")
TOPICS = {
    **{each.name: ("topics", each) for each in messages.PLAIN_TOPICS},
    **{each.name: ("sealed", each) for each in messages.SEALED_TOPICS},
    **{each.name: ("bound", each) for each in messages.BOUND_TOPICS},
}
# Each open for writing replaces or marks them.
SERVING = {"checkpoint", "cursors", "lock"}
RING = topics.KeyRing.of_text(messages.KEYS)

Take = Callable[[str], Path]


@pytest.fixture(scope="module", params=MANIFESTS)
def unpacked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """Unpack a set of golden logs; return its name and their folder."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(HERE / f"{request.param}.tar.xz") as file:
        file.extractall(folder, filter="data")
    return request.param, folder


@pytest.fixture
def take(unpacked: tuple[str, Path], tmp_path: Path) -> Take:
    """Return a function that copies a golden log for the test alone."""
    return lambda name: Path(shutil.copytree(unpacked[1] / name, tmp_path / name))


def manifest(unpacked: tuple[str, Path]) -> Any:
    return MANIFESTS[unpacked[0]]


def files_of(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


def check_continued(path: Path, expected: Any) -> None:
    """Append a record, and check that all records before it are as they were."""
    with commitlog.open(path) as log:
        position = log.append(b"continued", key=b"k", type=3)
        assert log.read(position).sequence == expected["records"]
        records = list(log.tailer(start="first"))
        last = records.pop()
        assert (last.value, last.key, last.type) == (b"continued", b"k", 3)
    assert (len(records), digest_of(records)) == (expected["records"], expected["sha256"])
    assert position >= expected["end"]
    assert verify(path).sound


def test_each_set_has_the_same_kinds_of_logs() -> None:
    kinds = {*WRITABLE, *COPIES, *RESTORED, *ARCHIVES}
    assert {name: set(found) for name, found in MANIFESTS.items()} == dict.fromkeys(
        ("1.0", "early"), kinds
    )


@pytest.mark.parametrize("name", [*WRITABLE, *COPIES, *RESTORED, *ARCHIVES])
def test_golden_log_has_the_records_that_were_appended(
    unpacked: tuple[str, Path], take: Take, name: str
) -> None:
    path = take(name)
    before = files_of(path)
    assert contents(path) == manifest(unpacked)[name]
    report = verify(path)
    assert report.sound
    assert report.records == manifest(unpacked)[name]["records"]
    assert files_of(path) == before


@pytest.mark.parametrize("name", WRITABLE)
def test_golden_log_takes_an_append(unpacked: tuple[str, Path], take: Take, name: str) -> None:
    path, expected = take(name), manifest(unpacked)[name]
    before = files_of(path)
    check_continued(path, expected)
    after = files_of(path)
    tail = f"{expected['end'] // SEGMENT * SEGMENT:020d}.seg"
    changed = {each for each in before if after.get(each) != before[each]} - SERVING
    # What a killed process did not finish is removed.
    assert all(each >= tail or each.endswith(".tmp") for each in changed), changed
    assert all(each.endswith((".seg", ".tmp")) for each in changed), changed


def test_golden_plain_values_are_those_of_the_script(take: Take) -> None:
    with commitlog.open(take("plain"), mode="r") as log:
        records = list(log.tailer(start="first"))
    found = [(bytes(each.value), each.key, each.type) for each in records[:-2]]
    assert found == list(values(len(found)))
    assert [bytes(each.value) for each in records[-2:]] == [b"", bytes(range(256)) * 31]


def test_golden_tailer_continues_where_it_was(take: Take) -> None:
    with commitlog.open(take("plain")) as log, log.tailer("billing") as tailer:
        assert tailer.read().sequence == 100


def test_golden_pooled_log_is_continued_with_a_pool(unpacked: tuple[str, Path], take: Take) -> None:
    path, expected = take("pooled"), manifest(unpacked)["pooled"]
    with (
        TransientStorePool(buffers=3, buffer_size=SEGMENT) as pool,
        commitlog.open(path, pool=pool) as log,
    ):
        assert log.read(log.append(b"more", sync=True)).sequence == expected["records"]
    assert verify(path).sound


def test_golden_producers_know_their_numbers(take: Take) -> None:
    with commitlog.open(take("sync"), flush="sync") as log:
        end = log.tail_position
        first = [
            log.append(b"again", producer=name, producer_sequence=59) for name in ("till", "café")
        ]
        assert log.tail_position == end
        assert [bytes(log.read(each).value) for each in first] == [b"59" * 300] * 2
        assert log.append(b"next", producer="till", producer_sequence=60) >= end


def test_golden_cycles_are_found(take: Take) -> None:
    with commitlog.open(take("cycles"), mode="r") as log:
        found = log.cycles()
        assert sum(each.records for each in found) == log.count() == 63
        starts = [each.start for each in found if each.start is not None]
        assert {(start.hour, str(start.tzinfo)) for start in starts} == {(6, "Europe/Berlin")}


@pytest.mark.parametrize("name", TOPICS)
def test_golden_topic_has_its_messages(take: Take, name: str) -> None:
    kind, each = TOPICS[name]
    keys = None if kind == "topics" else RING
    path = take(kind)
    for mode in ("r", "a"):
        with (
            commitlog.open(path, mode) as log,
            commitlog.topic(log, each.kind, name=name, codec=each.codec, keys=keys) as topic,
        ):
            assert list(topic.tailer()) == each.messages()
    with (
        commitlog.open(path) as log,
        commitlog.topic(
            log, each.kind, name=name, codec=each.codec, keys=keys, **dict(each.options)
        ) as topic,
    ):
        topic.append(each.make(3), key=b"k")
        assert list(topic.tailer()) == [*each.messages(), each.make(3)]
    assert verify(path).sound


def test_golden_calls_reach_their_method(take: Take) -> None:
    calls = []

    class Till:
        def sold(self, item: str, amount: int, note: str = "") -> None:
            calls.append((item, amount, note))

    with commitlog.open(take("topics"), mode="r") as log:
        reader = commitlog.method_reader(log, Till(), start="first")
        while reader.read_one():
            pass
    assert calls == [(f"lamp {number}", number, "") for number in range(5)]


@pytest.mark.parametrize("name", ARCHIVES)
def test_golden_archive_is_restored(
    unpacked: tuple[str, Path], take: Take, tmp_path: Path, name: str
) -> None:
    path = take(name)
    with pytest.raises(ReadOnlyError):
        commitlog.open(path)
    restore(path, tmp_path / "restored")
    check_continued(tmp_path / "restored", manifest(unpacked)[name])


def test_golden_store_is_continued_by_a_restored_log(
    unpacked: tuple[str, Path], take: Take, tmp_path: Path
) -> None:
    path = take("store")
    restore(path, tmp_path / "restored")
    store = Store(path, every="100ms")
    with commitlog.open(tmp_path / "restored", store=store) as log:
        log.append(b"stored too")
    with commitlog.open(path, mode="r") as log:
        assert log.count() == manifest(unpacked)["store"]["records"] + 1
    assert verify(path).sound


@pytest.mark.parametrize("name", COPIES)
def test_golden_copy_is_promoted(unpacked: tuple[str, Path], take: Take, name: str) -> None:
    path = take(name)
    with pytest.raises(FencedError):
        commitlog.open(path)
    epoch = promote(path, copies=1, force=("promises", "restored"))
    assert epoch.number == 1
    check_continued(path, manifest(unpacked)[name])


@pytest.mark.parametrize("name", RESTORED)
def test_golden_primary_is_continued(unpacked: tuple[str, Path], take: Take, name: str) -> None:
    path = take(name)
    if unpacked[0] != "early":  # it did not note where the log is
        with pytest.raises(FencedError, match="restored"):
            commitlog.open(path)
        promote(path, copies=1, force=("promises", "restored"))
    check_continued(path, manifest(unpacked)[name])
