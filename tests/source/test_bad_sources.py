"""What a source returns is checked: each fault is one clear error, and never a crash."""

from __future__ import annotations

import contextlib
import os
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.errors import CorruptSegmentError, NotALogError, PositionError
from commitlog.extension import Identity, SegmentRef, SegmentSource, open_source
from commitlog.source.source_directory import SourceDirectory

SEGMENT = 64 << 10
COUNT = 6000  # three segments
IN_SEGMENT = 2560  # records


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        for number in range(COUNT):
            log.append(b"%d" % number)
    return tmp_path / "log"


class Folder(SegmentSource):
    """The segments of a closed log's directory, as another place."""

    def __init__(self, path: Path) -> None:
        self.location = str(path)
        self.identity = Identity.parse((path / "log.json").read_bytes(), self.location)
        self.files = sorted(path.glob("*.seg"))
        self.refs: Sequence[Any] = [
            SegmentRef(number, SEGMENT, whole=False) for number in range(len(self.files))
        ]
        self.told: Any = None
        self.write: Callable[[bytes], bytes] = bytes
        self.page: Callable[[bytes], bytes] = bytes
        self.closed = 0

    def segments(self) -> Sequence[SegmentRef]:
        return self.refs

    def header(self, number: int) -> bytes:
        return self.page(self.files[number].read_bytes()[:4096])

    def fill(self, number: int, fd: int) -> None:
        os.write(fd, self.write(self.files[number].read_bytes()))

    def end(self) -> int | None:
        return self.told

    def close(self) -> None:
        self.closed += 1


def read(source: SegmentSource) -> list[bytes]:
    with open_source(source) as log, log.tailer() as tailer:
        return [bytes(record.value) for record in tailer]


def tar_log(path: Path) -> SegmentSource:
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    try:
        from tar_log import TarLog
    finally:
        sys.path.pop(0)
    return TarLog(str(path))


def test_sound_source_gives_every_record(path: Path) -> None:
    source = Folder(path)
    assert read(source) == [b"%d" % number for number in range(COUNT)]
    assert source.closed > 0


@pytest.mark.parametrize(
    ("refs", "why"),
    [
        ([SegmentRef(-1, 0)], "numbers ascend"),
        ([SegmentRef(1 << 32, 0)], "numbers ascend"),
        ([SegmentRef(1, 0), SegmentRef(0, 0)], "numbers ascend"),
        ([SegmentRef(0, 0), SegmentRef(0, 0)], "numbers ascend"),
        ([SegmentRef("0", 0)], "numbers ascend"),  # type: ignore[arg-type]
        ([SegmentRef(0, -1)], "takes -1 bytes"),
    ],
)
def test_impossible_list_of_segments_is_refused(path: Path, refs: Any, why: str) -> None:
    source = Folder(path)
    source.refs = refs
    with pytest.raises(CorruptSegmentError, match=why):
        read(source)
    assert source.closed > 0


@pytest.mark.parametrize(
    "end",
    [
        1 << 40,
        -8,
        4099,
        4096.0,
        "4096",
    ],
)
def test_impossible_end_is_refused(path: Path, end: Any) -> None:
    source = Folder(path)
    source.told = end
    with pytest.raises(CorruptSegmentError, match="says that the log ends at"):
        read(source)


@pytest.mark.parametrize(
    "write",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[: SEGMENT // 2],
        lambda content: content + b"more",
    ],
)
def test_segment_of_wrong_size_is_refused(path: Path, write: Callable[[bytes], bytes]) -> None:
    source = Folder(path)
    source.write = write
    with pytest.raises(CorruptSegmentError, match="wrote a segment of"):
        read(source)


def test_segment_of_another_log_is_refused(path: Path, tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "other", segment_size=SEGMENT) as log:
        log.append(b"other")
    source = Folder(path)
    source.files[0] = next((tmp_path / "other").glob("*.seg"))
    with pytest.raises(CorruptSegmentError, match="is not the header of this segment"):
        read(source)


