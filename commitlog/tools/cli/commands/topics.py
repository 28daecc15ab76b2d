"""`commitlog topics`: list the topics of a log, with the versions of their schemas."""

from __future__ import annotations

from typing import Any

import click

import commitlog
from commitlog.tools.cli import FAILURE
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.quantities import counted
from commitlog.tools.cli.record_format import escaped, time_text
from commitlog.topics.fields_text import fields_text
from commitlog.topics.summary import (
    LogSummary,
    TopicVersion,
    layers_of,
    layers_text,
    sizes_of,
    summarized,
)


@click.command()
@click.argument("log", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_context
def command(context: click.Context, *, log: str, as_json: bool) -> None:
    """List the topics of LOG and their versions.

    Each topic has a line with its codec, whether it is compressed or sealed, how many times
    smaller compression made it, the number of its messages and their times. Below it, each version
    of its schema has a line with type number, messages and fields, the oldest first. A method whose
    calls are in LOG is a topic, too. The command reads all of LOG and changes nothing.

    \b
    Examples:
      commitlog topics orders
      commitlog topics --json orders | jq '.topics[].name'

    The exit status is 1 if messages have no schema that can be read.
    """
    with commitlog.open(log, "r") as opened:
        found = summarized(opened)
    topics = found.topics()
    unreadable = topics.pop(None, [])
    if as_json:
        listed = [_as_object(name, versions) for name, versions in _sorted(topics)]
        unknown = [_version(each) | {"problem": each.problem} for each in unreadable]
        counts = {"records": found.records, "schemas": found.schemas}
        print_json({"path": log, **counts, "topics": listed, "unreadable": unknown})
    else:
        _print(log, found, topics)
    for each in unreadable:
        echo(
            f"commitlog: type {each.number}, {counted(each.messages, 'message')}: {each.problem}",
            err=True,
        )
    context.exit(FAILURE if unreadable else 0)


def _print(log: str, found: LogSummary, topics: dict[Any, list[TopicVersion]]) -> None:
    messages = sum(each.messages for each in found.versions.values())
    others = found.records - found.schemas - messages
    echo(
        f"{log}: {counted(len(topics), 'topic')}, {counted(messages, 'message')}, "
        f"{counted(found.schemas, 'schema record')}, {counted(others, 'other record')}"
    )
    for name, versions in _sorted(topics):
        total = sum(each.messages for each in versions)
        codecs = "/".join(dict.fromkeys(each.schema.codec for each in versions if each.schema))
        times = [
            time
            for each in versions
            for time in (each.first_timestamp_ns, each.last_timestamp_ns)
            if time is not None
        ]
        layers = layers_text(layers_of(versions), *sizes_of(versions))
        span = f", {time_text(min(times))} to {time_text(max(times))}" if times else ""
        echo(f"{name}: {codecs}{layers}, {counted(total, 'message')}{span}")
        for number, each in enumerate(versions, 1):
            assert each.schema is not None
            fields = escaped(fields_text(each.schema).encode(errors="replace")) or "no fields"
            count = counted(each.messages, "message")
            echo(f"  version {number}, type {each.number}, {count}: {fields}")


def _as_object(name: str, versions: list[TopicVersion]) -> dict[str, Any]:
    return {
        "name": name,
        "messages": sum(each.messages for each in versions),
        "versions": [
            _version(each)
            | {"codec": each.schema.codec, "layers": each.layers, "schema": each.schema.form}
            for each in versions
            if each.schema is not None
        ],
    }


def _version(each: TopicVersion) -> dict[str, Any]:
    names = ("messages", "value_bytes", "plain_bytes", "first_position", "last_position")
    found = {
        name: getattr(each, name) for name in (*names, "first_timestamp_ns", "last_timestamp_ns")
    }
    return {"type": each.number, **found}


def _sorted(topics: dict[Any, list[TopicVersion]]) -> list[tuple[str, list[TopicVersion]]]:
    return sorted(topics.items())
