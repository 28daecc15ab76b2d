"""`commitlog tail`: records as lines: the last ones, chosen ones, and those that come."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

import commitlog
from commitlog.base.moment import read_moment
from commitlog.base.units import DURATION_LARGEST_S
from commitlog.cli import FAILURE, parameters
from commitlog.cli.beginning import Beginning
from commitlog.cli.clock import Clock
from commitlog.cli.filter import Filter, Pattern
from commitlog.cli.output import Output
from commitlog.cli.printed import FIELDS, FIELDS_DEFAULT, Form, JsonForm, TextForm
from commitlog.cli.reading import reading_options
from commitlog.cli.view import Manner, View
from commitlog.errors import CommitLogError
from commitlog.log.parts import parts_of
from commitlog.tail.replay import Pace
from commitlog.tail.seek import Start, Visibility
from commitlog.tail.segment_holder import OnDamage
from commitlog.tail.tailer import Idle

LAST_DEFAULT = 10


@dataclass(frozen=True)
class _Asked:
    """What stands on the command line."""

    log: str
    last: int | None
    place: Start | None
    sequence: int | None
    moment: str | None
    name: str | None
    reverse: bool
    include: tuple[Pattern, ...]
    exclude: tuple[Pattern, ...]
    until: Pattern | None
    limit: int | None
    follow: bool
    idle: Idle | None
    wait: bool
    speed: float | None
    max_pause_s: float | None
    as_json: bool
    in_hex: bool
    multi_line: bool
    fields: tuple[str, ...]
    zone: dt.tzinfo | None
    visibility: Visibility
    on_damage: OnDamage


@click.command()
@click.argument("log", type=click.Path())
@click.option(
    "-n",
    "--last",
    type=parameters.whole(0),
    metavar="N",
    help=f"The last N records; {LAST_DEFAULT} if nothing is said.",
)
@click.option(
    "--from",
    "place",
    type=parameters.start("first", "end"),
    metavar="POSITION|first|end",
    help="Begin there, in place of the last ones.",
)
@click.option(
    "--from-sequence",
    "sequence",
    type=parameters.whole(0),
    metavar="N",
    help="Begin with the record that has that sequence.",
)
@click.option(
    "--from-time",
    "moment",
    type=parameters.moment,
    metavar="TIME",
    help="Begin with the first record that is not older.",
)
@click.option(
    "--name",
    type=parameters.tailer_name,
    shell_complete=parameters.complete_tailer,
    metavar="NAME",
    help="Begin where that named tailer stands, and move it past what is printed; a new one "
    "begins with the first record.",
)
@click.option("-r", "--reverse", is_flag=True, help="Go back from there, the newest record first.")
@click.option(
    "-i",
    "--include",
    type=parameters.pattern,
    multiple=True,
    metavar="REGEX",
    help="Only records whose value it matches; repeated: all.",
)
@click.option(
    "-e",
    "--exclude",
    type=parameters.pattern,
    multiple=True,
    metavar="REGEX",
    help="No record whose value it matches.",
)
@click.option(
    "--until",
    type=parameters.pattern,
    metavar="REGEX",
    help="End with the first record that it matches, shown or not.",
)
@click.option("--limit", type=parameters.whole(1), metavar="N", help="Print at most N records.")
@click.option(
    "-f", "--follow", is_flag=True, help="Go on with the records as they come, until Ctrl-C."
)
@click.option(
    "--idle",
    type=click.Choice(["spin", "yield", "backoff", "block"]),
    default=None,
    help="With --follow, how to wait: from the least delay to the least work. backoff if "
    "nothing is said.",
)
@click.option(
    "--wait",
    is_flag=True,
    help="With --follow, wait for LOG to be created where there is none yet.",
)
@click.option(
    "--speed",
    type=parameters.speed,
    metavar="X",
    help="Replay: 1 is the recorded pace, 10 ten times that.",
)
@click.option(
    "--max-pause",
    "max_pause_s",
    type=parameters.duration,
    metavar="DURATION",
    help="With --speed, no pause is longer, such as 500ms.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("--hex", "in_hex", is_flag=True, help="Print keys and values in hexadecimal digits.")
@click.option(
    "--multi-line",
    is_flag=True,
    help="Print the value below the other fields, with its own line breaks; with --hex, as a dump.",
)
@click.option(
    "--fields",
    type=parameters.fields,
    default=",".join(FIELDS_DEFAULT),
    show_default=True,
    metavar="LIST",
    help=f"Which fields, in this order, of {', '.join(FIELDS)}.",
)
@click.option(
    "-z",
    "--time-zone",
    "zone",
    type=parameters.zone,
    default="UTC",
    show_default=True,
    metavar="ZONE",
    help="Print times in it, and read those without one: Europe/Berlin, or local.",
)
@reading_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Show the last records of LOG, or those that come.

    A record is a line: position, timestamp, type, key, value, with tabs in between.

    What a terminal would act on is escaped: \\n, \\x1b, \\u202e. A key stands in quotes, and - is
    none. With --json, bytes that are not UTF-8 are base64, and "value_encoding" or "key_encoding"
    says so.

    REGEX is one of Python's, over the bytes of each value alone. Filters come before -n and
    --limit: the last N that are shown.

    TIME is 2026-05-01, 2026-05-01T12:30, 2026-05-01T12:30:00.5+02:00, -10m (s, m, h, d, w),
    yesterday, now, or @1777638600.

    \b
    Examples:
      commitlog tail orders
      commitlog tail -n 100 --json orders
      commitlog tail -f --from first orders
      commitlog tail -f --wait orders
      commitlog tail --include 'ERROR|WARN' --exclude retry orders
      commitlog tail --from-time -10m -z Europe/Berlin orders
      commitlog tail --reverse --limit 3 --fields position,sequence,value orders
      commitlog tail --from first --speed 10 --max-pause 1s orders
      commitlog tail --name billing --limit 100 --json orders
    """
    asked = _Asked(**given)
    _check(context, asked)
    output = Output()
    wait_s = DURATION_LARGEST_S if asked.wait else 0
    with _flushed_on_failure(output), commitlog.open(asked.log, "r", wait_for_log=wait_s) as opened:
        if asked.follow and parts_of(opened).directory.kind == "archive":
            raise click.UsageError(
                "an archive is shown as it is, and nothing comes to it while it is: leave out "
                "--follow"
            )
        named = None if asked.name is None else opened.tailer(asked.name)
        place = None if named is None else named.position
        tailer = opened.tailer(start=place, visibility=asked.visibility, on_damage=asked.on_damage)
        tailer.direction = "backward" if asked.reverse else "forward"
        chosen = Filter(asked.include, asked.exclude)
        beginning = _beginning_of(asked)
        beginning.stand(opened, tailer, chosen, asked.visibility)
        if named is not None:
            named.seek(tailer.position)
        limits = [
            limit
            for limit in (asked.limit, beginning.last if asked.reverse else None)
            if limit is not None
        ]
        manner = Manner(
            form=_form_of(context, asked),
            sequences="sequence" in asked.fields,
            chosen=chosen,
            until=asked.until,
            limit=min(limits, default=None),
            pace=None if asked.speed is None else Pace(asked.speed, asked.max_pause_s),
            idle=asked.idle or "backoff",
        )
        view = View(opened, tailer, manner, output, named)
        if asked.follow:
            view.follow()
        else:
            view.print_present()
    context.exit(FAILURE if view.damage_told else 0)


