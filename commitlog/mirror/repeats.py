"""Repeats: what a consumer of a mirrored topic drops."""

from __future__ import annotations

from collections.abc import Iterable

LOG, EPOCH, POSITION = "commitlog-log", "commitlog-epoch", "commitlog-position"
SEQUENCE, TYPE, TOPIC = "commitlog-sequence", "commitlog-type", "commitlog-topic"
TIMESTAMP = "commitlog-timestamp-ns"


class Repeats:
    """Find the records that a mirror without `transactional_id` has sent twice.

    After a kill, a mirror sends again what the broker had not acknowledged. Such a record has the
    same position, and records of a partition come in the order of their positions. A consumer keeps
    one object for as long as it reads, and gives it all records, in the order of their partitions.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, bytes], int] = {}

    def has(self, partition: int, headers: Iterable[tuple[str, bytes | None]] | None) -> bool:
        """Return whether a record was seen before, and remember it; False for a record that no
        mirror has sent.
        """
        found = dict(headers or ())
        log, position = found.get(LOG), found.get(POSITION)
        if log is None or position is None or not position.isdigit():
            return False
        key, number = (partition, log), int(position)
        if number <= self._seen.get(key, -1):
            return True
        self._seen[key] = number
        return False
