"""`commitlog cat`: write a range of records, as values or as a file."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import IO, Any

import click

from commitlog.tools.cli import FAILURE, parameters
from commitlog.tools.cli.batch_headers import BatchHeaders
from commitlog.tools.cli.interrupt import Ending
from commitlog.tools.cli.output import Output, echo, new_file
from commitlog.tools.cli.progress import is_terminal, record_progress
from commitlog.tools.cli.reading import Selection, chosen_format, reading_options
from commitlog.tools.cli.record_format import BYTE_FORMATS, format_of
from commitlog.tools.cli.sink import TABLES, ByteSink, TableSink
from commitlog.tools.cli.view import View

STANDARD_OUTPUT = "-"
_SUFFIXES = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
}


@click.command()
@click.argument("log", type=click.Path())
@click.option(
    "--format",
    type=parameters.record_format(*BYTE_FORMATS, *TABLES),
    shell_complete=parameters.complete_words(*BYTE_FORMATS, *TABLES),
    metavar="NAME|TEMPLATE",
    help="Write in this format.  [default: by the suffix of FILE, else lines]",
)
@click.option(
    "-o",
    "--output",
    "target",
    default=STANDARD_OUTPUT,
    metavar="FILE",
    help="Write to this file.  [default: standard output]",
)
@click.option(
    "--headers", "with_headers", is_flag=True, help="Add a column of headers to csv and tables."
)
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@reading_options
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    log: str,
    format: str | None,
    target: str,
    overwrite: bool,
    with_headers: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Write the records of LOG to standard output or to a file.

    These formats write values only: lines (a newline after each), null (a NUL byte after each), raw
    (nothing after each), frames (the length before each, 4 bytes little-endian). These write all
    fields: jsonl, csv, parquet, arrow. Any other format is a TEMPLATE, such as '{key}: {value}\\n';
    its fields are position, sequence, timestamp, timestamp_ns, type, key, value, headers and
    headers[NAME].

    By default, a range ends at the current end of LOG. FILE is written under a temporary name and
    renamed when it is complete. For TIME, see `commitlog tail --help`.

    \b
    Examples:
      commitlog cat orders
      commitlog cat --from 4096 --limit 10 orders
      commitlog cat --format frames orders | commitlog append --format frames copy
      commitlog cat --since 2026-05-01 --until 2026-05-02 -o may-first.parquet orders
      commitlog cat --json orders | gzip > orders.jsonl.gz
    """
    selection = Selection(**given)
    form = _format_of(chosen_format(format, as_json=as_json), target, overwrite=overwrite)
    selection.check_format(form)
    if with_headers and form not in (*TABLES, "csv"):
        raise click.UsageError(
            f"--headers is for csv, parquet and arrow, not for {form}: jsonl has headers always, "
            "and a template has {headers}"
        )
    headers = BatchHeaders(skips=selection.on_damage == "skip")
    with Ending(), selection.opened(log) as opened, _opened(target, overwrite=overwrite) as file:
        decoder = selection.decoder(opened)
        if form in TABLES:
            raw = file if target != STANDARD_OUTPUT else sys.stdout.buffer
            column = headers if with_headers else None
            sink: TableSink | ByteSink = TableSink(opened, raw, form, decoder, column)  # type: ignore[arg-type]
        else:
            shape = format_of(
                form, selection.zone, headers, escape=False, with_headers=with_headers
            )
            sink = ByteSink(file, shape, decoder)
        view = View(opened, selection, sink, decoder)
        if target == STANDARD_OUTPUT:
            view.run()  # on a terminal, progress would mix with the records
        else:
            with record_progress(view.bytes) as show:
                view.run(show)
        sink.close()
    if decoder is not None:
        decoder.report_fields()
    is_undecodable = decoder is not None and decoder.undecodable > 0
    if target != STANDARD_OUTPUT:
        echo(f"{view.records} record{'s' * (view.records != 1)} to {target}", err=True)
    context.exit(FAILURE if view.damaged or headers.damaged or is_undecodable else 0)


def _format_of(format: str | None, target: str, *, overwrite: bool) -> str:
    if overwrite and target == STANDARD_OUTPUT:
        raise click.UsageError("--overwrite needs a file: add -o FILE, or leave it out")
    known = _SUFFIXES.get(os.path.splitext(target)[1].lower())
    if known is not None and format not in (None, known):
        raise click.UsageError(
            f"--format {format} contradicts the suffix of {target}, which is that of {known}: "
            "change one of them"
        )
    found = format or known or "lines"
    if target == STANDARD_OUTPUT and found in TABLES and is_terminal(sys.stdout):
        raise click.UsageError(
            f"a terminal cannot show {found}: add -o FILE, or pipe it to another program"
        )
    return found


def _opened(
    target: str, *, overwrite: bool
) -> contextlib.AbstractContextManager[IO[bytes] | Output]:
    return Output() if target == STANDARD_OUTPUT else new_file(target, overwrite=overwrite)
