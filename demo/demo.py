"""A real stream of text goes through commitlog, the writer is killed in the middle of it, and every
line is accounted for.

    python demo/demo.py [--seed N] [--lines N] [--seconds S] [--dir PATH]

It exits with 0 only if every promise was kept, with 1 if one was broken or the demo could not run,
with 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import time
from types import FrameType

import corpus
from act import Act, Outcome, Performance, Setting
from child import Child, ChildError
from comparison import ROUNDS, RUNS, ComparisonJob, Figures, table
from counters import MEASURED, Counters
from ground import Ground, temporary_ground
from telling import Telling

from commitlog import CommitLogError

ACTS = (
    Act(
        "anonymous",
        backing="anonymous",
        flush="async",
        paced=True,
        title="a pool of anonymous buffers, flush='async'",
        introduction="An append lands in the writer's own memory; a service commits it to the page "
        "cache a little later, where other "
        "processes see it. Of what is not committed yet the durability table says: survives a "
        "kill of the process? No.",
    ),
    Act(
        "shm",
        backing="shm",
        flush="async",
        paced=True,
        title="a pool of shared-memory buffers, flush='async'",
        introduction="The same stream, but the buffers outlive their process, and the next open "
        "takes them over. The durability table says: survives a kill of the process? Yes.",
    ),
    Act(
        "sync",
        backing="anonymous",
        flush="sync",
        paced=False,
        title="a pool of anonymous buffers, flush='sync'",
        introduction="Now each append waits until its line is on the disk, so only a part of the "
        "corpus goes through, as fast as the disk "
        "lets one thread go. What an append has acknowledged survives a kill; a power cut too, "
        "which cannot be shown here. The tailing "
        "process sees only what is flushed.",
    ),
)
SEGMENT_SIZE = 2 << 20
# The largest frame is an eighth of a segment; the header takes a little of it.
_LINE_SHARE, _FRAME_ROOM = 8, 64
# Frames and segments allocated ahead beside the corpus itself, with room to spare.
_DISK_FACTOR, _DISK_BASE = 4, 64 << 20
_COMPARISON_RATE = 50_000.0
_MEASURING_TIMEOUT_S = 120.0
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Play the acts; see the module's text for the exit code."""
    arguments = _parse()
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    telling = Telling()
    try:
        lines = corpus.gather(arguments.lines)
        size = sum(map(len, lines))
        with temporary_ground(arguments.dir, size * _DISK_FACTOR + _DISK_BASE) as ground:
            kept = _play(arguments, lines, ground, telling)
    except KeyboardInterrupt:
        print(
            "\nInterrupted. The demo's processes, directory and shared memory are gone.", flush=True
        )
        return 130
    except (CommitLogError, ChildError, OSError, LookupError) as error:
        print(f"\nThe demo could not go on: {error}", file=sys.stderr, flush=True)
        return 1
    return 0 if kept else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Stream, kill, recover, account for every line.")
    parser.add_argument(
        "--seed", type=int, help="where the moments of the kills come from; a random one by default"
    )
    parser.add_argument(
        "--lines", type=_at_least_1000, help="a part of the corpus only, at least 1000"
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=2.0,
        help="how long a stream takes, 0.1 to 60; 2 by default",
    )
    parser.add_argument(
        "--dir", help="where to make the temporary directory; the current one by default"
    )
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = int.from_bytes(os.urandom(4), "little")
    return arguments


def _at_least_1000(text: str) -> int:
    if int(text) < 1000:
        raise argparse.ArgumentTypeError("fewer than 1000 lines show nothing")
    return int(text)


