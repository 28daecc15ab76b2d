"""`headers=`: small named bytes beside key and value, in front of their record."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import signal
import struct
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import (
    CommitLogError,
    ConflictError,
    CorruptSegmentError,
    InvalidOptionError,
    RecordTooLargeError,
    RecordTypeError,
)
from commitlog.repair.repair import repair
from commitlog.repair.verification import verify
from tests.oracle.segment_file import HEADER_SIZE, Kind, build_skip, crc32c, frames, read_header
from tests.setups import BY_HAND, LARGEST_VALUE, SEGMENT, Logs, Setup
from tests.steps import die

TRACE = {"traceparent": b"00-1-2-01", "z": b"", "käse": bytes(range(256))}
MAGIC = b"HDRS"


class Pairs(dict[str, bytes]):
    """A mapping whose items are what it was made of, and whose length is 0."""

    def __init__(self, *pairs: tuple[str, bytes]) -> None:
        self._pairs = pairs

    def items(self) -> Any:
        return self._pairs


class SameName(str):
    """A name that is no other one's equal, with the bytes of any other one."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def encode(self, *_: object) -> bytes:  # type: ignore[override]
        return b"same"


def all_headers(log: CommitLog) -> list[dict[str, bytes]]:
    return [record.headers for record in log.tailer(start="first", visibility="appended")]


# --- appending and reading ----------------------------------------------------------------------


