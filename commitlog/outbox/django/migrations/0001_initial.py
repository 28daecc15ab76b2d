"""Create the tables, and on PostgreSQL the trigger that wakes the relay."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

from commitlog.outbox.tables import notify_sql


def notify(apps: Any, editor: Any) -> None:
    if editor.connection.vendor == "postgresql":
        for statement in notify_sql("commitlog_outbox"):
            editor.execute(statement)


class Migration(migrations.Migration):
    """The first one."""

    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="OutboxRow",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("value", models.BinaryField()),
                ("key", models.BinaryField(null=True)),
                ("headers", models.TextField(null=True)),
                ("type", models.BigIntegerField(default=0)),
                ("topic", models.TextField(null=True)),
                ("put_ns", models.BigIntegerField(null=True)),
                ("error", models.TextField(null=True)),
            ],
            options={"db_table": "commitlog_outbox"},
        ),
        migrations.CreateModel(
            name="OutboxRelay",
            fields=[
                ("id", models.IntegerField(primary_key=True, serialize=False)),
                ("producer", models.TextField()),
                ("log", models.TextField()),
                ("number", models.BigIntegerField()),
                ("batch", models.TextField()),
                ("position", models.BigIntegerField()),
                ("checksum", models.BigIntegerField()),
                ("last", models.BigIntegerField()),
            ],
            options={"db_table": "commitlog_outbox_relay"},
        ),
        migrations.RunPython(notify, migrations.RunPython.noop),
    )