def _seconds(text: str) -> float:
    if not 0.1 <= float(text) <= 60:
        raise argparse.ArgumentTypeError("from 0.1 to 60")
    return float(text)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Once only: a second one must not disturb the clearing away."""
    for each in _INTERRUPTS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _play(
    arguments: argparse.Namespace, lines: list[bytes], ground: Ground, telling: Telling
) -> bool:
    started = time.monotonic()
    size = sum(map(len, lines))
    telling.say(
        f"The corpus: {len(lines):,} lines, {size / 1e6:,.1f} MB of Python's standard library."
    )
    telling.say(
        f"The directory: {ground.path}, on {ground.file_system} (mounted at {ground.mount_point})."
    )
    if ground.in_memory:
        telling.say(
            "That is in memory: nothing here is durable, whatever is flushed. Name a directory on "
            "a disk with --dir."
        )
    telling.say(
        f"The seed: {arguments.seed} (--seed {arguments.seed} aims at the same lines; where the "
        "kill hits is up to the machine)."
    )
    corpus_file = ground.log("corpus.txt")
    corpus.save(lines, corpus_file)
    setting = Setting(
        lines, corpus_file, _segment_size(lines), arguments.seconds, random.Random(arguments.seed)
    )
    kept = [_play_act(number, act, ground, setting, telling) for number, act in enumerate(ACTS, 1)]
    kept.append(_compare(len(ACTS) + 1, ground, setting, telling))
    seconds = time.monotonic() - started
    closing = (
        f"All promises were kept, in {seconds:.0f} s."
        if all(kept)
        else f"{kept.count(False)} of {len(kept)} acts broke a promise."
    )
    telling.heading(closing)
    return all(kept)


def _segment_size(lines: list[bytes]) -> int:
    """Small enough that the stream rolls often, large enough for the longest line."""
    size = SEGMENT_SIZE
    while size // _LINE_SHARE < max(map(len, lines)) + _FRAME_ROOM:
        size *= 2
    return size


def _play_act(number: int, act: Act, ground: Ground, setting: Setting, telling: Telling) -> bool:
    telling.heading(f"Act {number} of {len(ACTS) + 1}: {act.title}")
    telling.say(act.introduction)
    log = ground.log(act.name)
    outcome = Performance(act, log, setting, telling).play()
    shutil.rmtree(log, ignore_errors=True)
    telling.verdict(outcome.kept, _verdict(outcome))
    return outcome.kept


def _verdict(outcome: Outcome) -> str:
    if not outcome.kept:
        return "it is not true that " + "; nor that ".join(
            promise.text for promise in outcome.promises if not promise.kept
        )
    lost = (
        f"{outcome.lost:,} uncommitted lines lost, as promised" if outcome.lost else "no line lost"
    )
    return (
        f"{lost}; an exact prefix survived ({outcome.survived:,} lines), and the log went on "
        f"to {outcome.total:,}."
    )


def _compare(number: int, ground: Ground, setting: Setting, telling: Telling) -> bool:
    telling.heading(f"Act {number} of {len(ACTS) + 1}: with and without a pool")
    telling.say(
        f"The same lines, one append each from a plain Python loop (the median of {ROUNDS} "
        "rounds), flush='async'. Then for "
        f"{setting.seconds:g} s or until the lines run out {_COMPARISON_RATE:,.0f} lines a "
        "second, the latency of each append from when it "
        "was due."
    )
    figures = _measure(ground, setting, telling)
    telling.table(table(figures))
    telling.say(
        "One run on one machine, with a Python loop around it: other work on the machine moves "
        "all of it, most of all p99.9 and the "
        "maximum, which is a single append. Compare orders of magnitude; `make bench` measures "
        "with more care."
    )
    mapped, pooled = figures[0], figures[-1]
    telling.verdict(
        all(row.complete for row in figures),
        f"every run's log held all its lines; pooled against mapped: {mapped.append_ns:,.0f} -> "
        f"{pooled.append_ns:,.0f} ns an append, "
        f"p99 {mapped.latencies_us[1]:,.1f} -> {pooled.latencies_us[1]:,.1f} us.",
    )
    return all(row.complete for row in figures)


def _measure(ground: Ground, setting: Setting, telling: Telling) -> list[Figures]:
    counters = Counters()
    try:
        job = ComparisonJob(
            ground.path,
            setting.corpus_file,
            setting.segment_size,
            _COMPARISON_RATE,
            setting.seconds,
        )
        with (
            Child("comparison", job.as_json(), counters) as child,
            telling.bars(measured_runs=RUNS) as bars,
        ):
            deadline = time.monotonic() + _MEASURING_TIMEOUT_S
            while child.running and counters.cells[MEASURED] < RUNS:
                if time.monotonic() > deadline:
                    raise ChildError(f"measuring took longer than {_MEASURING_TIMEOUT_S:g} s")
                bars.show(counters.cells[MEASURED])
                time.sleep(0.05)
            return [Figures(**row) for row in child.answer()["figures"]]
    finally:
        counters.close()


if __name__ == "__main__":
    sys.exit(main())