@pytest.mark.parametrize("page", [lambda page: page[:100], lambda page: bytes(4096)])
def test_short_or_foreign_header_is_refused(path: Path, page: Callable[[bytes], bytes]) -> None:
    source = Folder(path)
    source.page = page
    with (
        contextlib.closing(SourceDirectory(source, 0)) as directory,
        pytest.raises(CorruptSegmentError, match="is not the header of this segment"),
    ):
        directory.read_header(0)


def test_lost_record_below_the_end_is_damage(path: Path) -> None:
    source = Folder(path)
    source.told = SEGMENT
    source.write = lambda content: content[:8192] + bytes(len(content) - 8192)
    with pytest.raises(commitlog.errors.CorruptRecordError):
        read(source)


@pytest.mark.parametrize("more", [0, COUNT])
def test_missing_segment_between_others_is_damage(path: Path, more: int) -> None:
    with commitlog.open(path) as log:  # without more, later segments have no records
        for number in range(more):
            log.append(b"%d" % number)
    source = Folder(path)
    source.refs = [ref for ref in source.refs if ref.number != 1]
    with open_source(source) as log, log.tailer() as tailer:
        before = [tailer.read() for _ in range(IN_SEGMENT)]
        assert before[-1] is not None
        for _ in range(2):  # it stays an error
            with pytest.raises(CorruptSegmentError, match="segment 1 is missing") as caught:
                tailer.read()
            assert caught.value.position == SEGMENT
            assert caught.value.path == f"{source.location}#{SEGMENT}"
        assert tailer.seek("first")
        assert tailer.read() is not None  # what is before the damage can be read


def test_segment_that_retention_deleted_is_a_position_error(path: Path) -> None:
    source = Folder(path)

    def delete() -> None:
        source.refs = [ref for ref in source.refs if ref.number > 1]

    source.list_again = delete  # type: ignore[method-assign]
    source.refs = [ref for ref in source.refs if ref.number != 1]
    with (
        open_source(source) as log,
        log.tailer(start=SEGMENT) as tailer,
        pytest.raises(PositionError, match="were deleted") as caught,
    ):
        tailer.read()
    assert caught.value.first_position == 2 * SEGMENT


def test_segment_that_a_listing_shows_late_is_read(path: Path) -> None:
    with commitlog.open(path) as log:
        for number in range(COUNT):
            log.append(b"%d" % number)
    source, listings = Folder(path), iter(range(3))
    whole = source.refs

    def list_again() -> None:
        if next(listings, None) is None:
            source.refs = whole

    source.list_again = list_again  # type: ignore[method-assign]
    source.refs = [ref for ref in whole if ref.number != 1]
    assert len(read(source)) == 2 * COUNT


def test_missing_segment_of_a_tar_file_is_damage(tmp_path: Path, path: Path) -> None:
    next(path.glob("*65536.seg")).unlink()
    with tarfile.open(tmp_path / "log.tar", "w") as tar:
        tar.add(path, "log")
    with pytest.raises(CorruptSegmentError, match="segment 1 is missing"):
        read(tar_log(tmp_path / "log.tar"))


def test_full_folder_is_an_error(path: Path) -> None:
    source = Folder(path)

    def write(content: bytes) -> bytes:
        raise OSError(28, "No space left on device")

    source.write = write
    with pytest.raises(commitlog.errors.IOFailureError, match="TMPDIR"):
        read(source)


def test_tar_without_log_or_with_damaged_identity_is_refused(tmp_path: Path, path: Path) -> None:
    with tarfile.open(tmp_path / "log.tar", "w") as tar:
        tar.add(path, "log")
    assert read(tar_log(tmp_path / "log.tar")) == [b"%d" % each for each in range(COUNT)]
    with commitlog.open(tmp_path / "log.tar", "r") as log:
        assert log.count() == COUNT
    (path / "log.json").write_text("{}")
    for name, source in (("a.tar", path), ("b.tar", path / "lock")):
        with tarfile.open(tmp_path / name, "w") as tar:
            tar.add(source, "log/lock" if source.is_file() else "log")
        with pytest.raises(NotALogError):
            tar_log(tmp_path / name)
