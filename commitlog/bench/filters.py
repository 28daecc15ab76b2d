"""`commitlog tail --include` over lines of text, and grep over the same ones."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from commitlog.bench.case import Case
from commitlog.bench.ground import Ground, SkippedError
from commitlog.bench.sample import Meter, Sample
from commitlog.cli.filter import Filter
from commitlog.cli.moment import Clock
from commitlog.cli.output import Output
from commitlog.cli.pattern import Pattern
from commitlog.cli.printed import TextForm
from commitlog.cli.view import Manner, View
from commitlog.log import CommitLog

# One with a text in it that can be looked for, and one of kinds of bytes alone. Each finds the same lines.
PATTERNS = {"text": "ERROR.*timeout", "kinds": "[0-9]{7}"}
_LINES = 1000  # of which one matches
_BATCH = 10_000


def _lines(size: int) -> list[bytes]:
    """Lines of a size, each with words of its own."""
    made = []
    for number in range(_LINES):
        found = number == _LINES // 2
        word = "ERROR gateway timeout" if found else "DEBUG request accepted"
        line = f"2026-05-01T12:{number % 60:02d} {word} id={number * 7919 % 100_000 + 1_000_000 * found} took {number % 97} ms, "
        made.append((line * (size // len(line) + 1)).encode()[:size])
    return made


def _text(case: Case, total: int) -> tuple[Iterator[bytes], int]:
    """As many of them as take so many bytes, and how many that is."""
    count = max(_LINES, total // case.value_size)
    return itertools.islice(itertools.cycle(_lines(case.value_size)), count), count


def measure(ground: Ground, case: Case, _hashed: bool) -> Sample:
    """Print what passes the filter into a file, over and over."""
    settings = ground.settings
    lines, count = _text(case, settings.read_bytes)
    with ground.log(case, 2 * settings.read_bytes) as log, ground.place(settings.read_bytes) as place:
        while part := list(itertools.islice(lines, _BATCH)):
            log.append_many(part)
        log.commit()
        with Meter(case.value_size) as meter:
            _repeat(meter, settings.read_s, count, lambda: _view(log, place, PATTERNS[case.form]))
    return meter.sample


def _view(log: CommitLog, place: Path, pattern: str) -> None:
    manner = Manner(
        form=TextForm(["value"], Clock()),
        sequences=False,
        chosen=Filter([Pattern(pattern)]),
        until=None,
        limit=None,
        pace=None,
        idle="backoff",
    )
    with open(place, "w", encoding="utf-8") as target, contextlib.redirect_stdout(target), log.tailer() as tailer:
        View(log, tailer, manner, Output()).print_present()


def measure_grep(form: str, ground: Ground, case: Case, _hashed: bool) -> Sample:
    """GNU grep, or whatever the machine has, bytes for characters."""
    grep = shutil.which("grep")
    if grep is None:
        raise SkippedError("there is no grep to compare with")
    settings = ground.settings
    lines, count = _text(case, settings.read_bytes)
    with ground.place(2 * settings.read_bytes) as place, Meter(case.value_size) as meter:
        place.write_bytes(b"\n".join(lines) + b"\n")
        found = place.with_name(f"{place.name}.found")

        def search() -> None:
            with open(found, "wb") as target:
                subprocess.run([grep, "-E", PATTERNS[form], str(place)], stdout=target, env={"LC_ALL": "C"}, check=True)

        _repeat(meter, settings.read_s, count, search)
        found.unlink()
    return meter.sample


def _repeat(meter: Meter, seconds: float, count: int, work: Callable[[], None]) -> None:
    """The first time, which brings the pages in, is not counted."""
    work()
    clock = time.perf_counter_ns
    deadline = clock() + int(seconds * 1e9)
    while not meter.sample.records or clock() < deadline:
        began = clock()
        work()
        meter.note(began, clock() - began, count)