@contextlib.contextmanager
def _flushed_on_failure(output: Output) -> Iterator[None]:
    """What came before the damage is printed before the word about it."""
    try:
        yield
    except CommitLogError:
        output.flush()
        raise


# --- what was asked for ---------------------------------------------------------------------------


def _check(context: click.Context, asked: _Asked) -> None:
    """Refuse what contradicts itself."""
    starts = {
        "-n": asked.last,
        "--from": asked.place,
        "--from-sequence": asked.sequence,
        "--from-time": asked.moment,
    }
    given = [name for name, value in starts.items() if value is not None]
    if len(given) > 1:
        raise click.UsageError(
            f"{' and '.join(given)} {'both' if len(given) == 2 else 'all'} say where to begin: "
            "use one of them"
        )
    for name, value, what in (
        ("--idle", asked.idle, "says how to wait, which only --follow does"),
        (
            "--wait",
            asked.wait or None,
            "waits for records that are yet to come, which only --follow shows",
        ),
    ):
        if value is not None and not asked.follow:
            raise click.UsageError(f"{name} {what}: add -f, or leave it out")
    if asked.reverse:
        if asked.follow or asked.speed is not None:
            other = (
                "--follow waits for newer records"
                if asked.follow
                else "--speed replays them forward"
            )
            raise click.UsageError(
                f"--reverse goes back to older records, and {other}: use one of them"
            )
        if asked.place == "first":
            raise click.UsageError(
                "--reverse goes back, and nothing comes before --from first: use --from end, or "
                "leave one of them out"
            )
    if asked.max_pause_s is not None and asked.speed is None:
        raise click.UsageError(
            "--max-pause bounds the pauses that --speed makes: add --speed, or leave it out"
        )
    if asked.as_json and (asked.in_hex or asked.multi_line):
        other = "--hex" if asked.in_hex else "--multi-line"
        raise click.UsageError(f"--json and {other} are different ways to print: use one of them")
    if asked.multi_line and "value" not in asked.fields:
        raise click.UsageError(
            "--multi-line is about the value, which --fields leaves out: add it, or leave "
            "--multi-line out"
        )


def _beginning_of(asked: _Asked) -> Beginning:
    if asked.moment is not None:
        return Beginning(timestamp_ns=read_moment(asked.moment, asked.zone))
    if asked.place is not None or asked.sequence is not None:
        return Beginning(place=asked.place, sequence=asked.sequence)
    if asked.last is None and asked.name is not None:
        return Beginning()
    return Beginning(last=LAST_DEFAULT if asked.last is None else asked.last)


def _form_of(context: click.Context, asked: _Asked) -> Form:
    clock = Clock(asked.zone)
    if not asked.as_json:
        return TextForm(asked.fields, clock, in_hex=asked.in_hex, multi_line=asked.multi_line)
    said = context.get_parameter_source("zone") is not click.core.ParameterSource.DEFAULT
    return JsonForm(asked.fields, clock if said else None)
