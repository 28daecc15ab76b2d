"""Waiting by looking again and again, for what nobody announces."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

POLL_INTERVAL_S = 0.005
_SILENCE_S = 1.0

_logger = logging.getLogger("commitlog")


def attempts(
    timeout_s: float, awaited: str, *, interval_s: float = POLL_INTERVAL_S
) -> Iterator[None]:
    """Loop over this to look once at least, then once an interval until the time is up.

    Parameters
    ----------
    timeout_s : float
        Seconds until the last look; 0 looks once.
    awaited : str
        What the caller waits for. A wait of more than a second logs it.
    interval_s : float
        Seconds between two looks.
    """
    began_s = time.monotonic()
    silent = True
    while True:
        yield
        waited_s = time.monotonic() - began_s
        if waited_s >= timeout_s:
            return
        if silent and waited_s >= _SILENCE_S:
            silent = False
            _logger.info("waiting for %s, at most %g s", awaited, timeout_s)
        time.sleep(min(timeout_s - waited_s, interval_s))
