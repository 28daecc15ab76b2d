"""Which records are shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from commitlog.cli.pattern import Pattern, Rows, values_of
from commitlog.tail.batch import Batch


class Filter:
    """Lets pass what every pattern of `include` finds something in, and no pattern of `exclude` does.

    Parameters
    ----------
    include, exclude : sequence of Pattern
        Each is a condition of its own.
    """

    def __init__(self, include: Sequence[Pattern] = (), exclude: Sequence[Pattern] = ()) -> None:
        self._include = include
        self._exclude = exclude

    def __bool__(self) -> bool:
        return bool(self._include or self._exclude)

    def rows(self, batch: Batch) -> Rows:
        """The rows of a batch that pass, ascending."""
        if self._include:
            kept, further = self._include[0].rows(batch), self._include[1:]
        else:
            kept, further = np.arange(len(batch)), ()
        if len(kept) and (further or self._exclude):
            passing = [
                all(pattern.search(value) for pattern in further) and not any(pattern.search(value) for pattern in self._exclude)
                for value in values_of(batch, kept)
            ]
            kept = kept[np.array(passing, dtype=bool)]
        return kept
