"""`commitlog tailers`: list, reset, delete or evict the named tailers of a log."""

from __future__ import annotations

from dataclasses import asdict

import click

import commitlog
from commitlog import CommitLog, TailerState
from commitlog.tools.cli import parameters
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.quantities import age_text, size_text
from commitlog.types import Start

ACTIONS = ("reset", "delete", "evict")


@click.command()
@click.argument("log", type=click.Path())
@click.argument("action", required=False, type=click.Choice(ACTIONS))
@click.argument(
    "name", required=False, type=parameters.tailer_name, shell_complete=parameters.complete_tailer
)
@click.argument("position", required=False, type=parameters.start)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the list or the result as a JSON object."
)
def command(
    *, log: str, action: str | None, name: str | None, position: Start | None, as_json: bool
) -> None:
    """List the named tailers of LOG, or change one.

    The list has the position of each tailer, its lag, when it last moved, whether it is required,
    and the process that reads with it.

    \b
    reset NAME POSITION  Move it to "first", "end", or the position of a record. This also
                         rebuilds a damaged file.
    delete NAME          Delete it.
    evict NAME           Stop requiring it: retention and appends no longer wait for it.

    reset and delete are refused while a process reads with the tailer.

    \b
    Examples:
      commitlog tailers orders
      commitlog tailers orders reset billing end
      commitlog tailers orders delete billing
      commitlog tailers orders evict audit
    """
    if action is not None and name is None:
        raise click.UsageError(
            f"{action} needs the name of a tailer: commitlog tailers LOG {action} NAME"
        )
    if position is not None and action != "reset":
        raise click.UsageError(f"only reset takes a position, not {action}: leave out {position}")
    if action == "reset" and position is None:
        raise click.UsageError(
            f"reset needs a position: commitlog tailers LOG reset {name} POSITION; it is first, "
            "end or the position of a record"
        )
    with commitlog.open(log, "r") as opened:
        if action is not None and name is not None:
            done = _change(opened, action, name, position)
            if as_json:
                print_json({"path": log, "action": action, "name": name, "done": done})
            else:
                echo(done)
            return
        states, end = opened.tailers(), opened.tail_position
    if as_json:
        print_json(
            {"path": log, "tail_position": end, "tailers": [asdict(state) for state in states]}
        )
        return
    echo(f"{log}: {len(states)} named tailers, ends at position {end}", *map(line_of, states))


def _change(log: CommitLog, action: str, name: str, position: Start | None) -> str:
    """Change a tailer; return what was done."""
    if action == "delete":
        log.delete_tailer(name)
        return f"{name}: deleted"
    if action == "evict":
        evicted = log.evict_tailer(name)
        done = "evicted; it is not required any more"
        return f"{name}: {done if evicted else 'not required, so nothing to evict'}"
    assert position is not None  # `command` has checked it
    log.reset_tailer(name, position)
    state = next(state for state in log.tailers() if state.name == name)
    return f"{name}: reset to position {state.position}"


def line_of(state: TailerState) -> str:
    if state.damage is not None:
        return (
            f"  {state.name}: damaged: {state.damage}; rebuild it with "
            f"`commitlog tailers LOG reset {state.name} POSITION`"
        )
    text = [
        f"position {state.position}",
        f"{size_text(state.lag_bytes or 0)} behind",
        f"moved {age_text(state.saved_ns)} ago",
    ]
    if state.required:
        text.append(
            "required"
            + (f" within {size_text(state.max_lag_bytes)}" if state.max_lag_bytes else "")
        )
    if state.evicted_ns is not None:
        text.append(f"evicted {age_text(state.evicted_ns)} ago")
    if state.dropped_records:
        text.append(f"{state.dropped_records} records dropped because of it")
    text.append(f"read by {state.owner}" if state.owner else "no reader")
    return f"  {state.name}: {', '.join(text)}"
