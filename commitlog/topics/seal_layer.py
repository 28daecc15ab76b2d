"""The layer of a schema whose messages are sealed, and how well it protects them."""

from __future__ import annotations

from commitlog.topics.schema import Schema

NAME = "aes-256-gcm"
# From which position on the log has only sealed messages of the topic, and, in a layer of messages
# that are sealed for their positions, only those.
SINCE = "since"
POSITIONS = "positions"
KEYS = "record_keys"  # of a layer whose record keys are sealed, too: their wrapped key
_KNOWN = {"name", SINCE, POSITIONS, KEYS}
PLAIN, SEALED, BOUND = range(3)  # the ranks of schemas


def rank_of(schema: Schema) -> int:
    """Return whether the messages of a schema are sealed, and for their positions."""
    last = schema.layers[-1] if schema.layers else {}
    starts = (last.get(SINCE), last.get(POSITIONS, 0))
    if last.get("name") != NAME or last.keys() - _KNOWN:
        return PLAIN
    if any(type(each) is not int or each < 0 for each in starts):
        return PLAIN
    return BOUND if POSITIONS in last else SEALED


def start_of(schema: Schema, rank: int) -> int:
    """Return from which position on messages of the topic have at least a rank, which is not above
    that of the schema.
    """
    start: int = schema.layers[-1][POSITIONS if rank == BOUND else SINCE]
    return start


def is_sealed(schema: Schema) -> bool:
    """Return whether the messages of a schema are sealed."""
    return rank_of(schema) >= SEALED


def has_positions(schema: Schema) -> bool:
    """Return whether the messages of a schema are sealed for their positions."""
    return rank_of(schema) == BOUND


def has_sealed_keys(schema: Schema) -> bool:
    """Return whether the record keys of the messages of a schema are sealed, too."""
    return is_sealed(schema) and isinstance(schema.layers[-1].get(KEYS), str)
