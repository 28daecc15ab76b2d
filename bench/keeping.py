"""What it costs appends that segments are indexed, told of, and let go behind them."""

from __future__ import annotations

import statistics
import time
from itertools import repeat

import commitlog
from commitlog import CommitLog, Retention, Tuning
from commitlog.extension import frame_size
from commitlog.keep import SegmentListener
from commitlog.options import SEGMENT_SIZE_SMALLEST
from commitlog.options.tuning import INDEX_SPACING_LARGEST
from commitlog.tools.bench.case import Case
from commitlog.tools.bench.sample import Meter, Sample
from commitlog.tools.bench.workspace import Workspace, value_of

_PAIRS = 2
_SEGMENTS_IN_ONE = (
    4  # the segments are so much smaller than elsewhere, so that they come and go all the time
)
_SEGMENTS_KEPT = 2
_BYTES_IN_ONE = 3  # a piece is so much more than is appended elsewhere
_INTERVAL = "100ms"  # six hundred times as often as by default
_BLOCK = 1024


def measure(workspace: Workspace, case: Case) -> Sample:
    """One call a record, without a rest, in pieces of which every other one has all of it: segments
    are indexed, a listener is notified of each, and retention looks ten times a second and deletes
    them. In the others the index has next to nothing in it, and the rest is not there.

    The share of the rate that is left is the median of the pairs: a shared machine may be another
    one a second later. What the services still have to do at the end of a piece is not counted.
    """
    settings = workspace.settings
    segment_size = max(SEGMENT_SIZE_SMALLEST, settings.segment_size // _SEGMENTS_IN_ONE)
    total = _BYTES_IN_ONE * settings.append_bytes
    value, blocks = (
        value_of(case.value_size),
        max(1, total // frame_size(case.value_size) // _BLOCK),
    )
    bare, full = workspace.options(case, segment_size), workspace.options(case, segment_size)
    bare["tuning"] = Tuning(index_spacing=INDEX_SPACING_LARGEST)
    full["listener"] = SegmentListener()
    full["retention"] = Retention(max_bytes=_SEGMENTS_KEPT * segment_size, interval=_INTERVAL)
    shares, deleted = [], 0
    with Meter(case.value_size) as meter:
        for pair in range(_PAIRS):
            took_ns = {}
            for keeps in (False, True) if pair % 2 else (True, False):
                with (
                    workspace.path(total) as path,
                    commitlog.open(path, **(full if keeps else bare)) as log,
                ):
                    took_ns[keeps] = _append(log, value, blocks, meter if keeps else None)
                    log.flush(timeout=60)
                    if keeps:
                        # until it has nothing more to delete: what is read back then stays
                        log.prune()
                        deleted += log.first_position
            shares.append(took_ns[False] / took_ns[True])
    meter.sample.facts = {
        "share": statistics.median(shares),
        "shares": shares,
        "deleted_bytes": deleted,
    }
    return meter.sample


def _append(log: CommitLog, value: bytes, blocks: int, meter: Meter | None) -> int:
    """Nanoseconds of all blocks, noted where there is a meter."""
    append, clock = log.append, time.perf_counter_ns
    began = clock()
    for _ in repeat(None, blocks * _BLOCK):
        append(value)
    took = clock() - began
    if meter is not None:
        meter.note(took, blocks * _BLOCK)
    return took
