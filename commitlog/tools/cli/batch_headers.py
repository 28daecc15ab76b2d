"""The headers of the rows that `cat` and `tail` print."""

from __future__ import annotations

from commitlog import Batch
from commitlog.tools.cli.filter import Rows
from commitlog.tools.cli.output import echo

Headers = dict[str, bytes]


class BatchHeaders:
    """Read headers. With `skips`, report those that are damaged; else they end the command.

    Attributes
    ----------
    damaged : int
        How many records had damaged headers.
    """

    def __init__(self, *, skips: bool = False) -> None:
        self._skips = skips
        self.damaged = 0

    def of(self, batch: Batch, rows: Rows) -> list[Headers | None]:
        """Return the headers of some rows; None for damaged ones."""
        headers = batch.sound_headers if self._skips else batch.headers
        for row in rows.tolist():
            if headers[row] is None:
                self.damaged += 1
                position = int(batch.positions[row])
                echo(f"commitlog: damage: no headers of the record at {position}", err=True)
        return [headers[row] for row in rows.tolist()]
