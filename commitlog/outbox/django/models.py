"""The tables of an outbox as models: the columns are those of `OutboxTables`."""

from __future__ import annotations

from django.db import models


class OutboxRow(models.Model):
    """A record that the relay moves into the log; with an `error`, one that the log cannot take."""

    id = models.BigAutoField(primary_key=True)
    value = models.BinaryField()
    key = models.BinaryField(null=True)
    headers = models.TextField(null=True)
    type = models.BigIntegerField(default=0)
    topic = models.TextField(null=True)
    put_ns = models.BigIntegerField(null=True)
    error = models.TextField(null=True)

    class Meta:
        db_table = "commitlog_outbox"

    def __str__(self) -> str:
        return f"row {self.id}"


class OutboxRelay(models.Model):
    """The state of the relay: one row, which only the relay writes."""

    id = models.IntegerField(primary_key=True)
    producer = models.TextField()
    log = models.TextField()
    number = models.BigIntegerField()
    batch = models.TextField()
    position = models.BigIntegerField()
    checksum = models.BigIntegerField()
    last = models.BigIntegerField()

    class Meta:
        db_table = "commitlog_outbox_relay"

    def __str__(self) -> str:
        return f"relay to {self.log}"
