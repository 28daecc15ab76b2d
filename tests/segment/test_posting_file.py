"""Posting files: what is listed is found; a damaged or foreign file is never taken for sound."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from commitlog import CommitLog
from commitlog.log.parts import parts_of
from commitlog.segment import posting_file
from commitlog.segment.posting_file import PART_RECORDS, Kind, hash_of_key, hash_of_type
from commitlog.segment.segment_header import Seal
from tests.setups import BY_HAND, HEADER, SEGMENT, Logs

MILLION = 1 << 20


def sealed(logs: Logs, count: int = 100) -> tuple[CommitLog, Seal]:
    log = logs.open(**BY_HAND)
    for number in range(count):
        log.append(b"v", type=number % 7, key=b"%d" % (number % 11))
    log.roll()
    log.append(b"next")
    log.flush()
    assert parts_of(log).writer.allocation.sealed_below() >= 1
    seal = parts_of(log).index.seals.get(0)
    assert seal is not None
    return log, seal


def spread(*numbers: int) -> list[int]:
    """Return hashes that differ in all of their bits."""
    return [number * 2654435761 % (1 << 32) for number in numbers]


def pst(log: CommitLog, number: int = 0) -> Path:
    return Path(log.path) / f"{number * SEGMENT:020d}.pst"


def write(
    log: CommitLog, seal: Seal, hashes: list[list[int]], kind: Kind = "keys", records: int = 0
) -> dict[int, list[int]]:
    """File parts with these hashes, one a record from the first frame on, 8 bytes each; return what
    is to be found.
    """
    expected = defaultdict(list)
    parts, offset = [], HEADER
    for part in hashes:
        offsets = np.arange(offset, offset + 8 * len(part), 8, dtype=np.uint64)
        pairs = np.array(part, dtype=np.uint64) << np.uint64(32) | offsets
        offset += 8 * len(part)
        for hash_, at in zip(part, offsets.tolist(), strict=True):
            expected[hash_].append(at)
        parts.append((kind, np.random.default_rng(1).permutation(pairs), records or len(part)))
    assert posting_file.write(parts_of(log).directory, 0, seal, parts)
    return expected


def read(log: CommitLog, seal: Seal) -> posting_file.PostingFile | None:
    return posting_file.read(parts_of(log).directory, 0, seal)[0]


def test_layout_is_the_documented_one(logs: Logs) -> None:
    log, seal = sealed(logs)
    write(log, seal, [[5, 5, 9, 7]], "types", records=100)
    content = pst(log).read_bytes()
    assert content[:16] == b"CMLPST01" + bytes([1, 0, 0, 0, 64, 0, 0, 0])
    assert content[16:32] == log.identity.uuid
    numbers = np.frombuffer(content, "<u4")
    assert int.from_bytes(content[32:40], "little") == seal.segment_id
    assert numbers[10] == seal.crc
    assert numbers[11] == 1  # section
    assert int.from_bytes(content[48:56], "little") == len(content)
    # kind, shift, dense, rows, entries: three hashes of four are distinct, so they share lists
    assert numbers[16:21].tolist() == [0, 32, 0, 1, 4]


@pytest.mark.parametrize(
    ("few", "most"),
    [(3, 4.0), (1000, 4.2), (30_000, 8.0), (1 << 32, 8.0)],
    ids=["few", "thousand", "many", "all different"],
)
def test_hashes_are_found_in_little_space(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, few: int, most: float
) -> None:
    log, seal = sealed(logs)
    count = 100_000
    generator = random.Random(few)
    hashes = spread(*[generator.randrange(few) for _ in range(count)])
    expected = write(log, seal, [hashes[: count // 2], hashes[count // 2 :]])
    monkeypatch.setattr(parts_of(log).directory, "segment_size", 8 * MILLION)
    assert os.stat(pst(log)).st_size <= count * most + 1000
    file = read(log, seal)
    assert file is not None
    for wanted in [*random.Random(1).sample(sorted(expected), min(300, len(expected))), 12345]:
        found = file.find("keys", wanted)
        if found is None:
            assert len(expected[wanted]) * 4 > count // 2
        else:
            # The reader compares keys, so that a hash too many does no harm.
            assert set(expected[wanted]) <= set(found.tolist())
            assert len(found) <= len(expected[wanted]) + 2


def test_a_hash_of_most_records_has_no_list(logs: Logs) -> None:
    log, seal = sealed(logs)
    write(log, seal, [spread(*[1] * 30, 2, 3)], "types")
    file = read(log, seal)
    assert file is not None
    assert file.find("types", *spread(1)) is None
    assert file.find("types", *spread(4)).tolist() == []  # type: ignore[union-attr]
    assert file.find("types", *spread(3)).tolist() == [HEADER + 31 * 8]  # type: ignore[union-attr]
    assert file.find("keys", 1).tolist() == []  # type: ignore[union-attr]


def test_every_flipped_byte_is_noticed_or_harmless(logs: Logs) -> None:
    log, seal = sealed(logs)
    expected = write(
        log, seal, [spread(*[number % 5 for number in range(60)]), spread(*range(100, 150))]
    )
    content = pst(log).read_bytes()
    directory = parts_of(log).directory
    for at in range(0, len(content), 3):
        pst(log).write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        assert posting_file.checked(directory, 0, seal) in ("damaged", "stale"), at
        file = read(log, seal)
        for wanted in spread(3, 120) if file is not None else ():
            try:
                found = file.find("keys", wanted)
            except posting_file.DamagedPostingsError:
                continue
            assert found is not None
            assert found.tolist() == expected[wanted]


@pytest.mark.parametrize("kept", [0, 1, 63, 64, 100, -1])
def test_cut_or_grown_file_is_damaged(logs: Logs, kept: int) -> None:
    log, seal = sealed(logs)
    write(log, seal, [list(range(60))])
    content = pst(log).read_bytes()
    pst(log).write_bytes(content[:kept])
    assert posting_file.read(parts_of(log).directory, 0, seal) == (None, "damaged")
    pst(log).write_bytes(content + b"more")
    assert posting_file.read(parts_of(log).directory, 0, seal) == (None, "damaged")


def test_file_of_another_seal_is_stale(logs: Logs) -> None:
    log, seal = sealed(logs)
    write(log, seal, [[1, 2, 3]])
    directory = parts_of(log).directory
    for other in (
        Seal(seal.segment_id, seal.crc ^ 1, *[0] * 6),
        Seal(seal.segment_id ^ 1, seal.crc, *[0] * 6),
    ):
        assert posting_file.read(directory, 0, other) == (None, "stale")


@pytest.mark.parametrize("kind", ["directory", "fifo", "link"])
def test_irregular_file_is_damaged(logs: Logs, kind: str) -> None:
    log, seal = sealed(logs)
    make = {"directory": os.mkdir, "fifo": os.mkfifo, "link": lambda path: os.symlink("x", path)}
    make[kind](pst(log))
    assert posting_file.read(parts_of(log).directory, 0, seal) == (None, "damaged")


def test_each_type_has_another_hash() -> None:
    types = [0, 1, 2, 0xC000_0000, 0xFFFF_FFFF, *range(1000, 3000)]
    assert len({hash_of_type(type) for type in types}) == len(types)
    assert hash_of_key(b"123456789") == 0xE3069283
    assert PART_RECORDS == MILLION
