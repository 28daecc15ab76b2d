"""PostingService: builds the posting lists of sealed segments behind the appends."""

from __future__ import annotations

from commitlog.base.service import Service
from commitlog.tail.postings import LogPostings

_ROUND_S = 0.5


class PostingService(Service):
    """Look for sealed segments without posting lists, and build these. A thread of its own: a build
    takes seconds, for which no append may wait.
    """

    def __init__(self, path: str, postings: LogPostings) -> None:
        super().__init__(f"commitlog lists {path}")
        self._postings = postings

    def run(self) -> None:
        while not self.ending.wait(_ROUND_S):
            self._postings.build_missing(self.ending.is_set)
