"""`commitlog tailers`: the named tailers of a log, and what can be done with them."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import cast

import click

import commitlog
from commitlog import CommitLog, TailerState
from commitlog.cli import parameters
from commitlog.tail.seek import Start

_start = parameters.start("first", "end")


def _reset(log: CommitLog, name: str, position: str | None) -> str:
    assert position is not None  # `command` has seen to it
    log.reset_tailer(name, cast(Start, _start(position)))
    state = next(state for state in log.tailers() if state.name == name)
    return f"{name} goes on at position {state.position}"


def _delete(log: CommitLog, name: str, _position: str | None) -> str:
    log.delete_tailer(name)
    return f"{name} is deleted"


def _evict(log: CommitLog, name: str, _position: str | None) -> str:
    return (
        f"{name} is evicted, and required no more"
        if log.evict_tailer(name)
        else f"{name} was not required"
    )


ACTIONS: dict[str, Callable[[CommitLog, str, str | None], str]] = {
    "reset": _reset,
    "delete": _delete,
    "evict": _evict,
}


@click.command()
@click.argument("log", type=click.Path())
@click.argument("action", required=False, type=click.Choice(list(ACTIONS)))
@click.argument(
    "name", required=False, type=parameters.tailer_name, shell_complete=parameters.complete_tailer
)
@click.argument("position", required=False)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object: the list, or what was done."
)
def command(
    *, log: str, action: str | None, name: str | None, position: str | None, as_json: bool
) -> None:
    """List the named tailers of LOG, or change one.

    The list says where each stands, how far behind, who reads with it, and whether it is required.

    \b
    reset NAME POSITION  Go on at "first", "end", or a record's position. Makes a damaged file anew.
    delete NAME          Forget the tailer.
    evict NAME           Require it no more: neither retention nor appends wait for it.

    Nobody may be reading under a name that is reset or deleted.

    \b
    Examples:
      commitlog tailers orders
      commitlog tailers orders reset billing end
      commitlog tailers orders delete billing
      commitlog tailers orders evict audit
    """
    if action is not None and name is None:
        raise click.UsageError(f"say which tailer: commitlog tailers LOG {action} NAME")
    if position is not None and action != "reset":
        raise click.UsageError(f"a position is for reset, not for {action}: leave {position!r} out")
    if action == "reset" and position is None:
        raise click.UsageError(
            f"say where {name} is to go on: commitlog tailers LOG reset {name} first, end, or a "
            "record's position"
        )
    if position is not None:
        _start(position)
    with commitlog.open(log, "r") as opened:
        if action is not None and name is not None:
            done = ACTIONS[action](opened, name, position)
            click.echo(
                json.dumps({"log": opened.path, "action": action, "name": name, "done": done})
                if as_json
                else done
            )
            return
        states, end = opened.tailers(), opened.tail_position
    if as_json:
        click.echo(
            json.dumps(
                {"log": log, "end": end, "tailers": [asdict(state) for state in states]}, indent=2
            )
        )
        return
    click.echo(
        "\n".join(
            [f"{log}: {len(states)} named tailers, ends at position {end}", *map(line_of, states)]
        )
    )


def line_of(state: TailerState) -> str:
    """One tailer, for people."""
    if state.damage is not None:
        return (
            f"  {state.name}: damaged: {state.damage}; `commitlog tailers LOG reset "
            f"{state.name} POSITION` makes it anew"
        )
    said = [
        f"position {state.position}",
        f"{state.lag_bytes} bytes behind",
        f"moved {_age(state.saved_ns)} ago",
    ]
    if state.required:
        said.append(
            "required" + (f" within {state.max_lag_bytes} bytes" if state.max_lag_bytes else "")
        )
    if state.evicted_ns is not None:
        said.append(f"evicted {_age(state.evicted_ns)} ago")
    if state.dropped_records:
        said.append(f"{state.dropped_records} records dropped for it")
    said.append(f"read by {state.owner}" if state.owner else "nobody reads")
    return f"  {state.name}: {', '.join(said)}"


def _age(since_ns: int) -> str:
    return str(dt.timedelta(seconds=max(0, (time.time_ns() - since_ns) // 1_000_000_000)))
