"""The outbox for Django: add ``commitlog.outbox.django`` to `INSTALLED_APPS`, and migrate.

`put` puts a record into the outbox in the present transaction, and ``manage.py commitlog_outbox
LOG`` is the relay. The table is `commitlog_outbox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from commitlog.outbox.row import row_of

__all__ = ["put"]


def put(
    value: bytes,
    *,
    key: bytes | None = None,
    type: int = 0,
    headers: Mapping[str, bytes] | None = None,
    topic: str | None = None,
    using: str | None = None,
) -> None:
    """Put a record into the outbox, in the transaction of the database `using`: see `Outbox.put`.

    Call it in ``transaction.atomic()``, with the changes that the record is about.
    """
    from commitlog.outbox.django.models import OutboxRow  # needs the apps loaded

    OutboxRow.objects.using(using).create(**row_of(value, key, type, headers, topic))
