"""Stream text into a log, kill the writer in the middle, recover or promote a copy, and account for
every line.

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
import tempfile
import time
from pathlib import Path
from types import FrameType

import corpus
from crash_run import CrashRun, Scenario, Setting
from failover import Failover
from processes import ChildError
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from commitlog import CommitLogError
from commitlog.tools.bench import machine

SCENARIOS = (
    Scenario(
        "anonymous",
        backing="anonymous",
        flush="async",
        title="a pool of anonymous buffers, flush='async'",
        introduction="An append writes to the memory of the writer. The commit thread copies it to "
        "the page cache a little later, where other processes see it. By the durability table, an "
        "uncommitted record does not survive a kill of the process.",
    ),
    Scenario(
        "shm",
        backing="shm",
        flush="async",
        title="a pool of shared-memory buffers, flush='async'",
        introduction="The same stream, but the buffers outlive the process, and the next open "
        "recovers them. By the durability table, every record survives a kill of the process.",
    ),
    Scenario(
        "sync",
        backing="anonymous",
        flush="sync",
        title="a pool of anonymous buffers, flush='sync'",
        introduction="Each append waits until its line is durable, so one thread appends a part "
        "of the corpus, at the speed of the disk. An acknowledged record survives a kill, and a "
        "power cut, which the demo cannot show. The tailing process reads only flushed records.",
    ),
    Scenario(
        "failover",
        backing="anonymous",
        flush="sync",
        title="a copy that becomes the primary, replicate=Replication(require=1)",
        introduction="A follower copies the log from a port, and each append waits until the copy "
        "has its line durably. The primary is killed and does not come back: the copy is promoted, "
        "and goes on where it ends.",
    ),
)
SEGMENT_SIZE = 2 << 20
# The largest frame is an eighth of a segment; the header takes a little of it.
_LINE_SHARE, _FRAME_ROOM = 8, 64
# Frame headers and segments allocated ahead, with a margin.
_DISK_FACTOR, _DISK_BASE = 4, 64 << 20
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
_WIDEST = 110


def main() -> int:
    """Run the scenarios; return the exit status."""
    arguments = _parse()
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    try:
        lines = corpus.gather(arguments.lines)
        needed = sum(map(len, lines)) * _DISK_FACTOR + _DISK_BASE
        free = shutil.disk_usage(arguments.dir).free
        if free < needed:
            raise OSError(
                f"{arguments.dir} has {free >> 20} MiB free and the demo needs {needed >> 20} MiB: "
                "free some space, or choose another directory with --dir"
            )
        with tempfile.TemporaryDirectory(
            prefix="commitlog-demo-", dir=arguments.dir, ignore_cleanup_errors=True
        ) as workspace:
            return _run(arguments, lines, workspace)
    except KeyboardInterrupt:
        print(
            "\nInterrupted. Processes, directory and shared memory of the demo are removed.",
            flush=True,
        )
        return 130
    except (CommitLogError, ChildError, OSError, LookupError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr, flush=True)
        return 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Stream, kill, recover, account for every line.")
    parser.add_argument(
        "--seed",
        type=int,
        default=int.from_bytes(os.urandom(4), "little"),
        help="choose the times of the kills by this seed [default: random]",
    )
    parser.add_argument(
        "--lines", type=int, help="use this many lines, at least 1000 [default: all]"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=2.0,
        help="stream for this time, 0.1 to 60 [default: 2]",
    )
    parser.add_argument(
        "--dir",
        default=".",
        help="create the temporary directory here [default: the current directory]",
    )
    arguments = parser.parse_args()
    if arguments.lines is not None and arguments.lines < 1000:
        parser.error(f"--lines must be at least 1000, not {arguments.lines}")
    if not 0.1 <= arguments.seconds <= 60:
        parser.error(f"--seconds must be a number from 0.1 to 60, not {arguments.seconds}")
    return arguments


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt once: a second signal must not interrupt the removal of files."""
    for each in _INTERRUPTS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run(arguments: argparse.Namespace, lines: list[bytes], workspace: str) -> int:
    """Run the scenarios one after the other; return the exit status."""
    started = time.monotonic()
    console = Console(highlight=False)
    console.width = min(_WIDEST, console.width if console.is_terminal else _WIDEST)

    def say(text: str | Text) -> None:
        shown = Text(text) if isinstance(text, str) else text
        console.print(Padding(shown, (0, 0, 0, 2), expand=False))

    say(
        f"The corpus: {len(lines):,} lines, {sum(map(len, lines)) / 1e6:,.1f} MB of Python's "
        "standard library."
    )
    kind = machine.file_system(Path(workspace))["type"]
    say(f"The directory: {workspace}, on {kind}.")
    if kind in ("tmpfs", "ramfs"):
        say(
            "This file system is in memory: a flush makes nothing durable. Choose a directory on a "
            "disk with --dir."
        )
    say(
        f"The seed: {arguments.seed} (--seed {arguments.seed} chooses the same lines for the "
        "kills; the machine decides between which instructions they come)."
    )
    corpus_file = Path(workspace, "corpus.txt")
    corpus_file.write_bytes(b"".join(lines))
    setting = Setting(
        lines,
        str(corpus_file),
        _segment_size(lines),
        arguments.seconds,
        random.Random(arguments.seed),
    )
    broken = 0
    for number, scenario in enumerate(SCENARIOS, 1):
        title = f"\nScenario {number} of {len(SCENARIOS)}: {scenario.title}"
        console.print(Text(title, "bold"))
        say(scenario.introduction)
        log = os.path.join(workspace, scenario.name)
        run = (
            Failover(log, setting, say)
            if scenario.name == "failover"
            else CrashRun(scenario, log, setting, say, console)
        )
        run.run()
        shutil.rmtree(log, ignore_errors=True)
        kept = all(run.promises.values())
        broken += not kept
        word, style = ("KEPT", "bold green") if kept else ("BROKEN", "bold red")
        say(Text.assemble((word, style), f": {_verdict(run)}"))
    seconds = time.monotonic() - started
    closing = (
        f"{broken} of {len(SCENARIOS)} scenarios broke a promise."
        if broken
        else f"All promises were kept, in {seconds:.0f} s."
    )
    console.print(Text(f"\n{closing}", "bold"))
    return int(broken > 0)


def _segment_size(lines: list[bytes]) -> int:
    """Return a size at which the stream rolls often and the longest line fits."""
    size = SEGMENT_SIZE
    while size // _LINE_SHARE < max(map(len, lines)) + _FRAME_ROOM:
        size *= 2
    return size


def _verdict(run: CrashRun | Failover) -> str:
    broken = [text for text, kept in run.promises.items() if not kept]
    if broken:
        return f"not true: {'; '.join(broken)}"
    lost = max(0, run.acknowledged - run.survived)
    return (
        f"{f'{lost:,} uncommitted lines lost, as promised' if lost else 'no line lost'}; an exact "
        f"prefix of {run.survived:,} lines survived, and the log continued to {run.total:,}."
    )


if __name__ == "__main__":
    sys.exit(main())
