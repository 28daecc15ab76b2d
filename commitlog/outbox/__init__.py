"""An outbox: a table that a program writes in its database's transactions, and a relay that moves
the rows into a log, each exactly once. See docs/outbox.md.
"""

from __future__ import annotations

from commitlog.base.extras import imported

imported("sqlalchemy", "commitlog.outbox", "outbox")

from commitlog.outbox.outbox import Outbox, OutboxStats  # noqa: E402
from commitlog.outbox.relay import Relay  # noqa: E402

__all__ = ["Outbox", "OutboxStats", "Relay"]
