"""Delete a store's oldest segments by age and size."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import pairwise

from commitlog.base.failpoint import failpoint
from commitlog.base.host import host
from commitlog.extension import SegmentHeader
from commitlog.stores.archived import archived_name, read_header
from commitlog.stores.contents import Contents, read_contents
from commitlog.stores.store_lease import expire_leases
from commitlog.stores.store_options import StoreOptions
from commitlog.stores.target import Target
from commitlog.types import Identity

_logger = logging.getLogger("commitlog.store")


def prune_store(target: Target, identity: Identity, store: StoreOptions, first: int = 0) -> None:
    """Delete whole segments that exceed a limit of the store, or are below the `first` one, oldest
    first, but never the last one nor one that a reader has leased.
    """
    if store.max_age is None and store.max_bytes is None and not first:
        return
    size = identity.segment_size
    contents = read_contents(target, size)
    wanted = list(_exceeding(target, identity, store, contents, first))
    leased = expire_leases(target) if wanted else None
    gone = [number for number in wanted if leased is None or (number + 1) * size <= leased]
    for number in gone:
        target.delete([archived_name(number * size)])
        failpoint("stored segment deleted")
    if gone:
        _logger.info("%s: deleted %d old segments", target.name, len(gone))
        first = next(number for number in contents.sizes if number not in gone)
        _delete_before(target, contents, first, size)


def _delete_before(target: Target, contents: Contents, first: int, size: int) -> None:
    """Delete the gaps before a segment, and the parts before them."""
    names = [gap.name for gap in contents.gaps if gap.stop <= first * size]
    names += [part.name for each, parts in contents.parts.items() if each < first for part in parts]
    target.delete(names)


def _exceeding(
    target: Target, identity: Identity, store: StoreOptions, contents: Contents, first: int
) -> Iterator[int]:
    stored = sum(contents.sizes.values()) + sum(contents.part_bytes.values())
    for number, onward in pairwise(contents.sizes):
        too_large = store.max_bytes is not None and stored > store.max_bytes
        too_low = number < first
        if not too_low and not too_large and not _is_old(target, identity, store, onward):
            return
        stored -= contents.sizes[number]
        yield number


def _is_old(target: Target, identity: Identity, store: StoreOptions, onward: int) -> bool:
    """Return whether the log rolled long enough ago into a segment, by its header."""
    if store.max_age is None:
        return False
    header = read_header(target, onward * identity.segment_size, identity)
    opened_ns = SegmentHeader(header).opened_ns
    if opened_ns is None:
        return False
    return bool(host.time_ns() - opened_ns >= store.max_age.total_seconds() * 1e9)
