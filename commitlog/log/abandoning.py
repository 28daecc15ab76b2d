"""Abandon a log: release its files as the death of its process does. Simulations kill so."""

from __future__ import annotations

from commitlog._kernel.engine import REFUSED_CLOSED
from commitlog.log.parts import LogParts
from commitlog.log.registry import registry


def abandon(parts: LogParts) -> None:
    """Release the locks, descriptors and mappings of a handle, and write nothing: no record is
    flushed, no slot given back, and there is no seal, checkpoint or clean mark.

    Other handles of the log go on, and find this one dead. No thread of the handle may run.
    """
    parts.closed = True
    parts.engine.refusal = REFUSED_CLOSED
    parts.engine.forget_slot()
    for file in parts.known():
        file.abandon()
    parts.unmap()
    registry.discard(parts)
    parts.engine.leave_kernel()  # which closes the rest after the last call
