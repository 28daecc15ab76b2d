"""Poll for a condition that has no notification."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from commitlog.base.host import host

POLL_INTERVAL_S = 0.005
_SILENCE_S = 1.0

_logger = logging.getLogger("commitlog")


def attempts(
    timeout_s: float, awaited: str, *, interval_s: float = POLL_INTERVAL_S
) -> Iterator[None]:
    """Yield once, then once per interval until the timeout; the caller polls in the loop body.

    A timeout of 0 polls once. A wait of more than a second is logged, with what is `awaited`.
    """
    began_s = host.monotonic()
    silent = True
    while True:
        yield
        waited_s = host.monotonic() - began_s
        if waited_s >= timeout_s:
            return
        if silent and waited_s >= _SILENCE_S:
            silent = False
            _logger.info("waiting for %s, at most %g s", awaited, timeout_s)
        host.sleep(min(timeout_s - waited_s, interval_s))
