"""`commitlog dump`: print the headers and frames of segment files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import click

import commitlog
from commitlog.extension import view_of
from commitlog.tools.cli import FAILURE, parameters
from commitlog.tools.cli.output import Output
from commitlog.tools.cli.quantities import size_text
from commitlog.tools.cli.record_format import escaped, json_fields, time_text

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
        view = view_of(opened)
        for number in _numbers(view.segment_numbers(), opened.segment_size, start, stop):
            for found in view.frames(number, start, stop):
                damaged |= found["kind"] == "damage"
                lines = (
                    [json.dumps(json_fields(found))] if as_json else _lines(found, in_hex=in_hex)
                )
                output.write("".join(f"{line}\n" for line in lines).encode())
    output.flush()
    context.exit(FAILURE if damaged else 0)


def _numbers(numbers: list[int], size: int, start: int | None, stop: int | None) -> list[int]:
    return [
        number
        for number in numbers
        if (start is None or (number + 1) * size > start) and (stop is None or number * size < stop)
    ]


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
