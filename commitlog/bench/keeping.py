"""What it costs appends that segments are indexed, told of, and let go behind them."""

from __future__ import annotations

import time
from itertools import repeat

import commitlog
from commitlog import Retention
from commitlog.bench.case import Case
from commitlog.bench.ground import Ground, frame_size, value_of, what_is_written
from commitlog.bench.sample import Meter, Sample
from commitlog.keep import SegmentListener
from commitlog.options import INDEX_SPACING_LARGEST, SEGMENT_SIZE_SMALLEST

FORMS = ("without", "with")
_SEGMENTS_IN_ONE = 4  # the segments are so much smaller than elsewhere, so that they come and go all the time
_SEGMENTS_KEPT = 4
_BYTES_IN_ONE = 4
_INTERVAL = "100ms"  # six hundred times as often as by default
_BLOCK = 1024


def measure(ground: Ground, case: Case, hashed: bool) -> Sample:
    """One call a record, without a rest, until the size is reached; what the services still have to do then is not waited for.

    The forms: "with", where segments are indexed, a listener is told of each, and retention looks ten times a second and deletes them;
    "without", where the index has next to nothing in it and the others are not there.
    """
    settings = ground.settings
    segment_size = max(SEGMENT_SIZE_SMALLEST, settings.segment_size // _SEGMENTS_IN_ONE)
    total = _BYTES_IN_ONE * settings.append_bytes
    value, count = value_of(case.value_size), max(1, total // frame_size(case.value_size) // _BLOCK)
    options = ground.options(case, segment_size)
    if case.form == "with":
        options["listener"] = SegmentListener()
        options["retention"] = Retention(max_bytes=_SEGMENTS_KEPT * segment_size, interval=_INTERVAL)
    else:
        options["index_spacing"] = INDEX_SPACING_LARGEST
    clock = time.perf_counter_ns
    with (
        ground.place(total) as path,
        commitlog.open(path, **options) as log,
        Meter(case.value_size) as meter,
    ):
        append = log.append
        for _ in range(count):
            began = clock()
            for _ in repeat(None, _BLOCK):
                append(value)
            meter.note(began, clock() - began, _BLOCK)
        log.flush(timeout=60)
        if case.form == "with":
            # Until it has nothing more to delete: what is read back then stays.
            log.prune()
            meter.sample.facts = {"deleted_bytes": log.first_position}
        if hashed:
            meter.sample.written = what_is_written(log, case.value_size)
    return meter.sample
