"""`commitlog queue`: the work queues of a log; look into one, and change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

import commitlog
from commitlog.queues import DeadLetter, Queue, QueueStats
from commitlog.queues.opening import queue_names
from commitlog.tools.cli import parameters
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.quantities import age_text, counted, size_text

LOOKS = ("peek", "dead")
CHANGES = ("requeue", "purge", "drain", "resume")
_LISTED = ("name", "depth", "held", "waiting", "dead", "oldest_s", "paused")
_DRAIN_S = 60.0
_TEXT_MOST = 60


@click.command()
@click.argument("log", type=click.Path())
@click.argument(
    "name", required=False, type=parameters.tailer_name, shell_complete=parameters.complete_queue
)
@click.argument("action", required=False, type=click.Choice((*LOOKS, *CHANGES)))
@click.option(
    "-n", "count", type=click.IntRange(1, 4096), default=10, help="How many to show [10]."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the figures or the result as a JSON object."
)
def command(*, log: str, name: str | None, action: str | None, count: int, as_json: bool) -> None:
    """Show, or change, the work queues of LOG.

    It lists them, describes the queue NAME, or does ACTION with it.

    The figures are its depth, the jobs that workers hold with their process and age, attempts, the
    oldest job, and dead letters.

    \b
    peek     Show the next records that are not finished; nothing is taken.
    dead     Show the dead letters, with reason and history.
    requeue  Make all dead letters jobs again.
    purge    Finish all jobs that are in the log now and that no worker holds.
    drain    Hand out no more jobs, and wait at most a minute until no worker holds one.
    resume   Hand out jobs again.

    Workers go on meanwhile. The changes need write permission for LOG.

    \b
    Examples:
      commitlog queue jobs
      commitlog queue jobs mailer
      commitlog queue jobs mailer dead -n 3
      commitlog queue jobs mailer requeue
    """
    if name is None:
        _list(log, as_json=as_json)
    elif action in CHANGES:
        with commitlog.queue(log, name, mode="r"):
            pass  # a name that does not exist is an error, and makes no queue
        with commitlog.queue(log, name) as queue:
            done = _CHANGES[action](queue)
        _print(as_json, {"path": log, "name": name, "action": action, "done": done}, [done])
    else:
        with commitlog.queue(log, name, mode="r") as queue:
            _look(queue, log, name, action, count, as_json=as_json)


def _list(log: str, *, as_json: bool) -> None:
    figures = []
    with commitlog.open(log, "r") as opened:
        for name in queue_names(log):
            with commitlog.queue(opened, name, mode="r") as queue:
                figures.append(queue.stats())
    listed = [{key: _keys_of(each)[key] for key in _LISTED} for each in figures]
    lines = [f"{log}: {counted(len(figures), 'queue')}", *map(_line_of, figures)]
    _print(as_json, {"path": log, "queues": listed}, lines)


def _look(
    queue: Queue, log: str, name: str, action: str | None, count: int, *, as_json: bool
) -> None:
    if action == "peek":
        records = queue.peek(count)
        rows = [
            {
                "position": each.position,
                "timestamp_ns": each.timestamp_ns,
                "value": _text(each.value),
            }
            for each in records
        ]
        lines = [f"  {row['position']}: {row['value']}" for row in rows]
        _print(as_json, {"path": log, "name": name, "records": rows}, lines)
    elif action == "dead":
        letters = [letter for letter, _ in zip(queue.dead(), range(count), strict=False)]
        _print(
            as_json,
            {"path": log, "name": name, "letters": [_letter_keys(each) for each in letters]},
            [line for letter in letters for line in _letter_lines(letter)],
        )
    else:
        stats = queue.stats()
        _print(
            as_json,
            {"path": log, **_keys_of(stats), "terms": queue.terms.as_json()},
            [f"{log}, queue {name}:", *_lines_of(stats)],
        )


def _print(as_json: bool, content: dict[str, Any], lines: list[str]) -> None:
    if as_json:
        print_json(content)
    else:
        echo(*lines)


# --- figures --------------------------------------------------------------------------------------


def _keys_of(stats: QueueStats) -> dict[str, Any]:
    keys = asdict(stats)
    keys["workers"] = [{"pid": pid, "held": held} for pid, held in stats.workers]
    return keys


def _line_of(stats: QueueStats) -> str:
    depth = "unknown" if stats.depth is None else f"{stats.depth:,}"
    text = [
        f"depth {depth}",
        f"{stats.held:,} held by {counted(len(stats.workers), 'worker')}",
        f"{stats.waiting:,} waiting",
        f"{stats.dead:,} dead",
    ]
    if stats.oldest_s is not None:
        text.append(f"oldest {stats.oldest_s:.3g} s")
    if stats.paused:
        text.append("drained: resume it to go on")
    return f"  {stats.name}: {', '.join(text)}"


def _lines_of(stats: QueueStats) -> list[str]:
    lines = [
        _line_of(stats),
        f"  not looked at yet: {size_text(stats.lag_bytes)}",
        (
            f"  taken {stats.taken:,}, accepted {stats.accepted:,}, released {stats.released:,}, "
            f"lease ended {stats.expired:,}, worker died {stats.orphaned:,}"
        ),
    ]
    lines += [f"  worker {pid}: {counted(held, 'job')}" for pid, held in stats.workers]
    return lines + [
        f"  job at {job.position}: attempt {job.attempt}, process {job.pid}, for "
        f"{job.age_s:.3g} s, lease ends in {job.lease_left_s:.3g} s"
        for job in stats.jobs
    ]


def _letter_keys(letter: DeadLetter) -> dict[str, Any]:
    return {
        "position": letter.position,
        "attempts": letter.attempts,
        "reason": letter.reason,
        "died_ns": letter.died_ns,
        "value": None if letter.value is None else _text(letter.value),
        "history": letter.history,
    }


def _letter_lines(letter: DeadLetter) -> list[str]:
    value = "its record is lost" if letter.value is None else _text(letter.value)[:_TEXT_MOST]
    lines = [
        (
            f"  {letter.position}: died {age_text(letter.died_ns)} ago after "
            f"{counted(letter.attempts, 'attempt')}: {letter.reason or 'no reason given'}"
        ),
        f"    {value}",
    ]
    return lines + [
        f"    attempt {each['attempt']}: {each['what']}{': ' if each['reason'] else ''}"
        f"{each['reason']}"
        for each in letter.history
    ]


def _text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")


# --- changes --------------------------------------------------------------------------------------


def _drain(queue: Queue) -> str:
    if queue.drain(_DRAIN_S):
        return "drained: no worker holds a job, and none gets one until `resume`"
    return f"no job is handed out, but workers hold some still: {queue.stats().held}"


def _resume(queue: Queue) -> str:
    queue.resume()
    return "jobs are handed out again"


_CHANGES: dict[str, Callable[[Queue], str]] = {
    "requeue": lambda queue: f"{counted(queue.requeue(), 'dead letter')} made jobs again",
    "purge": lambda queue: f"{counted(queue.purge(), 'job')} finished",
    "drain": _drain,
    "resume": _resume,
}
