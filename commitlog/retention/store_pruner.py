"""Delete a store's oldest segments by age and size."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from commitlog._kernel.segments import read_opened
from commitlog.base.failpoint import failpoint
from commitlog.retention import retention as clock
from commitlog.retention.archived import archived_name, read_header
from commitlog.retention.store import Store
from commitlog.retention.store_lease import leased_position
from commitlog.retention.tail_object import read_contents
from commitlog.retention.target import Target
from commitlog.segment.identity import Identity

_logger = logging.getLogger("commitlog.store")


def prune_store(target: Target, identity: Identity, store: Store) -> None:
    """Delete whole segments that exceed a limit of the store, oldest first, but never the last one
    nor one that a reader has leased.
    """
    if store.max_age is None and store.max_bytes is None:
        return
    wanted = list(_exceeding(target, identity, store))
    leased = leased_position(target) if wanted else None
    size = identity.segment_size
    gone = [number for number in wanted if leased is None or (number + 1) * size <= leased]
    for number in gone:
        target.delete([archived_name(number * size)])
        failpoint("stored segment deleted")
    if gone:
        _logger.info("%s: deleted %d old segments", target.name, len(gone))


def _exceeding(target: Target, identity: Identity, store: Store) -> Iterator[int]:
    contents = read_contents(target, identity.segment_size)
    stored = sum(contents.sizes.values()) + sum(contents.part_bytes.values())
    for number in list(contents.sizes)[:-1]:
        too_large = store.max_bytes is not None and stored > store.max_bytes
        if not too_large and not _is_old(target, identity, store, number, contents.sizes):
            return
        stored -= contents.sizes[number]
        yield number


def _is_old(
    target: Target, identity: Identity, store: Store, number: int, sizes: dict[int, int]
) -> bool:
    """Return whether the log rolled past a segment long enough ago, by its successor's header."""
    if store.max_age is None or number + 1 not in sizes:
        return False
    header = read_header(target, (number + 1) * identity.segment_size, identity)
    opened = read_opened(header)
    if opened is None:
        return False
    return clock.now_ns() - opened[0] >= store.max_age.total_seconds() * 1e9
