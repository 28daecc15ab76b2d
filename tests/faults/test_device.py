"""The device of the power cuts: what its images keep, and that its checks notice a loss."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.device import diary, file_systems, recording
from tests.faults.device.file_systems import FILE_SYSTEMS
from tests.faults.device.recorder import ENTRY
from tests.faults.device.recording import Cut, Recording

ROOT = Path(__file__).resolve().parents[2]
_LACKS = file_systems.missing(["ext4-ordered"])
needs_device = pytest.mark.skipif(
    bool(_LACKS), reason=f"no device can be made here; it lacks {_LACKS}"
)
SIZE = 1 << 20


@pytest.fixture
def record(tmp_path: Path) -> Recording:
    """Return a record: page 0 written and flushed, pages 1 and 2 in one write, page 0 again."""
    writes = [(0, b"a" * 4096), None, (4096, b"b" * 8192), (0, b"c" * 4096)]
    entries, content = b"", b""
    for write in writes:
        offset, data = write or (0, b"")
        entries += ENTRY.pack(offset, len(data), len(content))
        content += data
    (tmp_path / "entries").write_bytes(entries)
    (tmp_path / "bytes").write_bytes(content)
    (tmp_path / "image").write_bytes(bytes(SIZE))
    return Recording(tmp_path / "image", tmp_path)


def image_of(record: Recording, folder: Path, cut: Cut, seed: int = 0) -> bytes:
    record.write_image(cut, random.Random(seed), folder / "cut")
    return (folder / "cut").read_bytes()[: 3 * 4096]


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (Cut(1, 0.0, 0, in_order=False), b"\0\0\0"),
        (Cut(2, 0.0, 0, in_order=False), b"a\0\0"),
        (Cut(4, 0.0, 0, in_order=False), b"a\0\0"),
        (Cut(3, 1.0, 0, in_order=False), b"abb"),
        (Cut(4, 1.0, 512, in_order=False), b"cbb"),
    ],
)
def test_image_has_flushed_writes_and_chosen_others(
    record: Recording, tmp_path: Path, cut: Cut, expected: bytes
) -> None:
    assert len(record) == 4
    assert image_of(record, tmp_path, cut) == b"".join(bytes([each]) * 4096 for each in expected)


@pytest.mark.parametrize(("unit", "parts"), [(0, 1), (4096, 2), (512, 16)])
def test_write_is_torn_at_multiples_of_the_unit(
    record: Recording, tmp_path: Path, unit: int, parts: int
) -> None:
    part, seen = 8192 // parts, set()
    for seed in range(60):
        image = image_of(record, tmp_path, Cut(3, 0.5, unit, in_order=False), seed)
        for at in range(4096, 3 * 4096, part):
            found = image[at : at + part]
            assert found in (bytes(part), b"b" * part)
            seen.add((at, found[:1]))
    assert len(seen) == 2 * parts


def test_device_that_keeps_the_order_keeps_a_prefix(record: Recording, tmp_path: Path) -> None:
    images = {
        image_of(record, tmp_path, Cut(4, 0.0, 0, in_order=True), seed)[::4096]
        for seed in range(30)
    }
    assert images == {b"a\0\0", b"abb", b"cbb"}


def test_note_counts_from_the_entries_it_saw_on(tmp_path: Path) -> None:
    notes = [(3, diary.Report("A", 0, 1)), (5, diary.Report("A", 0, 2))]
    story = diary.story_at(notes, 4)
    assert story.told == [notes[0][1]]
    assert len(story.whole) == 2
    assert diary.moments(notes, 0, 5) == [[0, 1, 2, 3, 4, 5], [3, 5]]


def test_machine_without_the_tools_is_told_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    lacks = file_systems.missing(list(FILE_SYSTEMS))
    assert "root" in lacks[0]
    assert "mkfs.xfs: apt-get install xfsprogs" in lacks


def test_zeros_take_no_space(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20) + b"x" * 4096)
    recording.without_zeros(image)
    assert image.read_bytes() == bytes(1 << 20) + b"x" * 4096
    assert image.stat().st_blocks * 512 <= 8192


def run_device(folder: Path, *arguments: str) -> tuple[int, dict[str, object]]:
    """Run a short leg; return its status and its figures."""
    command = [sys.executable, "-m", "tests.faults.device", "--seed", "1", "--cuts", "8"]
    files = ["--keep", str(folder / "kept"), "--json", str(folder / "figures.json")]
    kinds = ["--file-system", "ext4-ordered", "--workload", "sync-mapped"]
    done = subprocess.run([*command, *files, *kinds, *arguments], cwd=ROOT, check=False)
    return done.returncode, json.loads((folder / "figures.json").read_text())


@needs_device
def test_cuts_of_a_sync_writer_lose_nothing(tmp_path: Path) -> None:
    status, figures = run_device(tmp_path)
    assert status == 0, figures
    assert figures["cuts"] == 8
    assert figures["lost"] == 0
    assert figures["acknowledged"]
    assert not (tmp_path / "kept").exists()


@needs_device
@pytest.mark.long
def test_cuts_notice_a_writer_that_skips_msync(tmp_path: Path) -> None:
    status, figures = run_device(tmp_path, "--lie", "msync")
    assert status == 1, figures
    assert figures["lost"]
    (kept,) = (tmp_path / "kept").iterdir()
    command = [sys.executable, "-m", "tests.faults.device", "--replay", str(kept)]
    again = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert again.returncode == 1
    assert "was appended at" in again.stdout
