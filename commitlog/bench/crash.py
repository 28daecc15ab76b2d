"""A process of its own that fills a log and dies.

Run as ``python -m commitlog.bench.crash PATH VALUE_SIZE BYTES SEGMENT_SIZE BUFFERS BACKING``.
"""

from __future__ import annotations

import os
import sys

import commitlog
from commitlog.bench.ground import fill
from commitlog.options import OptionOverrides, Tuning

# So that nothing is taken for durable before the end: recovery then has the whole log before it.
_NEVER_S = 3600


def main() -> None:
    """Append, and leave without closing anything."""
    path, value_size, total_bytes, segment_size, buffers, backing = sys.argv[1:]
    options: OptionOverrides = {
        "flush": "none",
        "tuning": Tuning(checkpoint_interval=_NEVER_S),
        "segment_size": int(segment_size),
    }
    if backing:
        options["pool"] = commitlog.TransientStorePool(
            buffers=int(buffers),
            buffer_size=int(segment_size),
            backing="shm" if backing == "shm" else "anonymous",
            low_water=0,
        )
    log = commitlog.open(path, **options)
    fill(log, int(value_size), int(total_bytes))
    os._exit(0)


if __name__ == "__main__":
    main()
