"""`commitlog tail`: print records as lines: the last ones, a selection, or new ones."""

from __future__ import annotations

from typing import Any

import click

from commitlog.base.pace import Pace
from commitlog.base.units import DURATION_LARGEST_S
from commitlog.extension import view_of
from commitlog.tools.cli import FAILURE, has_color, parameters
from commitlog.tools.cli.batch_headers import BatchHeaders
from commitlog.tools.cli.filter import Pattern
from commitlog.tools.cli.message_lines import MessageLines
from commitlog.tools.cli.output import Output
from commitlog.tools.cli.reading import Selection, chosen_format, reading_options
from commitlog.tools.cli.record_format import BYTE_FORMATS, LINE, RecordFormat, Template, format_of
from commitlog.tools.cli.sink import ByteSink
from commitlog.tools.cli.view import View

LAST_DEFAULT = 10


@click.command()
@click.argument("log", type=click.Path())
@click.option(
    "-n",
    "--last",
    type=parameters.whole(0),
    metavar="N",
    help=f"Print the last N records.  [default: {LAST_DEFAULT}]",
)
@click.option(
    "--name",
    type=parameters.tailer_name,
    shell_complete=parameters.complete_tailer,
    metavar="NAME",
    help="Begin at the position of this named tailer, and move it past each printed record.",
)
@click.option("-r", "--reverse", is_flag=True, help="Print the newest record first.")
@click.option(
    "-f", "--follow", is_flag=True, help="Print new records as they arrive, until Ctrl-C."
)
@click.option("--wait", is_flag=True, help="With --follow, wait until LOG is created.")
@click.option(
    "--stop-at",
    type=parameters.pattern,
    metavar="REGEX",
    help="End after the first record whose value REGEX matches.",
)
@click.option(
    "--speed",
    type=parameters.speed,
    metavar="X",
    help="Replay with the recorded pauses, X times as fast.",
)
@click.option(
    "--max-pause",
    type=parameters.duration,
    metavar="DURATION",
    help="With --speed, limit each pause to this.",
)
@click.option(
    "--format",
    type=parameters.record_format(*BYTE_FORMATS),
    shell_complete=parameters.complete_words(*BYTE_FORMATS),
    metavar="NAME|TEMPLATE",
    help="Print in this format.  [default: the line described above]",
)
@click.option(
    "--max-width",
    type=parameters.whole(1),
    metavar="N",
    help="Cut lines to N columns.",
)
@reading_options
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    log: str,
    last: int | None,
    name: str | None,
    reverse: bool,
    follow: bool,
    wait: bool,
    stop_at: Pattern | None,
    speed: float | None,
    max_pause: float | None,
    format: str | None,
    max_width: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Print the last records of LOG, or follow it.

    Each record is a line of position, timestamp, type, key and value, separated by tabs. Control
    characters are escaped: \\n, \\x1b, \\u202e. A key is in quotes; - means no key. On a terminal,
    the matches of --include are highlighted.

    TEMPLATE is text with fields in braces: '{sequence} {value}\\n'. The fields are position,
    sequence, timestamp, timestamp_ns, type, key, value, headers and headers[NAME]; {value:x} prints
    hexadecimal digits. The other formats are those of `commitlog cat`.

    REGEX is a Python regular expression; it is searched for in the bytes of each value. -n and
    --limit count only records that pass --include, --exclude, --topic and --where.

    With --decode, each message is a document of YAML, with its topic and its fields below; its
    first line has position, timestamp and key. A CONDITION compares fields with values and with
    each other by ==, !=, <, <=, >, >= and in; and, or, not and parentheses join comparisons. Texts
    are in quotes; a.b is the field b of a, and a[0] the first item of a.

    TIME is 2026-05-01, 2026-05-01T12:30:00.5+02:00, 10m or -10m (10 minutes ago; units s, m, h, d,
    w), today, yesterday, now, or @1777638600.

    \b
    Examples:
      commitlog tail orders
      commitlog tail -n 100 --json orders
      commitlog tail -f --from first orders
      commitlog tail --include 'ERROR|WARN' --exclude retry --max-width 120 orders
      commitlog tail --since 10m -z Europe/Berlin orders
      commitlog tail --reverse --limit 3 --format '{sequence} {value}\\n' orders
      commitlog tail --from first --speed 10 --max-pause 1s orders
      commitlog tail -f --since 2026-05-01 --store s3://bucket/orders orders
      commitlog tail --name billing --limit 100 --json orders
      commitlog tail --decode --where 'amount > 3 and customer.city == "Rome"' orders
      commitlog tail -f --method sold orders
      commitlog tail --history packed
    """
    if wait and not follow:
        raise click.UsageError("--wait needs --follow: add it, or leave out --wait")
    for other, used in (
        ("--follow", follow),
        ("--speed", speed is not None),
        ("--name", name is not None),
    ):
        if reverse and used:
            raise click.UsageError(f"--reverse and {other} exclude each other: use one of them")
    if max_pause is not None and speed is None:
        raise click.UsageError("--max-pause needs --speed: add it, or leave out --max-pause")
    selection = Selection(last=last, reverse=reverse, **given)
    if name is None and not selection.begins_by_option():
        selection = Selection(last=LAST_DEFAULT, reverse=reverse, **given)
    chosen = chosen_format(format, as_json=as_json)
    selection.check_format(chosen)
    headers = BatchHeaders(skips=selection.on_damage == "skip")
    form = _format_of(chosen or LINE, selection, headers, max_width)
    wait_s = DURATION_LARGEST_S if wait else 0
    with Output() as output, selection.opened(log, wait_s) as opened:
        if follow and not view_of(opened).grows:
            raise click.UsageError(
                "an archive does not change while it is open: leave out --follow"
            )
        named = None if name is None else opened.tailer(name)
        pace = None if speed is None else Pace(speed, max_pause)
        decoder = selection.decoder(opened, follow=follow)
        if chosen is None and decoder is not None:
            sink = ByteSink(output, MessageLines(decoder, selection.zone, max_width))
        else:
            sink = ByteSink(output, form, decoder)
        view = View(
            opened,
            selection,
            sink,
            decoder,
            stop_at=stop_at,
            pace=pace,
            follow=follow,
            named=named,
        )
        view.run()
    if decoder is not None:
        decoder.report_fields()
    is_undecodable = decoder is not None and decoder.undecodable > 0
    context.exit(FAILURE if view.damaged or headers.damaged or is_undecodable else 0)


def _format_of(
    format: str, selection: Selection, headers: BatchHeaders, max_width: int | None
) -> RecordFormat:
    if format in BYTE_FORMATS:
        if max_width is not None:
            raise click.UsageError(
                f"--max-width needs a template, not the format {format}: leave out one of them"
            )
        return format_of(format, selection.zone, headers, escape=True)
    highlight = selection.include if has_color() else ()
    return Template(
        format, selection.zone, headers, escape=True, highlight=highlight, width=max_width
    )
