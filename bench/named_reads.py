"""What a named tailer adds to reading, which keeps its place in the log."""

from __future__ import annotations

import statistics
import time

from bench.reads import fill, timed, values
from commitlog.tools.bench.case import Case
from commitlog.tools.bench.sample import Meter, Sample
from commitlog.tools.bench.workspace import Workspace


def measure(workspace: Workspace, case: Case) -> Sample:
    """Read a whole log without a name and with one, over and over.

    `added_s` is the median difference of the pairs, a record: half a second later a shared machine
    may be another one.
    """
    settings = workspace.settings
    clock = time.perf_counter_ns
    added_s = []
    with workspace.log(case, settings.append_bytes) as log:
        count = fill(log, case.value_size, settings.append_bytes)
        with log.tailer() as plain, log.tailer("bench") as named, Meter(case.value_size) as meter:
            values(plain)
            values(named)
            deadline = clock() + int(settings.sync_s * 1e9)
            while not meter.sample.records or clock() < deadline:
                plain_ns, named_ns = timed(values, plain), timed(values, named)
                added_s.append((named_ns - plain_ns) / count / 1e9)
                meter.note(named_ns, count)
        meter.sample.facts = {"added_s": statistics.median(added_s)}
    return meter.sample
