"""Stream text into a log, kill the writer in the middle, recover, and account for every line.

    python demo/demo.py [--seed N] [--lines N] [--seconds S] [--dir PATH]

The exit status is 0 if every promise was kept, 1 if one was broken or the demo could not run, and
130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import corpus
from crash_run import CrashRun, Outcome, Scenario, Setting
from processes import ChildError
from workspace import temporary_workspace

from commitlog import CommitLogError

if TYPE_CHECKING:
    from console import Console

SCENARIOS = (
    Scenario(
        "anonymous",
        backing="anonymous",
        flush="async",
        paced=True,
        title="a pool of anonymous buffers, flush='async'",
        introduction="An append writes to the memory of the writer. The commit thread copies it to "
        "the page cache a little later, where other processes see it. By the durability table, an "
        "uncommitted record does not survive a kill of the process.",
    ),
    Scenario(
        "shm",
        backing="shm",
        flush="async",
        paced=True,
        title="a pool of shared-memory buffers, flush='async'",
        introduction="The same stream, but the buffers outlive the process, and the next open "
        "recovers them. By the durability table, every record survives a kill of the process.",
    ),
    Scenario(
        "sync",
        backing="anonymous",
        flush="sync",
        paced=False,
        title="a pool of anonymous buffers, flush='sync'",
        introduction="Each append waits until its line is durable, so one thread appends a part "
        "of the corpus, at the speed of the disk. An acknowledged record survives a kill, and a "
        "power cut, which the demo cannot show. The tailing process reads only flushed records.",
    ),
)
SEGMENT_SIZE = 2 << 20
# The largest frame is an eighth of a segment; the header takes a little of it.
_LINE_SHARE, _FRAME_ROOM = 8, 64
# Frame headers and segments allocated ahead, with a margin.
_DISK_FACTOR, _DISK_BASE = 4, 64 << 20
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Run the scenarios; return the exit status."""
    arguments = _parse()
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    from console import Console  # not in the processes that import this module again

    console = Console()
    try:
        lines = corpus.gather(arguments.lines)
        size = sum(map(len, lines))
        with temporary_workspace(arguments.dir, size * _DISK_FACTOR + _DISK_BASE) as workspace:
            kept = _run(arguments, lines, workspace, console)
    except KeyboardInterrupt:
        print(
            "\nInterrupted. Processes, directory and shared memory of the demo are removed.",
            flush=True,
        )
        return 130
    except (CommitLogError, ChildError, OSError, LookupError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr, flush=True)
        return 1
    return 0 if kept else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Stream, kill, recover, account for every line.")
    parser.add_argument(
        "--seed", type=int, help="choose the times of the kills by this seed [default: random]"
    )
    parser.add_argument(
        "--lines", type=_at_least_1000, help="use this many lines, at least 1000 [default: all]"
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=2.0,
        help="stream for this time, 0.1 to 60 [default: 2]",
    )
    parser.add_argument(
        "--dir",
        default=".",
        help="create the temporary directory here [default: the current directory]",
    )
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = int.from_bytes(os.urandom(4), "little")
    return arguments


def _at_least_1000(text: str) -> int:
    if int(text) < 1000:
        raise argparse.ArgumentTypeError(f"expected at least 1000, not {text}")
    return int(text)


def _seconds(text: str) -> float:
    if not 0.1 <= float(text) <= 60:
        raise argparse.ArgumentTypeError(f"expected a number from 0.1 to 60, not {text}")
    return float(text)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt once: a second signal must not interrupt the removal of files."""
    for each in _INTERRUPTS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run(
    arguments: argparse.Namespace, lines: list[bytes], workspace: str, console: Console
) -> bool:
    started = time.monotonic()
    size = sum(map(len, lines))
    console.print(
        f"The corpus: {len(lines):,} lines, {size / 1e6:,.1f} MB of Python's standard library."
    )
    from commitlog.bench import machine

    kind = machine.file_system(Path(workspace))["type"]
    console.print(f"The directory: {workspace}, on {kind}.")
    if kind in ("tmpfs", "ramfs"):
        console.print(
            "This file system is in memory: a flush makes nothing durable. Choose a directory on a "
            "disk with --dir."
        )
    console.print(
        f"The seed: {arguments.seed} (--seed {arguments.seed} chooses the same lines for the "
        "kills; the machine decides between which instructions they come)."
    )
    corpus_file = os.path.join(workspace, "corpus.txt")
    corpus.save(lines, corpus_file)
    setting = Setting(
        lines, corpus_file, _segment_size(lines), arguments.seconds, random.Random(arguments.seed)
    )
    kept = [
        _run_scenario(number, scenario, workspace, setting, console)
        for number, scenario in enumerate(SCENARIOS, 1)
    ]
    seconds = time.monotonic() - started
    closing = (
        f"All promises were kept, in {seconds:.0f} s."
        if all(kept)
        else f"{kept.count(False)} of {len(kept)} scenarios broke a promise."
    )
    console.heading(closing)
    return all(kept)


def _segment_size(lines: list[bytes]) -> int:
    """Return a size at which the stream rolls often and the longest line fits."""
    size = SEGMENT_SIZE
    while size // _LINE_SHARE < max(map(len, lines)) + _FRAME_ROOM:
        size *= 2
    return size


def _run_scenario(
    number: int, scenario: Scenario, workspace: str, setting: Setting, console: Console
) -> bool:
    console.heading(f"Scenario {number} of {len(SCENARIOS)}: {scenario.title}")
    console.print(scenario.introduction)
    log = os.path.join(workspace, scenario.name)
    outcome = CrashRun(scenario, log, setting, console).run()
    shutil.rmtree(log, ignore_errors=True)
    console.verdict(outcome.kept, _verdict(outcome))
    return outcome.kept


def _verdict(outcome: Outcome) -> str:
    if not outcome.kept:
        return "not true: " + "; ".join(
            promise.text for promise in outcome.promises if not promise.kept
        )
    lost = (
        f"{outcome.lost:,} uncommitted lines lost, as promised" if outcome.lost else "no line lost"
    )
    return (
        f"{lost}; an exact prefix of {outcome.survived:,} lines survived, and the log continued to "
        f"{outcome.total:,}."
    )


if __name__ == "__main__":
    sys.exit(main())