def test_record_is_read_with_its_headers(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    log.append(b"plain")
    end = log.tail_position
    position = log.append(b"lamp", key=b"k", type=3, timestamp_ns=5, headers=TRACE)
    log.append(b"plain")
    assert all_headers(log) == [{}, TRACE, {}]
    assert list(log.read(position).headers) == list(TRACE)
    record = log.read(position)
    assert (record.value, record.key, record.type, record.timestamp_ns) == (b"lamp", b"k", 3, 5)
    assert (record.sequence, log.count()) == (1, 3)
    assert position > end
    log.flush()
    assert log.read(position).headers == TRACE


def test_record_without_headers_takes_no_room(logs: Logs) -> None:
    one, other = logs.open("one"), logs.open("other")
    one.append(b"lamp", headers={})
    one.append_many([b"desk"], headers=[None])
    other.append(b"lamp")
    other.append_many([b"desk"])
    assert one.tail_position == other.tail_position


def test_each_reader_gives_the_headers(logs: Logs) -> None:
    log = logs.open()
    given = [{"n": b"%d" % number} if number % 3 else {} for number in range(30)]
    for each in given:
        log.append(b"lamp", headers=each)
    tailer = log.tailer("named", start="first")
    assert [tailer.read().headers for _ in given] == given  # type: ignore[union-attr]
    assert log.tailer(start="first").read_batch(100).headers == given
    back = log.tailer(start="end")
    back.direction = "backward"
    assert [record.headers for record in back] == given[::-1]
    back.seek("end")
    assert back.read_batch(100).headers == given[::-1]
    assert [record.headers for record in log.tailer(start="first").follow(timeout=0)] == given
    with commitlog.open(log.path, "r") as reader:
        assert all_headers(reader) == given


def test_batch_over_segments_gives_the_headers(logs: Logs) -> None:
    log = logs.open()
    given = [{"n": b"%d" % number} for number in range(400)]
    for each in given:
        log.append(b"." * 600, headers=each)
    assert log.tail_position > 3 * SEGMENT
    assert log.tailer(start="first").read_batch(1000).headers == given
    back = log.tailer(start="end")
    back.direction = "backward"
    assert back.read_batch(1000).headers == given[::-1]


def test_list_is_appended_with_headers(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    given = [{"n": b"%d" % number * 50} if number % 2 else None for number in range(2000)]
    values = [b"%d" % number for number in range(2000)]
    positions = log.append_many(values, headers=given)
    log.flush()
    assert log.tail_position > SEGMENT
    assert all_headers(log) == [each or {} for each in given]
    for number in (0, 1, 999, 1998, 1999):
        record = log.read(int(positions[number]))
        assert (record.value, record.headers) == (values[number], given[number] or {})


def test_condition_and_headers_go_together(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    log.append(b"lamp", expect=0, headers=TRACE)
    log.append(b"desk", expect=1)
    log.append_many([b"sofa", b"bed"], expect=2, headers=[None, TRACE])
    end = log.tail_position
    with pytest.raises(ConflictError):
        log.append(b"lamp", expect=0, headers=TRACE)
    assert log.tail_position == end
    assert all_headers(log) == [TRACE, {}, {}, TRACE]


def test_producer_and_headers_are_one_claim(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    first = log.append(b"lamp", producer="till", producer_sequence=1, headers=TRACE)
    again = log.append(b"lamp", producer="till", producer_sequence=1, headers={"other": b""})
    log.append(b"lamp", producer="till", producer_sequence=2)
    assert again == first
    assert all_headers(log) == [TRACE, {}]
    log.close()
    log = logs.open_as(setup)
    assert log.append(b"lamp", producer="till", producer_sequence=1) == first
    assert log.read(first).headers == TRACE


def test_coroutines_append_headers(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)

    async def append() -> None:
        await log.append_async(b"lamp", headers=TRACE)
        await log.append_async(
            b"lamp", headers=TRACE, producer="till", producer_sequence=1, key=b"k"
        )
        await log.append_many_async([b"lamp", b"desk"], headers=[None, TRACE])

    asyncio.run(append())
    assert all_headers(log) == [TRACE, TRACE, {}, TRACE]


def test_headers_survive_pickling(logs: Logs) -> None:
    log = logs.open()
    log.append(b"lamp")
    log.append(b"desk", headers=TRACE)
    records = list(log.tailer(start="first"))
    batch = log.tailer(start="first").read_batch(10)
    copies = pickle.loads(pickle.dumps(records))
    batch_copy = pickle.loads(pickle.dumps(batch))
    log.close()
    assert copies == records
    assert [copy.headers for copy in copies] == batch_copy.headers == [{}, TRACE]
    assert type(copies[0]) is type(records[0])


def test_records_with_other_headers_are_not_equal(logs: Logs) -> None:
    for name, headers in (("one", TRACE), ("two", {}), ("three", TRACE)):
        logs.open(name).append(b"lamp", timestamp_ns=1, type=1, headers=headers)
    one, _two, three = (
        logs.open(name, "r").tailer(start="first").read() for name in ("one", "two", "three")
    )
    assert one == three
    assert repr(one) == repr(three)


def test_headers_stay_readable_after_close(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    log.append(b"lamp", headers=TRACE)
    (record,) = log.tailer(start="first", visibility="appended")
    log.close()
    assert record.headers == TRACE


def test_each_access_gives_its_own_dict(logs: Logs) -> None:
    log = logs.open()
    record = log.read(log.append(b"lamp", headers=TRACE))
    record.headers.clear()
    assert record.headers == TRACE


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "error", "message"),
    [
        ([("a", b"b")], RecordTypeError, "a mapping of names to bytes, not list"),
        ("text", RecordTypeError, "a mapping of names to bytes, not str"),
        ({1: b""}, RecordTypeError, "must be a str, not 1"),
        ({b"a": b""}, RecordTypeError, "must be a str, not b'a'"),
        ({"a": "text"}, RecordTypeError, "the header 'a' must be bytes, not str"),
        ({"a": 1}, RecordTypeError, "the header 'a' must be bytes"),
        ({"a": None}, RecordTypeError, "the header 'a' must be bytes"),
        ({"": b""}, InvalidOptionError, "must have 1 to 255 bytes in UTF-8, not ''"),
        ({"ä" * 128: b""}, InvalidOptionError, "must have 1 to 255 bytes"),
        ({"\ud800": b""}, InvalidOptionError, "must have 1 to 255 bytes"),
        ({str(at): b"" for at in range(65)}, RecordTooLargeError, "at most 64 headers, not 65"),
        (Pairs(*((str(at), b"") for at in range(65))), RecordTooLargeError, "at most 64 headers"),
        (Pairs(("a", b""), ("a", b"")), InvalidOptionError, "'a' is there twice"),
        ({SameName("a"): b"", SameName("a"): b""}, InvalidOptionError, "'a' is there twice"),
        ({"a": bytes(1 << 17)}, RecordTooLargeError, "65536 bytes with their names"),
        (
            {"a": bytes(40000), "b": bytes(40000)},
            RecordTooLargeError,
            "with their names, not 80008",
        ),
    ],
)
def test_bad_headers_are_refused(
    logs: Logs, headers: Any, error: type[CommitLogError], message: str
) -> None:
    log = logs.open(segment_size=4 << 20)
    end = log.tail_position
    for append in (
        lambda: log.append(b"lamp", headers=headers),
        lambda: log.append_many([b"lamp", b"lamp"], headers=[None, headers]),
        lambda: log.append(b"lamp", headers=headers, producer="till", producer_sequence=1),
        lambda: asyncio.run(log.append_async(b"lamp", headers=headers)),
    ):
        with pytest.raises(error, match=message):
            append()
    assert log.tail_position == end


def test_list_needs_headers_for_each_value(logs: Logs) -> None:
    log = logs.open()
    with pytest.raises(RecordTypeError, match="one item for each value: 1 for 2"):
        log.append_many([b"a", b"b"], headers=[None])
    with pytest.raises(RecordTypeError, match="headers must be a sequence"):
        log.append_many([b"a"], headers=3)  # type: ignore[arg-type]


def test_headers_count_for_the_largest_record(logs: Logs) -> None:
    log = logs.open()
    room = LARGEST_VALUE - 40
    log.append(bytes(room), headers={"a": b""})
    for more in ({}, {"producer": "till", "producer_sequence": 1}):
        with pytest.raises(RecordTooLargeError):
            log.append(bytes(room + 8), headers={"a": b""}, **more)  # type: ignore[arg-type]
    with pytest.raises(RecordTooLargeError):
        log.append_many([bytes(room + 8)], headers=[{"a": b""}])
    assert log.count() == 1


def test_as_many_headers_as_allowed_are_kept(logs: Logs) -> None:
    log = logs.open(segment_size=4 << 20)
    many = {f"{at:02}": bytes([at]) * 1000 for at in range(64)}
    large = {"n" * 255: bytes(65535 - 257)}
    for headers in (many, large):
        assert log.read(log.append(b"lamp", headers=headers)).headers == headers


# --- the bytes -----------------------------------------------------------------------------------


def mark_of(log: CommitLog) -> tuple[Path, int, bytearray, int]:
    """The file of the only segment; where the mark of its first record begins; its bytes; the
    segment's id.
    """
    (path,) = Path(log.path).glob(f"{0:020d}.seg")
    content = path.read_bytes()
    (length,) = struct.unpack_from("<I", content, HEADER_SIZE)
    mark = content[HEADER_SIZE : HEADER_SIZE + (length & 0x0FFFFFFF)]
    return path, HEADER_SIZE, bytearray(mark), read_header(content).segment_id


def sign(mark: bytearray, offset: int, segment_id: int) -> None:
    seed = struct.pack("<QQ", segment_id, offset)
    mark[-4:] = struct.pack("<I", crc32c(seed + bytes(mark[8:-4])))


def replace(log: CommitLog, mark: bytearray) -> CommitLog:
    path, offset, _, _ = mark_of(log)
    log.close()
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(mark)
    return commitlog.open(log.path, "r")


def test_mark_has_the_bytes_that_the_format_says(logs: Logs) -> None:
    log = logs.open()
    position = log.append(b"lamp", headers={"ab": b"xyz", "c": b""})
    log.flush()
    path, offset, mark, segment_id = mark_of(log)
    assert mark[8:32] == MAGIC + struct.pack("<I", 48) + b"\2\3\0abxyz" + b"\1\0\0c" + bytes(4)
    assert mark[32:36] == MAGIC
    found = list(frames(path.read_bytes()))
    assert [frame.kind for frame in found[:2]] == [Kind.SKIP, Kind.RECORD]
    assert found[1].position == position == offset + 48
    (record_crc,) = struct.unpack_from("<I", path.read_bytes(), position + 4)
    assert mark[36:44] == struct.pack("<II", record_crc, 48)
    right = bytes(mark)
    sign(mark, offset, segment_id)
    assert bytes(mark) == right


@pytest.mark.parametrize("at", [8, 12, 16, 20, 32, 36, 40, 44])
def test_damaged_headers_are_no_missing_headers(logs: Logs, at: int) -> None:
    log = logs.open()
    log.append(b"lamp", headers={"ab": b"xyz", "c": b""})
    log.append(b"desk")
    mark = mark_of(log)[2]
    mark[at] ^= 1
    log = replace(log, mark)
    records = list(log.tailer(start="first"))
    assert [record.value for record in records] == [b"lamp", b"desk"]
    with pytest.raises(CorruptSegmentError, match="headers of this record are damaged"):
        _ = records[0].headers
    assert records[1].headers == {}
    log.close()
    report = verify(log.path)
    assert [part.position for part in report.damage] == [HEADER_SIZE]
    repair(log.path)
    with commitlog.open(log.path, "r") as log:
        assert all_headers(log) == [{}, {}]
    assert not verify(log.path).damage


@pytest.mark.parametrize(
    "content",
    [
        b"\2\x0c\0abxy",  # a value beyond the end
        b"\x0e\0\0abc",  # a name beyond the end
        b"\2\1\0\xff\xfex",  # no UTF-8
        b"\1\1\0ax\1\1\0ay",  # a name twice
        b"\1\1\0ax\0\0\1",  # not zeros behind them
        b"\1\xff\xffa",
    ],
)
def test_malformed_headers_are_an_error(logs: Logs, content: bytes) -> None:
    log = logs.open()
    log.append(b"lamp", headers={"ab": b"xyz", "c": b""})
    _, offset, mark, segment_id = mark_of(log)
    mark[16:32] = content.ljust(16, b"\0")
    sign(mark, offset, segment_id)
    log = replace(log, mark)
    with pytest.raises(CorruptSegmentError):
        _ = log.read(offset + 48).headers
    log.close()


def test_more_than_64_headers_are_malformed(logs: Logs) -> None:
    log = logs.open()
    log.append(b"lamp", headers={"a": bytes(65 * 5 - 4)})
    _, offset, mark, segment_id = mark_of(log)
    mark[16 : 16 + 65 * 5] = b"".join(b"\2\0\0%02d" % at for at in range(65))
    sign(mark, offset, segment_id)
    log = replace(log, mark)
    (record,) = log.tailer(start="first")
    with pytest.raises(CorruptSegmentError):
        _ = record.headers
    log.close()


def test_mark_of_a_cut_record_is_of_no_other(logs: Logs) -> None:
    log = logs.open(flush="none")
    log.append(b"lamp", headers={"ab": b"xyz", "c": b""}, timestamp_ns=1)
    path, offset, mark, _ = mark_of(log)
    other = logs.open("other", flush="none")
    other.append(b"desk", timestamp_ns=2, headers={"ab": b"xyz", "c": b""})
    log.close()
    # The mark alone, as a power cut may leave it.
    with path.open("r+b") as file:
        file.seek(offset + len(mark))
        file.write(bytes(64))
    for name in ("cursors", "checkpoint"):
        (Path(log.path) / name).unlink(missing_ok=True)
    with commitlog.open(log.path, "a") as log:
        log.append(b"sofa", timestamp_ns=1)
        assert all_headers(log) == [{}]


def test_value_that_looks_like_a_mark_is_none(logs: Logs) -> None:
    log = logs.open()
    log.append(b"lamp", headers={"ab": b"xyz", "c": b""})
    mark = mark_of(log)[2]
    position = log.append(b"desk" + bytes(4) + bytes(mark))
    following = log.append(b"sofa")
    assert (following - position) % 8 == 0
    assert log.read(following).headers == {}
    assert log.read(position).headers == {}


def test_releases_that_ignore_marks_read_the_records(logs: Logs) -> None:
    log = logs.open()
    for number in range(20):
        log.append(b"%d" % number, headers={"n": bytes(number)} if number % 2 else None)
    log.close()
    content = (Path(log.path) / f"{0:020d}.seg").read_bytes()
    found = list(frames(content))
    assert all(frame.crc_ok for frame in found)
    assert [frame.value for frame in found if frame.kind is Kind.RECORD] == [
        b"%d" % number for number in range(20)
    ]
    skip = next(frame for frame in found if frame.kind is Kind.SKIP)
    expected = build_skip(read_header(content).segment_id, skip.offset, skip.length)
    assert content[skip.offset :][:8] == expected[:8]


def test_copied_log_has_the_headers(logs: Logs, tmp_path: Path) -> None:
    log = logs.open()
    for number in range(300):
        log.append(b"." * 500, headers={"n": b"%d" % number})
    log.close()
    shutil.copytree(log.path, tmp_path / "copy")
    with commitlog.open(tmp_path / "copy", "r") as copy:
        assert all_headers(copy) == [{"n": b"%d" % number} for number in range(300)]


# --- Arrow ---------------------------------------------------------------------------------------


def test_arrow_has_headers_on_request_and_takes_them(logs: Logs) -> None:
    pa = pytest.importorskip("pyarrow")
    log = logs.open()
    given = [{}, TRACE, {"n": b"1"}, {}]
    log.append_many([b"a", b"b", b"c", b"d"], headers=given, keys=[None, b"k", None, b""])
    assert "headers" not in log.to_arrow().schema.names
    table = log.to_arrow(headers=True)
    assert table.schema.field("headers").type == pa.map_(pa.string(), pa.binary())
    assert [dict(row) for row in table["headers"].to_pylist()] == given
    batch = log.tailer(start="first").read_batch(9)
    for found in (
        batch.to_arrow(headers=True)["headers"],
        log.to_arrow(columns=["headers"])["headers"],
        log.to_arrow(columns=["value", "headers"], headers=True)["headers"],
        log.to_reader(headers=True).read_all()["headers"],
    ):
        assert [dict(row) for row in found.to_pylist()] == given
    other = logs.open("other")
    other.append_arrow(table)
    assert all_headers(other) == given
    assert [record.value for record in other.tailer(start="first")] == [b"a", b"b", b"c", b"d"]
    assert other.to_arrow(columns=["timestamp", "key"]) == log.to_arrow(
        columns=["timestamp", "key"]
    )


def test_arrow_without_headers_takes_no_room(logs: Logs) -> None:
    pa = pytest.importorskip("pyarrow")
    log, other = logs.open(), logs.open("other")
    kind = pa.map_(pa.string(), pa.binary())
    log.append_arrow(pa.table({"value": [b"a", b"b"], "headers": pa.array([None, []], kind)}))
    other.append_many([b"a", b"b"])
    assert log.tail_position == other.tail_position


def test_bad_headers_column_is_refused(logs: Logs) -> None:
    pa = pytest.importorskip("pyarrow")
    log = logs.open()
    for column, message in (
        (pa.array([1]), "must be a map of text to bytes, not int64"),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "must be a map of text"),
        (pa.array([[("a", b""), ("a", b"")]], pa.map_(pa.string(), pa.binary())), "a header twice"),
    ):
        with pytest.raises(RecordTypeError, match=message):
            log.append_arrow(pa.table({"value": [b"v"], "headers": column}))
    assert log.count() == 0


# --- kills and power cuts ------------------------------------------------------------------------


def test_killed_pool_leaves_the_headers_in_shared_memory(logs: Logs, tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        log = logs.open_as(Setup("async", "shm"), **BY_HAND)
        log.append(b"lamp", headers=TRACE)
        log.append(b"desk", headers=TRACE, producer="till", producer_sequence=1)
        die()
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    log = logs.open(pool=None)
    assert all_headers(log) == [TRACE, TRACE]
    assert log.append(b"desk", producer="till", producer_sequence=1) == log.last_position


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_torn_headers_take_their_record_along(logs: Logs, lost: int) -> None:
    """One sector of the mark was not written before the power cut, the record behind it was."""
    log = logs.open(flush="none", **BY_HAND)
    first = b".".ljust(512 - 16, b".")
    log.append(first)
    log.flush()
    log.append(b"lamp", headers={"a": b"x" * 1500})
    log.append(b"desk")
    content = bytearray(Path(log.path, f"{0:020d}.seg").read_bytes())
    at = HEADER_SIZE + (1 + lost) * 512
    content[at : at + 512] = bytes(512)
    cut = logs.path / "cut"
    cut.mkdir()
    shutil.copy(Path(log.path, "log.json"), cut)
    (cut / f"{0:020d}.seg").write_bytes(content)
    with commitlog.open(cut, "a") as opened:
        found = [(each.value, each.headers) for each in opened.tailer(start="first")]
    assert found == [(first, {})]
