"""One flipped bit anywhere in a closed log's files: readers return genuine records or raise a
commitlog error.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import CommitLogError
from tests.copies import copy_log
from tests.faults import image
from tests.faults.child import Child, Link
from tests.faults.writers import SEGMENT_SIZE, close_log, mark_of, open_log, value_of
from tests.length import long_count

Start = Callable[..., Child]
FLIPS = 100
LONG_FLIPS = long_count(5_000)
RECORDS = 500


def make_log(path: Path) -> None:
    log, made = open_log(str(path), None, {})
    for index in range(RECORDS):
        if index % 7:
            log.append(value_of(0, index))
        elif index % 2:
            log.append(value_of(0, index), key=b"key %d" % index, type=index)
        else:
            with log.claim(800) as claim:
                value = value_of(0, index)
                claim.buffer[: len(value)] = value
                claim.truncate(len(value))
    close_log(log, made)


def flip_many(link: Link, source: str, target: str, seed: str, flips: int) -> None:
    """Flip a bit, open and read in every way, and restore the files; report each position first."""
    numbers = random.Random(seed)
    files = [
        file for file in sorted(Path(source).iterdir()) if file.name not in ("lock", "cursors")
    ]
    segments = [file for file in files if file.suffix == ".seg"]
    for turn in range(flips):
        shutil.rmtree(target, ignore_errors=True)
        copy_log(source, target)
        file = numbers.choice(segments) if turn % 10 else numbers.choice(files)
        size = file.stat().st_size
        at = numbers.randrange(4096 if turn % 7 == 0 else size) % size
        content = file.read_bytes()[at]
        image.poke(Path(target) / file.name, at, bytes([content ^ 1 << numbers.randrange(8)]))
        link.say("B", turn, int(file.stem) if file.suffix == ".seg" else -1, at)
        for mode in ("r", "a"):
            use(target, mode)
    link.say("Z")


def use(path: str, mode: str) -> None:
    """Read in every way, and in mode "a" append."""
    try:
        with commitlog.open(path, mode) as log:
            read(log, "raise")
            values = read(log, "skip")
            # One flipped bit costs at most one record or, in a header, one segment.
            if values is not None:
                assert len(values) >= RECORDS - SEGMENT_SIZE // 24
            if mode == "a":
                position = log.append(b"9:0:", sync=True)
                assert log.read(position).value == b"9:0:"
    except CommitLogError:
        return  # no other exception may occur


def read(log: commitlog.CommitLog, on_damage: str) -> list[int] | None:
    """Return the indexes of the records read, the same by records, values and batches; None if a
    commitlog error ended the read.
    """
    try:
        with log.tailer(on_damage=on_damage) as tailer:  # type: ignore[arg-type]
            indexes = [mark_of(record.value).index for record in tailer]
        with log.tailer(on_damage=on_damage) as tailer:  # type: ignore[arg-type]
            assert [mark_of(value).index for value in tailer.values()] == indexes
        with log.tailer(on_damage=on_damage) as tailer:  # type: ignore[arg-type]
            batched: list[int] = []
            while batch := tailer.read_batch():
                batched += [mark_of(value).index for value in batch.values()]
            assert batched == indexes
        assert indexes == sorted(set(indexes))
        return indexes
    except CommitLogError:
        return None


def run_flips(tmp_path: Path, path: Path, numbers: random.Random, start: Start, flips: int) -> None:
    make_log(path)
    child = start(flip_many, str(path), str(tmp_path / "flipped"), str(numbers.random()), flips)
    last = None
    while child.alive():
        last = (child.hear_some() or [last])[-1]
    last = (child.hear_rest() or [last])[-1]
    assert child.status == 0, f"a flip did harm: {last} (turn, segment base, byte)"
    assert last is not None
    assert last.kind == "Z"


def test_flipped_bit_gives_genuine_records_or_an_error(
    tmp_path: Path, path: Path, numbers: random.Random, start: Start
) -> None:
    run_flips(tmp_path, path, numbers, start, FLIPS)


@pytest.mark.long
def test_many_bit_flips_give_genuine_records_or_error(
    tmp_path: Path, path: Path, numbers: random.Random, start: Start
) -> None:
    run_flips(tmp_path, path, numbers, start, LONG_FLIPS)
