"""The calls of a file: one a line as JSON, or one a document as YAML."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import click

from commitlog.base.extras import imported

YAML_SUFFIXES = (".yaml", ".yml")
_FORM = '{"method": {"name": value}}, {"method": [value]} or {"topic": "method", "message": {...}}'


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
        yield _call(where, content)


def _documents(file: IO[bytes], name: str) -> Iterator[Call]:
    yaml = imported("yaml", "a file of YAML", "cli")
    try:
        loader = _loader(yaml)(file)
        while loader.check_node():
            node = loader.get_node()
            content = loader.construct_document(node)
            if content is not None:
                where = f"{name}:{node.start_mark.line + 1}"
                yield _call(where, content, "; write --- between calls")
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


def _call(where: str, content: Any, between: str = "; write each call in a line") -> Call:
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
