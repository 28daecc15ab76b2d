"""`commitlog dump`: print the headers and frames of segment files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import click

import commitlog
from commitlog import CommitLog
from commitlog._kernel.failure import BUSY, END, ROLLED_BACK
from commitlog._kernel.segments import FRAME_EXTENDED, FRAME_HEADER, frame_fields
from commitlog.cli import FAILURE, parameters
from commitlog.cli.output import Output
from commitlog.cli.quantities import size_text
from commitlog.cli.record_format import escaped, json_fields, time_text
from commitlog.cli.report import segment_header
from commitlog.extension import FRAME_ALIGN, HEADER_SIZE, Segment
from commitlog.log.parts import parts_of

_SHOWN = 64  # bytes of a value that are printed without --hex


@click.command()
@click.argument("log", metavar="LOG|FILE.seg", type=click.Path())
@click.option(
    "--from", "start", type=parameters.position, metavar="POSITION", help="Begin at this position."
)
@click.option(
    "--to", "stop", type=parameters.position, metavar="POSITION", help="End before this position."
)
@click.option(
    "--hex", "in_hex", is_flag=True, help="Print all bytes of keys and values in hexadecimal."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.pass_context
def command(
    context: click.Context,
    *,
    log: str,
    start: int | None,
    stop: int | None,
    in_hex: bool,
    as_json: bool,
) -> None:
    """Print LOG or a segment file frame by frame.

    It prints what the files hold, damaged or not, and changes nothing.

    For a segment it prints the header and the seal. For a frame it prints position, offset, kind,
    length, flags, CRC, and whether the CRC matches; for a record also timestamp, type, key and the
    start of the value. Between frames it prints gaps (claims without an owner), damage (up to the
    next valid frame), and the zeros at the end.

    \b
    Examples:
      commitlog dump orders
      commitlog dump --from 0x1000 --to 8192 --hex orders
      commitlog dump --json 00000000000067108864.seg

    The exit status is 1 if anything is damaged.
    """
    if start is not None and stop is not None and stop < start:
        raise click.UsageError(f"--to ({stop}) is below --from ({start}): swap them")
    output = Output()
    damaged = False
    with commitlog.open(log, "r") as opened:
        directory = parts_of(opened).directory
        for number in _numbers(opened, start, stop):
            directory.fetch(number)
            with directory.opened_segment(number) as segment:
                first = _offset_before(opened, segment, start)
                for found in _parts(segment, first, start, stop):
                    damaged |= found["kind"] == "damage"
                    lines = (
                        [json.dumps(json_fields(found))]
                        if as_json
                        else _lines(found, in_hex=in_hex)
                    )
                    output.write("".join(f"{line}\n" for line in lines).encode())
    output.flush()
    context.exit(FAILURE if damaged else 0)


def _numbers(log: CommitLog, start: int | None, stop: int | None) -> list[int]:
    size = log.segment_size
    return [
        number
        for number in parts_of(log).queue.numbers()
        if (start is None or (number + 1) * size > start) and (stop is None or number * size < stop)
    ]


def _offset_before(log: CommitLog, segment: Segment, start: int | None) -> int:
    """Return the offset in a segment at which to begin for a position.

    It is the last indexed record before the position, if only valid frames lead there from the
    header: then the output is the same as from the first frame. Otherwise it is the first frame.
    """
    wanted = 0 if start is None else start - segment.base
    if wanted <= HEADER_SIZE:
        return HEADER_SIZE
    index = parts_of(log).index
    entry = index.finder.entry(index.reaching(segment, wanted), wanted, before=True)
    return (
        entry
        if entry is not None and segment.scan(HEADER_SIZE, entry)[:2] == (entry, 0)
        else HEADER_SIZE
    )


# --- content -------------------------------------------------------------------------------------


def _parts(
    segment: Segment, offset: int, start: int | None, stop: int | None
) -> Iterator[dict[str, Any]]:
    """Yield the header of a segment, then its frames and what is between them, from an offset up to
    a position.
    """
    yield {"kind": "segment", "path": segment.path, **segment_header(segment)}
    while offset < segment.size:
        found = _frame(segment, offset)
        position = segment.base + offset
        if stop is not None and position >= stop:
            return
        if start is None or position + found["step"] > start:
            yield found
        offset += found["step"]


def _frame(segment: Segment, offset: int) -> dict[str, Any]:
    code, step = segment.step(offset)
    found: dict[str, Any] = {"position": segment.base + offset, "offset": offset}
    if code == END:
        after = segment.nonzero(offset, segment.size)
        kind = "rest" if after >= segment.size else "gap"
        return {"kind": kind, **found, "step": after - after % FRAME_ALIGN - offset}
    fields = frame_fields(segment, offset)
    key_length = fields.pop("key_length", None)
    if code == BUSY:
        return {"kind": "claim", **found, "step": step or segment.size - offset, **fields}
    if code == ROLLED_BACK:
        return {"kind": "skip", **found, "step": step, **fields, "crc_right": True}
    if code != 0:
        step = segment.resume(offset) - offset
        return {"kind": "damage", **found, "step": step, **fields, "crc_right": False}
    header = FRAME_EXTENDED if "EXT" in fields["flags"] else FRAME_HEADER
    body = segment.read(offset + header, fields["length"] - header)
    content = {
        "key": None if key_length is None else body[:key_length],
        "value": body[key_length or 0 :],
    }
    return {"kind": "record", **found, "step": step, **fields, "crc_right": True, **content}


# --- text -----------------------------------------------------------------------------------------


def _lines(found: dict[str, Any], *, in_hex: bool) -> Iterator[str]:
    if found["kind"] == "segment":
        yield from _header_lines(found)
        return
    length = found.get("length", found["step"])
    parts = [str(found["position"]), str(found["offset"]), found["kind"], str(length)]
    if "flags" in found:
        parts.append("+".join(found["flags"]) or "-")
    if "crc" in found:
        parts.append(f"crc {found['crc']:08x} {'right' if found['crc_right'] else 'wrong'}")
    if found["kind"] == "claim":
        parts.append(f"slot {found['slot']}, generation {found['generation']}")
    if found["kind"] in ("skip", "damage", "claim"):
        parts.append(f"next at {found['position'] + found['step']}")
    if found["kind"] == "record":
        key, value = found["key"], found["value"]
        parts += [
            time_text(found["timestamp_ns"]),
            str(found["type"]),
            "-" if key is None else '"' + escaped(key) + '"',
        ]
        if not in_hex:
            parts.append(escaped(value[:_SHOWN]) + "..." * (len(value) > _SHOWN))
        yield "\t".join(parts)
        if in_hex:
            yield from _hex_lines((key or b"") + value)
        return
    yield "\t".join(parts)


def _header_lines(found: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{os.path.basename(found['path'])}: base {found['base_position']}, "
        f"{size_text(found['segment_size'])}, id {found['segment_id']}"
    )
    if found["opened_ns"] is None:
        yield "  not opened"
    else:
        yield f"  opened {time_text(found['opened_ns'])}, cycle {found['cycle']}"
    seal = found["seal"]
    if seal is None:
        yield "  not sealed"
        return
    yield (
        f"  sealed: ends at offset {seal['end_offset']}, {seal['records']} records from "
        f"sequence {seal['first_sequence']}"
    )
    if seal["records"]:
        yield (
            f"  timestamps from {time_text(seal['first_timestamp_ns'])} to "
            f"{time_text(seal['last_timestamp_ns'])}"
        )


def _hex_lines(content: bytes) -> Iterator[str]:
    """Yield lines of an offset, sixteen bytes, and the printable ones of them."""
    for start in range(0, len(content), 16):
        piece = content[start : start + 16]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
        yield f"    {start:08x}  {piece[:8].hex(' '):<23}  {piece[8:].hex(' '):<23}  |{text}|"
