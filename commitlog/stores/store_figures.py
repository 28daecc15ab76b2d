"""StoreFigures: how far a log is stored, and how well that works."""

from __future__ import annotations

from dataclasses import dataclass

from commitlog.extension import StoredMark


@dataclass(frozen=True)
class StoreFigures:
    """What a `StoreService` reports.

    Attributes
    ----------
    stored_position : int
        The store has what is below this position; 0 before the store was compared with the log.
    kept_position : int
        Each segment below this position is stored whole, so retention may delete it.
    lag_bytes : int
        The bytes between `stored_position` and the log's end.
    lag_s : float
        Seconds since all that was appended was stored; 0.0 if all of it is stored now.
    last_error : str or None
        Why the last round failed, or why the service ended; None after a round that succeeded.
    failed_rounds : int
        How many rounds failed. Each is tried again, except the last one of a service that ended.
    requests : int
        The calls of the store or directory, without those that its library repeated.
    is_storing : bool
        Whether this handle stores the log. If several handles have a log open with a store, one
        of them does.
    """

    stored_position: int
    kept_position: int
    lag_bytes: int
    lag_s: float
    last_error: str | None
    failed_rounds: int
    requests: int
    is_storing: bool

    @property
    def is_known(self) -> bool:
        """Whether this handle stores the log, and has compared the store with it."""
        return self.is_storing and self.stored_position > 0

    def mark(self, target: str) -> StoredMark:
        """Return what the file `stored` says of a store."""
        return StoredMark(
            target,
            self.kept_position,
            self.stored_position,
            self.last_error,
            failed_rounds=self.failed_rounds,
            requests=self.requests,
        )
