"""Resolve futures of event loops from another thread, with one call into each loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

Outcome = tuple["asyncio.Future[None]", Exception | None]


def resolve(outcomes: Iterable[Outcome]) -> None:
    """Complete each future, of any loop, without a result or with an error; skip cancelled ones."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for future, error in outcomes:
        by_loop.setdefault(future.get_loop(), []).append((future, error))
    for loop, of_loop in by_loop.items():
        # A closed loop rejects the call, and no coroutine of it waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(resolve_here, of_loop)


def resolve_here(outcomes: Iterable[Outcome]) -> None:
    """Complete the futures of one loop, in its thread."""
    for future, error in outcomes:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
