"""`commitlog dump`: the contents of the files, frame by frame, sound or damaged."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog._kernel.segments import SparseIndex
from commitlog.log import frame_list
from commitlog.log.parts import parts_of
from commitlog.segment import index_file
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from commitlog.segment.seal_table import SealTable
from commitlog.tools import cli
from tests.length import every
from tests.log_files import HEADER, SIZE, LogFiles
from tests.oracle import segment_file as oracle
from tests.tools.cli.program import run


@pytest.fixture
def path(files: LogFiles) -> Path:
    """A segment with one frame of each kind, after a sealed segment."""
    files.full(0, [b"zero", b"one"])
    files.create(1, opened=True)
    offset = files.record(1, HEADER, b"two")
    offset = files.skip(1, offset, 24)
    offset = files.claim(1, offset, 40, slot=3)
    offset = files.record(1, offset, b"three")
    damaged = files.record(1, offset, b"four")
    files.flip(1, offset + 17)
    files.record(1, damaged + 16, b"five")
    return files.path


def dump(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
    done = run("dump", "--json", *arguments)
    assert done.stderr == b""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_every_frame_and_gap_is_printed(path: Path) -> None:
    status, found = dump(path)
    assert status == 1
    assert [part["kind"] for part in found] == [
        *("segment", "record", "record", "skip"),
        *("segment", "record", "skip", "claim", "record", "damage", "record", "rest"),
    ]
    assert [part["value"].encode() for part in found if part["kind"] == "record"] == [
        b"zero",
        b"one",
        b"two",
        b"three",
        b"five",
    ]
    claim = next(part for part in found if part["kind"] == "claim")
    assert (claim["flags"], claim["slot"], claim["generation"], claim["length"]) == (
        ["CLAIMED"],
        3,
        1,
        40,
    )
    # The parts follow one another without a gap, up to the segment's end.
    for number in (0, 1):
        parts = [
            part
            for part in found
            if part["kind"] != "segment" and part["position"] // SIZE == number
        ]
        ends = [part["position"] + part["step"] for part in parts]
        assert [part["position"] for part in parts] == [number * SIZE + HEADER, *ends[:-1]]
        assert ends[-1] == (number + 1) * SIZE


def test_dump_takes_position_range_and_single_segment(path: Path, tmp_path: Path) -> None:
    everything = [part for part in dump(path)[1] if part["kind"] != "segment"]
    start, stop = everything[3]["position"], everything[6]["position"]
    assert [
        part for part in dump("--from", start, "--to", stop, path)[1] if part["kind"] != "segment"
    ] == everything[3:6]
    assert [
        part["path"] for part in dump("--to", HEADER + 1, path)[1] if part["kind"] == "segment"
    ] == [str(path / f"{0:020d}.seg")]
    shutil.copy(path / f"{SIZE:020d}.seg", tmp_path / "x.seg")
    status, alone = dump(tmp_path / "x.seg")
    assert status == 1
    assert alone[1:] == everything[3:]


def reference(path: Path, start: int) -> list[dict[str, Any]]:
    """Return the parts that `--from` must print, chosen from the whole dump."""
    return [
        part
        for part in dump(path)[1]
        if part["kind"] != "segment" and part["position"] + part["step"] > start
    ]


def frames(path: Path, start: int) -> list[dict[str, Any]]:
    return [part for part in dump("--from", start, path)[1] if part["kind"] != "segment"]


@pytest.fixture
def long(files: LogFiles) -> Path:
    """Two sealed segments and an unsealed one, each with a thousand records."""
    files.directory.close()
    shutil.rmtree(files.path)
    with commitlog.open(
        files.path, segment_size=SIZE, tuning=commitlog.Tuning(index_spacing=16)
    ) as log:
        for _ in range(2):
            log.append_many([b"%04d" % number for number in range(1000)])
            log.roll()
        log.append_many([b"%04d" % number for number in range(1000)])
    return files.path


@pytest.mark.parametrize("segment", [1, 2])
def test_range_deep_in_a_segment_is_found_by_its_index(
    long: Path, segment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked = []
    looked_at = frame_list._frame
    monkeypatch.setattr(
        frame_list,
        "_frame",
        lambda held, offset: walked.append(offset) or looked_at(held, offset),
    )
    start = segment * SIZE + HEADER + 900 * 24 + 8
    assert cli.run(["dump", "--from", str(start), "--to", str(start + 48), str(long)]) == 0
    assert 0 < len(walked) <= 256 + 4


HARMS = (
    *("none", "flipped", "zeroed", "claimed", "garbage"),
    *("long claim", "indexed record", "no index"),
)
STARTS = (0, 1, 15, 16, 255, 256, 299, 300, 305, 311, 320, 511, 512, 513, 650, 701, 999)


@pytest.mark.parametrize("harm", HARMS)
@every(4)
def test_range_is_the_same_after_any_preceding_damage(long: Path, harm: str, every: int) -> None:
    """Damage before, around and after the start, and a claim whose length passes indexed
    records.
    """
    file = long / f"{SIZE:020d}.seg"
    content = bytearray(file.read_bytes())
    at = HEADER + 300 * 24
    match harm:
        case "flipped":
            content[at + 17] ^= 1
        case "zeroed":
            content[at : at + 240] = bytes(240)
        case "claimed":
            content[at : at + 8] = oracle.build_claim(24, 3, 1)[:8]
        case "garbage":
            content[at : at + 512] = hashlib.shake_128(b"seed").digest(512)
        case "long claim":
            content[at : at + 8] = oracle.build_claim(400 * 24, 3, 1)[:8]
        case "indexed record":
            content[HEADER + 512 * 24 + 17] ^= 1
        case "no index":
            (long / f"{SIZE:020d}.idx").unlink()
    file.write_bytes(content)
    everything = [part for part in dump(long)[1] if part["kind"] != "segment"]
    for record in STARTS[HARMS.index(harm) % every :: every]:  # the harms take turns
        start = SIZE + HEADER + record * 24 + 8 * (record % 3)
        assert frames(long, start) == [
            part for part in everything if part["position"] + part["step"] > start
        ]


def test_index_contradicting_frames_is_ignored(long: Path) -> None:
    """The index has valid CRCs, but every offset in it is eight bytes too high."""
    directory = LogDirectory(str(long), Identity.parse((long / "log.json").read_bytes(), str(long)))
    try:
        seal = SealTable(directory).get(1)
        assert seal is not None
        index = index_file.read(directory, 1, seal)[0]
        assert index is not None
        shifted = b"".join(
            struct.pack("<Qq", offset + 8, time_ns)
            for offset, time_ns in struct.iter_unpack("<Qq", index.content())
        )
        wrong = SparseIndex(
            index.segment_id, SIZE, index.spacing, shifted, index.records, index.largest_ns
        )
        assert index_file.write(directory, 1, wrong, seal)
        assert index_file.read(directory, 1, seal)[1] == "sound"
    finally:
        directory.close()
    start = SIZE + HEADER + 900 * 24
    assert frames(long, start) == reference(long, start)


def test_range_of_an_archive_reads_no_other_segment(long: Path, tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    assert run("archive", "--keep", long, tmp_path / "place").returncode == 0
    (tmp_path / "place" / f"{0:020d}.seg.zst").write_bytes(b"cut")
    expected = reference(long, SIZE + HEADER)
    assert frames(tmp_path / "place", SIZE + HEADER) == [
        part for part in expected if part["position"] < 2 * SIZE
    ]


def test_text_output_has_the_same_parts(path: Path) -> None:
    done = run("dump", path)
    text = done.stdout.decode()
    assert done.returncode == 1
    for part in (
        "not sealed",
        "opened 1970-01-01T00:00:00.000000005Z, cycle 0",
        "CLAIMED\tslot 3, generation 1",
        "\tzero\n",
        " wrong\t",
        "\trest\t",
    ):
        assert part in text
    assert "66 69 76 65" in run("dump", "--hex", path).stdout.decode()


def test_dump_of_a_sound_log_has_seal_keys_and_types(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SIZE, roll_cycle="DAILY") as log:
        log.append(b"amount=12", key=b"order-42", type=7)
        log.append(b"")
        log.roll()
        log.append(b"next")
        parts_of(log).writer.allocation.sealed_below()  # type: ignore[union-attr]
        cycle = log.cycles()[0].number
    status, found = dump(path)
    assert status == 0
    assert (found[0]["cycle"], found[0]["seal"]["records"], found[0]["seal"]["first_sequence"]) == (
        cycle,
        2,
        0,
    )
    assert (found[1]["key"], found[1]["type"], found[1]["flags"], found[1]["crc_right"]) == (
        "order-42",
        7,
        ["EXT"],
        True,
    )
    assert (found[2]["key"], found[2]["value"], found[2]["flags"]) == (None, "", [])
    assert f"cycle {cycle}\n  sealed: ends at offset" in run("dump", path).stdout.decode()
