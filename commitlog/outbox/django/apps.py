"""The app of Django."""

from __future__ import annotations

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    """The app, with the label of its tables."""

    name = "commitlog.outbox.django"
    label = "commitlog_outbox"
    verbose_name = "Outbox of commitlog"
    default_auto_field = "django.db.models.BigAutoField"
