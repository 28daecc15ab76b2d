"""The manual page `commitlog.1`: everything that `commitlog --help` and its commands say.

Each command is a section of one page. The text is that of click's help, without its line breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click
from sphinx.application import Sphinx

from commitlog import __version__
from commitlog.tools.cli.group import group

NAME = "commitlog.1"
_VERBATIM = "\b\n"  # click's mark of a paragraph whose lines are not joined
_TOP = '.TH COMMITLOG 1 "" "commitlog {}" "User Commands"'


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", write_manual)
    return {"parallel_read_safe": True}


def write_manual(app: Sphinx, error: Exception | None) -> None:
    """Write the manual page beside the site."""
    if error is None and app.builder.format == "html":
        Path(app.outdir, NAME).write_text(manual(), encoding="utf-8")


def manual() -> str:
    """Return the page as roff."""
    context = click.Context(group, info_name="commitlog")
    lines = [
        _TOP.format(escaped(__version__)),
        ".SH NAME",
        r"commitlog \- append to, read and manage logs",
    ]
    lines += [".SH SYNOPSIS", r"\fBcommitlog\fP [OPTIONS] COMMAND [ARGS]..."]
    lines += [".SH DESCRIPTION", *paragraphs(group.help), *options(group, context)]
    lines += paragraphs(group.epilog)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            lines += section(command, click.Context(command, info_name=name, parent=context))
    return "\n".join(lines) + "\n"


def section(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the section of a command, with a subsection for each of its own commands."""
    title, usage = context.command_path, " ".join(command.collect_usage_pieces(context))
    level = ".SH" if context.parent is not None and context.parent.parent is None else ".SS"
    yield f'{level} "{escaped(title)}"'
    yield rf"\fB{escaped(title)}\fP {escaped(usage)}"
    yield from paragraphs(command.help)
    yield from options(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from section(inner, click.Context(inner, info_name=name, parent=context))


def paragraphs(text: str | None) -> Iterator[str]:
    """Yield a help text as paragraphs; examples keep their lines."""
    for paragraph in re.split(r"\n{2,}", cleandoc(text or "")):
        if paragraph.startswith(_VERBATIM):
            yield from (".PP", ".nf", escaped(paragraph.removeprefix(_VERBATIM)), ".fi")
        elif paragraph:
            yield from (".PP", escaped(" ".join(paragraph.split())))


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the options of a command, each with what it does."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):
            yield from (".TP", rf"\fB{escaped(record[0])}\fP", escaped(record[1]))


def escaped(text: str) -> str:
    """Return text in which roff finds no command of its own: no escape, and no request."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return re.sub(r"^(?=[.'])", r"\&", text, flags=re.MULTILINE)
