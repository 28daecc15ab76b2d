"""`commitlog call`: append calls of methods, for method readers."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

import click

import commitlog
from commitlog import CommitLog
from commitlog.base.extras import imported
from commitlog.errors import CommitLogError
from commitlog.extension import LogFiles
from commitlog.tools.cli import FAILURE
from commitlog.tools.cli.intake import STANDARD_INPUT
from commitlog.tools.cli.interrupt import Ending
from commitlog.tools.cli.output import echo
from commitlog.topics.described_method import DescribedMethod, described_method
from commitlog.topics.method import Method, methods_of
from commitlog.topics.opening import open_topic
from commitlog.topics.schema import Schema
from commitlog.topics.topic import Topic

YAML_SUFFIXES = (".yaml", ".yml")
_FORM = '{"method": {"name": value}}, {"method": [value]} or {"topic": "method", "message": {...}}'
_NAMED = re.compile(r"([^\W\d]\w*)=(.*)", re.DOTALL)
_LINE_MOST = 1 << 26  # bytes; a record is never larger


@click.command(context_settings={"ignore_unknown_options": True})  # -1 is an argument
@click.argument("log", type=click.Path())
@click.argument("method", required=False)
@click.argument("arguments", nargs=-1, metavar="[JSON|NAME=JSON]...")
@click.option(
    "-f",
    "--file",
    "source",
    metavar="FILE",
    help="Append the calls of this file: YAML documents if it ends in .yaml or .yml, else JSON "
    "lines; - is standard input.",
)
@click.option(
    "--interface",
    metavar="MODULE:CLASS",
    help="Take the signatures of methods without calls in LOG from this class. The module is "
    "imported; it may be in the current directory.",
)
@click.option("--sync", is_flag=True, help="Wait until each call is durable.")
@click.pass_context
def command(
    context: click.Context,
    *,
    log: str,
    method: str | None,
    arguments: tuple[str, ...],
    source: str | None,
    interface: str | None,
    sync: bool,
) -> None:
    """Append a call of METHOD to LOG, or the calls of a file.

    Arguments are JSON: write text in double quotes. The command checks them against the schema of
    the newest calls of METHOD in LOG.

    A line of a file is {"METHOD": {"NAME": value}} or {"METHOD": [value]}. The lines that
    `commitlog tail --method METHOD --json` prints are also calls, and so are the YAML documents
    that it prints without --json.

    \b
    Examples:
      commitlog call shop sold '"lamp"' 3
      commitlog call shop sold item='"lamp"' amount=3
      commitlog call shop --file calls.yaml
      commitlog tail -n 100 --method sold --json shop | commitlog call copy -f -
      commitlog call shop sold '"lamp"' 3 --interface shop_api:Shop

    If a call of a file is invalid, the calls before it stay appended, and the exit status is 1.
    """
    if (method is None) is (source is None):
        raise click.UsageError("give either METHOD with its arguments, or --file")
    given = None if method is None else [_call(method, arguments)]
    signatures = {} if interface is None else _signatures(interface)
    LogFiles.check_directory(log)  # a missing log is not created
    with Ending(), commitlog.open(log) as opened, _opened(source) as file:
        name = "standard input" if source in (None, STANDARD_INPUT) else str(source)
        calls = calls_of(file, name, _LINE_MOST) if given is None else given
        context.exit(_append(_Writers(opened, signatures), calls, sync=sync or None))


class _Writers:
    """The topics of methods, opened when a call first needs one."""

    def __init__(self, log: CommitLog, signatures: dict[str, Method]) -> None:
        self._log = log
        self._signatures = signatures
        self._found: dict[str, tuple[DescribedMethod, Topic[Any]]] = {}

    def append(self, call: Call, sync: bool | None) -> int:
        """Append a call; return its position."""
        if call.method not in self._found:
            own = self._signatures.get(call.method)
            if own is None:
                method = described_method(self._log, call.method)
                topic = open_topic(self._log, tuple, name=method.title, codec=method)
            else:
                method = DescribedMethod(Schema(own.title, Method.name, own.form))
                topic = open_topic(self._log, tuple, name=own.title, codec=own, validate=True)
            self._found[call.method] = method, topic
        method, topic = self._found[call.method]
        return topic.append(method.arguments(call.positional, call.named), sync=sync)


def _append(writers: _Writers, calls: Iterable[Call], sync: bool | None) -> int:
    """Append calls up to the first wrong one; report them, and return the exit status."""
    count, status, where = 0, 0, ""
    try:
        for call in calls:
            where = f"{call.where}: " if call.where else ""
            writers.append(call, sync)
            count += 1
    except (CommitLogError, click.ClickException) as error:
        prefix = where if isinstance(error, CommitLogError) else ""
        text = error.message if isinstance(error, click.ClickException) else str(error)
        echo(f"commitlog: {prefix}{text}", err=True)
        status = FAILURE
    echo(f"appended {count} call{'s' * (count != 1)}")
    return status


def _call(method: str, arguments: tuple[str, ...]) -> Call:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in arguments:
        match = _NAMED.fullmatch(text)
        content = _read(text if match is None else match[2], text)
        if match is None:
            if named:
                raise click.UsageError(f"{text!r} follows an argument with a name: name it, too")
            positional.append(content)
        elif match[1] in named:
            raise click.UsageError(f"the argument {match[1]} is given twice: leave one out")
        else:
            named[match[1]] = content
    return Call("", method, positional, named)


def _read(text: str, argument: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise click.UsageError(
            f"{argument!r} is not JSON: write text as '\"text\"', and a named argument as NAME=JSON"
        ) from None


def _signatures(interface: str) -> dict[str, Method]:
    """Return the methods of a class, by its module and name."""
    module, _, name = interface.partition(":")
    if not module or not name:
        raise click.UsageError(f"--interface takes MODULE:CLASS, not {interface!r}")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise click.UsageError(f"--interface {interface}: {error}") from None
    if not isinstance(found, type):
        raise click.UsageError(f"--interface {interface} is not a class")
    return {each.title: each for each in methods_of(found)}


@contextlib.contextmanager
def _opened(source: str | None) -> Iterator[IO[bytes]]:
    if source is None:
        yield io.BytesIO()
    elif source == STANDARD_INPUT:
        if sys.stdin is None:
            raise click.ClickException("standard input is closed: name a file")
        yield sys.stdin.buffer
    else:
        with open(source, "rb") as file:
            yield file


# --- the calls of a file: one a line as JSON, or one a document as YAML ---------------------------


class Call(NamedTuple):
    """A call, and where it was read."""

    where: str
    method: str
    positional: list[Any]
    named: dict[str, Any]


def calls_of(file: IO[bytes], name: str, longest: int) -> Iterator[Call]:
    """Yield the calls of a file as they are read. The suffix of its name decides between YAML and
    JSON.
    """
    is_yaml = os.path.splitext(name)[1].lower() in YAML_SUFFIXES
    yield from _documents(file, name) if is_yaml else _lines(file, name, longest)


def _lines(file: IO[bytes], name: str, longest: int) -> Iterator[Call]:
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        where = f"{name}:{number}"
        if len(line) > longest:
            raise click.ClickException(f"{where}: the line is longer than {longest} bytes")
        if not line.strip():
            continue
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise click.ClickException(f"{where}: not JSON: {error}") from None
        yield _read_call(where, content)


def _documents(file: IO[bytes], name: str) -> Iterator[Call]:
    yaml = imported("yaml", "a file of YAML", "cli")
    try:
        loader = _loader(yaml)(file)
        while loader.check_node():
            node = loader.get_node()
            content = loader.construct_document(node)
            if content is not None:
                where = f"{name}:{node.start_mark.line + 1}"
                yield _read_call(where, content, "; write --- between calls")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = name if mark is None else f"{name}:{mark.line + 1}"
        why = getattr(error, "problem", None) or error
        raise click.ClickException(f"{where}: not YAML: {why}") from None


def _loader(yaml: Any) -> Any:
    """Return PyYAML's safe loader in Python, because its C loader overflows the stack of a deeply
    nested document. Times stay text, as in JSON, and aliases are refused, because a short document
    could stand for a very large one.
    """

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012 - the name of the base
            first: [each for each in found if each[0] != "tag:yaml.org,2002:timestamp"]
            for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                event = self.peek_event()
                raise yaml.composer.ComposerError(
                    None, None, "an alias is refused: write the value again", event.start_mark
                )
            return super().compose_node(parent, index)

    return Loader


def _read_call(where: str, content: Any, between: str = "; write each call in a line") -> Call:
    """Return a call; `between` says in an error how to separate calls."""
    if isinstance(content, dict) and {"topic", "message"} <= content.keys():
        content = {content["topic"]: content["message"]}
    if not isinstance(content, dict) or len(content) != 1:
        several = isinstance(content, dict) and len(content) > 1
        why = f"a call has one method, not {len(content)}{between}" if several else "not a call"
        raise click.ClickException(f"{where}: {why}: expected {_FORM}")
    ((method, arguments),) = content.items()
    if isinstance(arguments, dict) and all(isinstance(name, str) for name in arguments):
        return Call(where, str(method), [], arguments)
    if arguments is None:
        return Call(where, str(method), [], {})
    return Call(where, str(method), arguments if isinstance(arguments, list) else [arguments], {})
