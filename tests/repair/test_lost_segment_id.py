"""A damaged segment id is computed from the CRCs of its segment."""

from __future__ import annotations

import random

import pytest

from commitlog.repair.lost_segment_id import find_segment_id
from commitlog.repair.repair import repair
from tests.log_files import HEADER, SIZE, UUID, LogFiles, numbered
from tests.oracle import segment_file as oracle
from tests.repair.test_repair import SEALED, build, repair_twice

ID_AT = 32
SEGMENT_ID = 0xF1E2D3C4B5A69788


def found_in(content: bytearray) -> int | None:
    return find_segment_id(bytes(content[:HEADER]), memoryview(content), UUID, SIZE, SIZE)


@pytest.fixture
def whole() -> bytearray:
    """A live segment with a few records."""
    content = bytearray(SIZE)
    header = oracle.build_header(
        log_uuid=UUID,
        segment_id=SEGMENT_ID,
        base=SIZE,
        size=SIZE,
        created_ns=7,
        opened=oracle.Opened(5, 0),
    )
    content[: len(header)] = header
    offset = HEADER
    for value in numbered(20):
        frame = oracle.build_frame(SEGMENT_ID, offset, value, timestamp_ns=7)
        content[offset : offset + len(frame)] = frame
        offset += len(frame)
    return content


def test_segment_id_with_a_flipped_bit_is_found(whole: bytearray) -> None:
    for bit in range(64):
        content = bytearray(whole)
        content[ID_AT + bit // 8] ^= 1 << bit % 8
        assert found_in(content) == SEGMENT_ID, bit


def test_segment_id_with_a_damaged_byte_is_found(whole: bytearray) -> None:
    for byte in range(8):
        for change in range(3, 256, 28):
            content = bytearray(whole)
            content[ID_AT + byte] ^= change
            assert found_in(content) == SEGMENT_ID, (byte, change)


def fitting_frames(content: bytearray, segment_id: int | None) -> int:
    assert segment_id is not None
    frames = 0
    offset = HEADER
    for value in numbered(20):
        frame = oracle.build_frame(segment_id, offset, value, timestamp_ns=7)
        frames += content[offset : offset + len(frame)] == frame
        offset += len(frame)
    return frames


def test_lost_segment_id_is_replaced_by_one_with_equal_crcs(whole: bytearray) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    for harmed in range(3):
        content = bytearray(whole)
        content[ID_AT : ID_AT + 8] = chance.randbytes(8)
        if harmed == 1:
            content[64] ^= 1  # the identity's CRC is of no use
        if harmed == 2:
            content[:HEADER] = bytes(HEADER)
        assert fitting_frames(content, found_in(content)) == 20


def test_segment_id_is_found_despite_a_damaged_frame(whole: bytearray) -> None:
    content = whole
    content[ID_AT + 3] ^= 1
    content[HEADER + 20] ^= 1
    content[128] ^= 1
    assert found_in(content) == SEGMENT_ID


def test_segment_id_is_confirmed_by_a_later_frame(whole: bytearray) -> None:
    for at in (ID_AT + 3, 128, HEADER + 20, HEADER + 52):
        whole[at] ^= 1
    assert found_in(whole) == SEGMENT_ID


def test_segment_id_without_confirmation_is_rejected(whole: bytearray) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    assert found_in(bytearray(random.Random(seed).randbytes(SIZE))) is None
    lone = bytearray(SIZE)
    lone[HEADER : HEADER + 32] = whole[HEADER : HEADER + 32]
    assert found_in(lone) is None, "an id can be made for any one frame"


@pytest.mark.parametrize("number", [0, 1, 2, 3])
@pytest.mark.parametrize("at", range(32, 40))
def test_header_with_a_damaged_id_is_rebuilt(files: LogFiles, number: int, at: int) -> None:
    build(files)
    files.flip(number, at)
    report = repair_twice(files)
    assert [action.what for action in report.actions] == ["header rebuilt"]
    assert files.values() == numbered(250)
    if number == 0:
        assert oracle.read_header(files.get(0)).seal == SEALED
    if number < 3:
        assert oracle.read_header(files.get(number)).segment_id == files.segment_id(number)


def test_zeroed_header_is_rebuilt(files: LogFiles) -> None:
    build(files)
    files.put(1, 0, bytes(HEADER))
    assert [action.what for action in repair_twice(files).actions] == ["header rebuilt"]
    assert files.values() == numbered(250)


def test_dry_run_finds_the_id_of_a_short_file(files: LogFiles) -> None:
    build(files)
    files.flip(1, 33)
    with files.file(1).open("r+b") as file:
        file.truncate(HEADER + 2000)
    before = files.snapshot()
    assert [action.what.split()[0] for action in repair(files.path, dry_run=True).actions] == [
        "extended",
        "header",
    ]
    assert files.snapshot() == before
