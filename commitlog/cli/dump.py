"""`commitlog dump`: the headers and frames of segments, as they stand in their files."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import click

import commitlog
from commitlog._kernel.failure import BUSY, END, ROLLED_BACK
from commitlog._kernel.segments import HEADER_SIZE, Segment
from commitlog.cli import FAILURE, parameters
from commitlog.cli.clock import Clock
from commitlog.cli.output import Output
from commitlog.cli.printed import dumped, escaped
from commitlog.cli.segment_header import segment_header
from commitlog.log.commit_log import CommitLog
from commitlog.log.parts import parts_of

_EXTENDED = 24
_PLAIN = 16
_SHOWN = 64  # bytes of a body that are shown where not all of it is asked for


@click.command()
@click.argument("log", metavar="LOG|FILE.seg", type=click.Path())
@click.option(
    "--from",
    "start",
    type=parameters.position,
    default=None,
    metavar="POSITION",
    help="Frames from there on.",
)
@click.option(
    "--to",
    "stop",
    type=parameters.position,
    default=None,
    metavar="POSITION",
    help="Frames that begin before it.",
)
@click.option(
    "--hex",
    "in_hex",
    is_flag=True,
    help="And the bytes of keys and values, all of them, in hexadecimal.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object a line, with the bodies in hexadecimal.",
)
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

    What is there is printed, sound or not. Changes nothing.

    Of a segment its header, when the log rolled into it, in which cycle, and its seal. Of a frame
    position, offset, kind, length before padding, flags, CRC and whether that is right, and what
    the kind has: a record's timestamp, type, key and the beginning of its value; a claim's owner.
    Between frames: gaps, which are claims without a name; damage, up to the next whole frame; and
    the rest, all zeros.

    \b
    Examples:
      commitlog dump orders
      commitlog dump --from 0x1000 --to 8192 --hex orders
      commitlog dump --json 00000000000067108864.seg

    Exit status 1 when anything is damaged.
    """
    if start is not None and stop is not None and stop < start:
        raise click.UsageError(f"--to ({stop}) is below --from ({start}): nothing lies between")
    output = Output()
    damaged = False
    with commitlog.open(log, "r") as opened:
        clock = Clock()
        for number in _numbers(opened, start, stop):
            parts_of(opened).directory.fetch(number)
            with contextlib.closing(
                _Held(parts_of(opened).directory.open_segment(number, writable=False))
            ) as held:
                for found in _parts(
                    held.segment, _offset_before(opened, held.segment, start), start, stop
                ):
                    damaged |= found["kind"] == "damage"
                    if as_json:
                        output.write(json.dumps(found).encode() + b"\n")
                    else:
                        output.write(
                            "".join(
                                f"{line}\n" for line in _lines(found, clock, in_hex=in_hex)
                            ).encode()
                        )
    output.flush()
    context.exit(FAILURE if damaged else 0)


class _Held:
    """A segment that is released when this is closed."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment

    def close(self) -> None:
        self.segment.release()


def _numbers(log: CommitLog, start: int | None, stop: int | None) -> list[int]:
    size = log.segment_size
    return [
        number
        for number in parts_of(log).queue.numbers()
        if (start is None or (number + 1) * size > start) and (stop is None or number * size < stop)
    ]


def _offset_before(log: CommitLog, segment: Segment, start: int | None) -> int:
    """Where to begin in a segment so as not to pass a position: at the last indexed record before
    it, if nothing but whole frames lead there from the header, so that what is found from there on
    is the same; else at the first frame."""
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


# --- what there is --------------------------------------------------------------------------------


def _parts(
    segment: Segment, offset: int, start: int | None, stop: int | None
) -> Iterator[dict[str, Any]]:
    """The segment's header, then its frames from an offset on and what lies between them, as far as
    they are asked for.
    """
    yield {"kind": "segment", "file": segment.path, **segment_header(segment)}
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
        return {"kind": kind, **found, "step": after - after % 8 - offset}
    fields = segment.fields(offset)
    if code == BUSY:
        return {"kind": "claim", **found, "step": step or segment.size - offset, **fields}
    if code == ROLLED_BACK:
        return {"kind": "skip", **found, "step": step, **fields, "crc_right": True}
    if code != 0:
        return {
            "kind": "damage",
            **found,
            "step": segment.resume(offset) - offset,
            **fields,
            "crc_right": False,
        }
    extended = "EXT" in fields["flags"]
    body = segment.read(
        offset + (_EXTENDED if extended else _PLAIN),
        fields["length"] - (_EXTENDED if extended else _PLAIN),
    )
    key_length = fields.pop("key_length")
    key = None if key_length is None else body[:key_length]
    value = body[key_length or 0 :]
    shown = {"key": None if key is None else key.hex(), "value": value.hex()}
    return {"kind": "record", **found, "step": step, **fields, "crc_right": True, **shown}


# --- for people -----------------------------------------------------------------------------------


def _lines(found: dict[str, Any], clock: Clock, *, in_hex: bool) -> Iterator[str]:
    if found["kind"] == "segment":
        yield from _header_lines(found, clock)
        return
    parts = [
        str(found["position"]),
        str(found["offset"]),
        found["kind"],
        str(found.get("length", found["step"])),
    ]
    if "flags" in found:
        parts.append("+".join(found["flags"]) or "-")
    if "crc" in found:
        parts.append(f"crc {found['crc']:08x} {'right' if found['crc_right'] else 'wrong'}")
    if found["kind"] == "claim":
        parts.append(f"slot {found['slot']}, generation {found['generation']}")
    if found["kind"] in ("skip", "damage", "claim"):
        parts.append(f"goes on at {found['position'] + found['step']}")
    if found["kind"] == "record":
        key = None if found["key"] is None else bytes.fromhex(found["key"])
        value = bytes.fromhex(found["value"])
        parts += [
            clock.text(found["timestamp_ns"]),
            str(found["type"]),
            "-" if key is None else '"' + escaped(key) + '"',
        ]
        if not in_hex:
            parts.append(escaped(value[:_SHOWN]) + "..." * (len(value) > _SHOWN))
        yield "\t".join(parts)
        if in_hex:
            yield from dumped((key or b"") + value)
        return
    yield "\t".join(parts)


def _header_lines(found: dict[str, Any], clock: Clock) -> Iterator[str]:
    yield (
        f"{os.path.basename(found['file'])}: base {found['base']}, {found['size']} bytes, id "
        f"{found['id']}"
    )
    if found["opened_ns"] is None:
        yield "  not opened"
    else:
        yield f"  opened {clock.text(found['opened_ns'])}, cycle {found['cycle']}"
    seal = found["seal"]
    if seal is None:
        yield "  not sealed"
        return
    yield (
        f"  sealed: ends at offset {seal['end']}, {seal['record_count']} records from "
        f"sequence {seal['first_sequence']} on"
    )
    if seal["record_count"]:
        yield (
            f"  timestamps from {clock.text(seal['first_timestamp_ns'])} to "
            f"{clock.text(seal['last_timestamp_ns'])}"
        )
