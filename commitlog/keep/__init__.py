"""What becomes of old segments: how long they are kept, who is told of them, where they go."""

from commitlog.keep.outside import prune
from commitlog.keep.pruner import Pruned, Removal
from commitlog.keep.retention import Retention

__all__ = ["Pruned", "Removal", "Retention", "prune"]
