"""Wrong values, wrong paths, damaged files and wrong use: each raises one clear error, the log
stays intact, and nothing crashes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commitlog import CommitLog, CommitLogError
from commitlog.errors import (
    CorruptRecordError,
    CorruptSegmentError,
    InvalidOptionError,
    NotALogError,
    PositionError,
    RecordTooLargeError,
    RecordTypeError,
    UnsupportedVersionError,
)
from tests.setups import BY_HAND, HEADER, LARGEST_VALUE, SEGMENT, Logs, Setup

FIRST = f"{0:020d}.seg"
SECOND = f"{SEGMENT:020d}.seg"


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["text", 5, None, 1.5, ["list"], object(), np.array([None])],
    ids=lambda value: type(value).__name__,
)
def test_value_that_is_not_bytes_raises_record_type_error(logs: Logs, value: Any) -> None:
    log = logs.open()
    attempts: list[Callable[[], object]] = [
        lambda: log.append(value),
        lambda: log.append_many([b"never", value]),
        lambda: log.append_many([b"never"], keys=[value if value is not None else 5]),
        lambda: log.append(b"never", key=value if value is not None else 5),
    ]
    for attempt in attempts:
        with pytest.raises(RecordTypeError) as caught:
            attempt()
        assert isinstance(caught.value, TypeError)
        assert (".encode()" in str(caught.value)) == isinstance(value, str)
    assert list(log.tailer()) == []


def test_non_contiguous_or_released_buffer_raises(logs: Logs) -> None:
    log = logs.open()
    released = memoryview(b"gone")
    released.release()
    for value in (memoryview(b"every other")[::2], np.arange(10)[::3], released):
        with pytest.raises(RecordTypeError):
            log.append(value)
    assert log.tail_position == HEADER


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "a"},
        {"type": -1},
        {"type": 2**32},
        {"type": 1.5},
        {"type": None},
        {"timestamp_ns": "now"},
        {"timestamp_ns": -1},
        {"timestamp_ns": 2**63},
    ],
)
def test_type_or_timestamp_out_of_range_raises(logs: Logs, wrong: dict[str, Any]) -> None:
    log = logs.open()
    for append in (log.append, log.claim):
        with pytest.raises(RecordTypeError, match=next(iter(wrong))):
            append(b"value" if append == log.append else 5, **wrong)
    assert log.tail_position == HEADER


def test_list_with_wrong_element_appends_nothing(logs: Logs) -> None:
    log = logs.open()
    wrong: list[tuple[Any, dict[str, Any]]] = [
        (5, {}),
        (b"abc", {}),
        ("abc", {}),
        ([b"a", "b"], {}),
        ([b"a"], {"keys": 5}),
        ([b"a"], {"keys": [b"k", b"k"]}),
        ([b"a"], {"types": 5}),
        ([b"a"], {"types": []}),
        ([b"a", b"b"], {"types": [0, "x"]}),
        ([b"a"], {"timestamp_ns": "now"}),
    ]
    for values, options in wrong:
        with pytest.raises(RecordTypeError):
            log.append_many(values, **options)
    with pytest.raises(RecordTooLargeError):
        log.append_many([b"a"] * 1000 + [bytes(LARGEST_VALUE + 1)])
    assert log.tail_position == HEADER


@pytest.mark.parametrize(
    "rows",
    [
        [b"list"],
        np.zeros(3),
        np.zeros((2, 2, 2)),
        np.array([["object"]], dtype=object),
        np.float64(1),
    ],
    ids=repr,
)
def test_array_without_rows_of_bytes_raises(logs: Logs, rows: Any) -> None:
    log = logs.open()
    with pytest.raises(RecordTypeError):
        log.append_array(rows)
    assert log.tail_position == HEADER


@pytest.mark.parametrize("size", ["5", -1, 1.5, None, True])
def test_claim_of_invalid_size_raises(logs: Logs, size: Any) -> None:
    with pytest.raises(RecordTypeError):
        logs.open().claim(size)


def test_value_larger_than_any_frame_raises(logs: Logs) -> None:
    log = logs.open()
    for attempt in (
        lambda: log.claim(1 << 60),
        lambda: log.append(bytes(1 << 28)),
        lambda: log.append(b"", key=bytes(1 << 28)),
    ):
        with pytest.raises(RecordTooLargeError, match="split it"):
            attempt()
    assert log.tail_position == HEADER


def test_empty_records_are_appended_and_read(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    log.append(b"")
    log.append_many([b"", b""])
    log.append_array(np.zeros((2, 0), dtype=np.uint8))
    with log.claim(0) as claim:
        assert len(claim.buffer) == 0
    log.append(b"", key=b"")
    found = [
        (record.key, record.value, bytes(record.view()))
        for record in log.tailer(visibility="appended")
    ]
    assert found == [(None, b"", b"")] * 6 + [(b"", b"", b"")]


# --- arguments of the other calls -----------------------------------------------------------------


def test_invalid_positions_and_choices_raise(logs: Logs) -> None:
    log = logs.open()
    log.append(bytes(100))
    wrong: list[Callable[[], object]] = [
        lambda: log.tailer(start="middle"),  # type: ignore[arg-type]
        lambda: log.tailer(start=1.5),  # type: ignore[arg-type]
        lambda: log.tailer(start=True),
        lambda: log.tailer(start=int),  # type: ignore[arg-type]
        lambda: log.tailer(visibility=np.array(["committed", "flushed"])),  # type: ignore[arg-type]
        lambda: log.tailer(visibility="all"),  # type: ignore[arg-type]
        lambda: log.tailer(on_damage="ignore"),  # type: ignore[arg-type]
        lambda: log.tailer(start="end").read(timeout="soon"),
        lambda: log.tailer(start="end").read(timeout=-1),
        lambda: log.tailer(start="end").read(timeout=1, idle="doze"),  # type: ignore[arg-type]
        lambda: log.tailer().follow(timeout=float("nan")),
        lambda: log.tailer().read_batch(0),
        lambda: log.tailer().read_batch("many"),  # type: ignore[arg-type]
        lambda: log.tailer().read_batch(True),
        lambda: log.read("first"),  # type: ignore[arg-type]
        lambda: log.commit(-1),
        lambda: log.commit("all"),  # type: ignore[arg-type]
        lambda: log.flush(timeout="soon"),
        lambda: log.flush(timeout=-1),
        lambda: log.delete_before(-1),
        lambda: log.delete_before("all"),  # type: ignore[arg-type]
        lambda: log.delete_before(0, force_after=-1),
    ]
    for attempt in wrong:
        with pytest.raises((InvalidOptionError, PositionError)):
            attempt()
    for most in (1 << 62, 1 << 64, 10**30):
        assert len(log.tailer().read_batch(most)) == 1


def test_position_without_record_raises_and_keeps_log(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, **BY_HAND)
    log.append_many([bytes(100)] * 20, sync=False)
    first = log.tailer(visibility="appended").read()
    assert first is not None
    for position in [
        -8,
        0,
        1,
        4095,
        *range(HEADER + 1, HEADER + 116),
        log.tail_position,
        log.tail_position + 8,
        1 << 70,
    ]:
        with pytest.raises(PositionError) as caught:
            log.read(position)
        assert caught.value.position == position
    assert list(log.tailer(visibility="appended").values()) == [bytes(100)] * 20
    log.flush()
    for position in range(HEADER + 8, HEADER + 116, 8):
        with pytest.raises(PositionError):
            log.tailer(start=position)
    assert list(log.tailer(visibility="flushed").values()) == [bytes(100)] * 20


# --- damage ---------------------------------------------------------------------------------------


@pytest.fixture(params=["mapped", "pooled"])
def written(request: pytest.FixtureRequest, logs: Logs) -> Callable[[str], CommitLog]:
    """Create a closed log of 3000 records, 32 bytes a frame, in two segments; return a function
    that opens it again.
    """
    pool = logs.pool() if request.param == "pooled" else None
    with logs.open(pool=pool) as log:
        log.append_many([b"%016d" % index for index in range(3000)])
    return lambda mode: logs.open(mode=mode) if mode == "r" else logs.open(pool=pool)


def damage(path: Path, offset: int, change: Callable[[bytes], bytes], length: int = 1) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        old = file.read(length)
        file.seek(offset)
        file.write(change(old))


DAMAGES: dict[str, tuple[int, int, Callable[[bytes], bytes]]] = {
    # name: (number of the damaged record, length from its start, the change of these bytes)
    "a zeroed page": (128, 4096, lambda old: bytes(len(old))),
    "a zeroed record": (100, 32, lambda old: bytes(len(old))),
    "a zeroed cell": (100, 8, lambda old: bytes(len(old))),
    "a flipped bit in the value": (100, 32, lambda old: old[:20] + bytes([old[20] ^ 4]) + old[21:]),
    "a flipped bit in the CRC": (100, 32, lambda old: old[:5] + bytes([old[5] ^ 1]) + old[6:]),
    "a flipped bit in the length": (100, 4, lambda old: bytes([old[0] ^ 8]) + old[1:]),
    "a length beyond the segment": (100, 4, lambda old: b"\xf8\xff\xff\x00"),
    "the mark of a claim": (100, 4, lambda old: old[:3] + bytes([old[3] | 0x10])),
    "the mark of a SKIP": (100, 4, lambda old: old[:3] + bytes([old[3] | 0x20])),
    "ones": (100, 64, lambda old: b"\xff" * len(old)),
}


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("mode", ["r", "a"])
def test_damage_raises_with_position_and_can_be_skipped(
    written: Callable[[str], CommitLog], tmp_path: Path, mode: str, kind: str
) -> None:
    record, length, change = DAMAGES[kind]
    damage(tmp_path / "log" / FIRST, HEADER + record * 32, change, length)
    before = (tmp_path / "log" / FIRST).read_bytes()
    lost = -(-length // 32)
    log = written(mode)
    tailer = log.tailer()
    found = []
    with pytest.raises(CorruptRecordError) as caught:
        found.extend(tailer.values())
    found = list(log.tailer(start=HEADER).read_batch(record).values())
    assert found == [b"%016d" % index for index in range(record)]
    assert caught.value.position == HEADER + record * 32
    assert caught.value.resume_position == HEADER + (record + lost) * 32
    assert caught.value.path == str(tmp_path / "log" / FIRST)
    with pytest.raises(CorruptRecordError):
        tailer.read()
    with pytest.raises(CorruptRecordError):
        log.read(HEADER + record * 32)
    tailer.seek(caught.value.resume_position)
    assert tailer.read().value == b"%016d" % (record + lost)  # type: ignore[union-attr]
    skipping = log.tailer(on_damage="skip")
    assert len(list(skipping)) == 3000 - lost
    assert skipping.damaged == [(HEADER + record * 32, HEADER + (record + lost) * 32)]
    skipping = log.tailer(on_damage="skip", visibility="flushed")
    total = 0
    while rows := len(skipping.read_batch()):
        total += rows
    assert total == 3000 - lost
    log.close()
    after = (tmp_path / "log" / FIRST).read_bytes()
    # The reader and the writer repaired nothing.
    assert after[HEADER:] == before[HEADER:]


def test_truncated_segment_raises_from_every_reader(
    written: Callable[[str], CommitLog], tmp_path: Path
) -> None:
    for size in (SEGMENT - 1, 5000, HEADER, 100, 0):
        os.truncate(tmp_path / "log" / FIRST, size)
        log = written("r")
        for read in (
            lambda log: list(log.tailer()),
            lambda log: log.tailer().read_batch(),
            lambda log: log.read(HEADER),
        ):
            with pytest.raises(CorruptSegmentError, match=FIRST):
                read(log)
        # The log claims space for a list of 3000 in pieces of 256 records.
        assert len(list(log.tailer(start=SEGMENT))) == 1208


def test_zeroed_or_foreign_segment_header_raises(
    written: Callable[[str], CommitLog], tmp_path: Path, logs: Logs
) -> None:
    log = tmp_path / "log"
    kept = (log / FIRST).read_bytes()
    other = logs.open("other")
    other.append(b"x")
    other.close()
    for content in (
        bytes(SEGMENT),
        bytes(HEADER) + kept[HEADER:],
        (tmp_path / "other" / FIRST).read_bytes(),
        (log / SECOND).read_bytes(),
    ):
        (log / FIRST).write_bytes(content)
        with pytest.raises(CorruptSegmentError):
            list(written("r").tailer())
    (log / FIRST).unlink()
    (log / FIRST).mkdir()
    with pytest.raises(CommitLogError):
        list(written("r").tailer())


def test_missing_segment_raises_position_error(logs: Logs, tmp_path: Path) -> None:
    log = logs.open()
    log.append_array(np.zeros((5000, 16), dtype=np.uint8))
    log.close()
    (tmp_path / "log" / SECOND).unlink()
    with pytest.raises(PositionError) as caught:
        list(logs.open(mode="r").tailer())
    assert caught.value.first_position == 2 * SEGMENT


def test_newer_major_version_raises_and_newer_minor_is_read(logs: Logs, tmp_path: Path) -> None:
    logs.open().close()
    path = tmp_path / "log"
    text = (path / "log.json").read_text()
    content = json.loads(text)
    content["format"]["major"] += 1
    (path / "log.json").write_text(json.dumps(content))
    before = contents(path)
    for mode in ("r", "a", "x"):
        with pytest.raises(UnsupportedVersionError, match="newer commitlog"):
            logs.open(mode=mode)
    assert contents(path) == before
    content["format"] = {"major": content["format"]["major"] - 1, "minor": 99}
    (path / "log.json").write_text(json.dumps(content))
    assert list(logs.open(mode="r").tailer()) == []


def test_segment_of_another_format_version_raises(logs: Logs, tmp_path: Path) -> None:
    log = logs.open()
    log.append(b"x")
    log.close()
    damage(tmp_path / "log" / FIRST, 8, lambda old: bytes([old[0] + 1]))
    for mode in ("r", "a"):
        with pytest.raises(UnsupportedVersionError):
            list(logs.open(mode=mode).tailer())


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b"\xff\xfe", b'{"format": 1}', b"null", b"[" * 100_000],
    ids=lambda content: repr(content[:20]),
)
def test_unparsable_log_json_raises_not_a_log(logs: Logs, tmp_path: Path, content: bytes) -> None:
    logs.open().close()
    (tmp_path / "log" / "log.json").write_bytes(content)
    for mode in ("r", "a"):
        with pytest.raises(NotALogError):
            logs.open(mode=mode)


@pytest.mark.parametrize(
    "wrong",
    [
        {"uuid": "x"},
        {"uuid": None},
        {"segment_size": -1},
        {"segment_size": 5},
        {"segment_size": 1 << 40},
        {"segment_size": "64KiB"},
        {"created_ns": "now"},
    ],
    ids=repr,
)
def test_impossible_value_in_log_json_raises_not_a_log(
    logs: Logs, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    logs.open().close()
    file = tmp_path / "log" / "log.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | wrong))
    with pytest.raises(NotALogError):
        logs.open(mode="r")


@pytest.mark.parametrize("name", ["cursors", "checkpoint", "lock"])
@pytest.mark.parametrize(
    "content",
    [b"", b"\xff" * 100, b"\xff" * (1 << 20), None],
    ids=["empty", "short", "ones", "missing"],
)
def test_log_without_cursors_checkpoint_or_lock_opens_whole(
    logs: Logs, tmp_path: Path, name: str, content: bytes | None
) -> None:
    log = logs.open()
    log.append_many([b"%d" % index for index in range(3000)])
    log.close()
    file = tmp_path / "log" / name
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    expected = [b"%d" % index for index in range(3000)]
    assert list(logs.open(mode="r").tailer().values()) == expected
    log = logs.open()
    assert list(log.tailer().values()) == expected
    log.append(b"on")
    log.close()
    assert list(logs.open().tailer().values()) == [*expected, b"on"]


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}
