"""`docs/format.md` describes the format: this module parses its example and compares its tables
with the kernel.
"""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

from tests.oracle.segment_file import (
    Kind,
    LogValue,
    build_frame,
    build_header,
    build_skip,
    frames,
    log_values,
    read_header,
)

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "format.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """Return the page's only code block of that language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return str(found)


def example_log() -> dict[str, object]:
    log = json.loads(block("json"))
    assert isinstance(log, dict)
    return log


def example_segment() -> bytes:
    size = example_log()["segment_size"]
    assert isinstance(size, int)
    segment = bytearray(size)
    for line in block("hex").splitlines():
        offset, *octets = line.split()
        assert len(octets) == 16
        segment[int(offset, 16) : int(offset, 16) + 16] = bytes.fromhex("".join(octets))
    return bytes(segment)


def stated_rows() -> list[list[str]]:
    """The table of frames below the example, without its heading."""
    table = TEXT.partition("| position | offset | kind |")[2].split("\n\n")[0]
    return [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in table.splitlines()[2:]
    ]


def test_example_header_matches_its_description() -> None:
    header = read_header(example_segment())
    log = example_log()
    assert log["format"] == {"major": header.major, "minor": header.minor}
    assert (str(uuid.UUID(bytes=header.log_uuid)), header.size) == (
        log["uuid"],
        log["segment_size"],
    )
    assert f"at base {header.base:,} of the log" in TEXT
    assert f"Its id is `{header.segment_id:#x}`; it was created at {header.created_ns}" in TEXT
    assert header.opened is None
    assert header.seal is None


def test_example_frames_match_the_table() -> None:
    found = list(frames(example_segment()))
    assert all(frame.crc_ok for frame in found)
    rows = []
    for frame in found:
        row = [
            str(frame.position),
            str(frame.offset),
            frame.kind.value,
            str(frame.length),
            str(frame.step),
        ]
        if frame.kind is Kind.RECORD:
            key = "none" if frame.key is None else frame.key.decode()
            rows.append([*row, str(frame.timestamp_ns), str(frame.type), key, frame.value.decode()])
        else:
            rows.append([*row, "", "", "", ""])
    assert rows == stated_rows()


def test_writer_reproduces_the_example() -> None:
    segment = example_segment()
    header = read_header(segment)
    written = build_header(
        log_uuid=header.log_uuid,
        segment_id=header.segment_id,
        base=header.base,
        size=header.size,
        created_ns=header.created_ns,
    )
    for frame in frames(segment):
        assert frame.offset == len(written)
        if frame.kind is Kind.RECORD:
            written += build_frame(
                header.segment_id,
                frame.offset,
                frame.value,
                timestamp_ns=frame.timestamp_ns,
                type=frame.type,
                key=frame.key,
            )
        else:
            written += build_skip(header.segment_id, frame.offset, frame.length)
    assert written.ljust(header.size, b"\0") == segment


def test_example_files_open_as_a_log(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(block("json"), encoding="utf-8")
    header = read_header(example_segment())
    (tmp_path / f"{header.base:020}.seg").write_bytes(example_segment())
    assert log_values(tmp_path) == [
        LogValue(69632, 1767225600000000001, 0, None, b"hello"),
        LogValue(69656, 1767225600000000002, 7, b"order-42", b"amount=12"),
    ]


def test_every_flipped_bit_of_a_record_fails_its_crc() -> None:
    segment = example_segment()
    start, end = 4096, 4096 + 21
    for bit in range(start * 8, end * 8):
        flipped = bytearray(segment)
        flipped[bit // 8] ^= 1 << bit % 8
        first = next(frames(bytes(flipped)))
        assert not first.crc_ok, f"bit {bit - start * 8} of the frame changed unnoticed"


def test_header_table_has_the_kernel_offsets() -> None:
    source = (
        Path(__file__).resolve().parents[1] / "commitlog" / "_kernel" / "c" / "frame.h"
    ).read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| \d+ \| (\w+) \|", TEXT, re.MULTILINE)
    # The first table with such rows is that of the header.
    stated = {field: int(at) for at, field in reversed(rows)}
    parts = {"identity": 0, "durable": 72, "opened": 128, "seal": 256}
    assert dict(re.findall(r"#define CL_HEADER_(\w+)_AT (\d+)u", source)) == {
        part.upper(): str(at) for part, at in parts.items()
    }
    for part, field, at in re.findall(r"offsetof\(cl_header_(\w+), (\w+)\) == (\d+)", source):
        if field != "crc":
            assert stated[field] == parts[part] + int(at)
